"""Learning rates that fall to the end of a run: samples of any length tell of one curve, and a plan has a length."""

from __future__ import annotations

import numpy as np
import pytest

from cotune.forecast import Learning
from cotune.plan.assess import Assessment, assess
from cotune.plan.nearest import infeasible
from cotune.predict.learn import forecaster
from cotune.predict.learning.schedules import candidates, contradiction, falling, travelled
from cotune.space import Configs
from cotune.types import Cluster, Config, Evaluation, Floats, Goal, Job, Sample

CONFIG = Config.data_parallel(32, 1)
SCHEDULES: tuple[str, ...] = ("cosine", "linear", "one_cycle", "wsd(0.4)", "cosine warmup(0.1)", "step(0.5,0.8)")


def _end(progress: Floats | float) -> Floats:
    return np.asarray(0.9 - 0.3 * (np.asarray(progress) + 0.5) ** -0.8)


def _trained(schedule: str, length: int, until: int | None = None, noise: float = 0.0, gain: float = 0.05) -> Sample:
    """Return a run that was told a length, of a job that learns by progress and gains as its rate falls."""
    epochs = np.arange(1.0, (until or length) + 1)
    ln_progress, rate = travelled(candidates(schedule)[0][0], epochs, np.full(len(epochs), float(length)))
    values = _end(np.exp(ln_progress)) - gain * rate
    values += noise * np.random.default_rng(length).standard_normal(len(values))
    curve = tuple(Evaluation(float(e), float(v), float(e)) for e, v in zip(epochs, values, strict=True))
    return Sample(CONFIG, epochs[-1], 1.0, curve[-1].accuracy, curve=curve, seconds=epochs[-1], length=length)


def _job(schedule: str | None) -> Job:
    return Job("annealed", examples=3200, schedule=schedule)


def _assessed(job: Job, samples: list[Sample], goal: Goal, most: int = 40) -> Assessment:
    outlook = forecaster(job, samples, Cluster())(Configs.of([CONFIG]), most)
    return assess(outlook, goal, Cluster(), job.sign)


def _learning(job: Job, samples: list[Sample], most: int = 40) -> Learning:
    found = forecaster(job, samples, Cluster())(Configs.of([CONFIG]), most).learning
    assert found is not None
    return found


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_ends_of_longer_runs_are_told_by_those_of_short_ones_and_the_beginning_of_a_long_one(schedule: str) -> None:
    samples = [_trained(schedule, 4), _trained(schedule, 8), _trained(schedule, 20, 12)]
    learning = _learning(_job(schedule), samples)
    middle = np.median(learning.shown[0], axis=0)
    for length in (8, 16, 32):
        assert middle[length - 1] == pytest.approx(_trained(schedule, length).accuracy, abs=0.02)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_run_shows_its_end_at_the_end_of_its_length_and_nothing_after_it(schedule: str) -> None:
    learning = _learning(_job(schedule), [_trained(schedule, 4), _trained(schedule, 8)])
    assert learning.of_length is not None
    way = learning.of_length(np.array([20.0]))
    medians, ends = np.median(way.shown[0], axis=0), np.median(learning.shown[0], axis=0)
    assert medians[19] == pytest.approx(ends[19], abs=0.01)
    assert np.all(medians[:5] < ends[19])
    assert np.ptp(way.shown[0, :, 19:], axis=1).max() == 0, "nothing is trained after the end"


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_forecasts_of_annealed_runs_stay_within_what_a_share_and_a_loss_can_be(schedule: str) -> None:
    values = (0.55, 0.7, 0.8, 0.86, 0.9, 0.94, 0.97, 0.99)
    shares = tuple(Evaluation(float(at), value, float(at)) for at, value in enumerate(values, 1))
    losses = tuple(Evaluation(one.epoch, 0.05 * (1 - one.accuracy), one.seconds) for one in shares)
    for job, curve, target in (
        (_job(schedule), shares, 0.98),
        (Job("annealed", examples=3200, schedule=schedule, metric="loss", better="lower"), losses, 0.001),
    ):
        sample = Sample(CONFIG, 8.0, 1.0, curve[-1].accuracy, curve=curve, seconds=8.0, length=16)
        shown = job.sign * _learning(job, [sample]).shown
        assert shown.min() >= 0
        assert job.sign < 0 or shown.max() <= 1
        found = _assessed(job, [sample], Goal(target=target, max_epochs=40)).forecast(0).accuracy
        assert found is not None
        assert 0 <= found.low <= found.mid <= found.high <= 1


@pytest.mark.parametrize("schedule", ["cosine", "linear"])
def test_a_deadline_that_is_too_tight_is_told_with_the_one_that_would_do(schedule: str) -> None:
    job = _job(schedule)
    outlook = forecaster(job, [_trained(schedule, 4), _trained(schedule, 8)], Cluster())(Configs.of([CONFIG]), 40)
    goal = Goal(target=0.8, deadline=2.0, max_epochs=40)
    refused = infeasible(job, assess(outlook, goal, Cluster(), job.sign))
    assert refused.constraint == "deadline"
    offered = refused.facts["relaxed"]
    assert isinstance(offered, Goal)
    assert assess(outlook, offered, Cluster(), job.sign).feasible.any()


@pytest.mark.parametrize("schedule", ["cosine", "linear"])
def test_the_length_of_a_plan_is_that_of_the_run_that_ends_at_the_target(schedule: str) -> None:
    goal = Goal(target=float(_trained(schedule, 12).accuracy or 0.0), max_epochs=40)
    samples = [_trained(schedule, length, noise=0.0005) for length in (2, 4, 8)]
    planned = _assessed(_job(schedule), samples, goal).forecast(0)
    assert planned.epochs_needed is not None
    assert planned.probability >= goal.confidence
    assert 12 <= planned.epochs <= 30  # told longer, to be sure
    assert planned.epochs_needed.low <= planned.epochs
    assert planned.epochs_needed.mid > 0.4 * planned.epochs  # its rate falls late, and so it meets its target late


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_run_that_is_asked_for_so_many_epochs_is_told_these_also_with_a_target(schedule: str) -> None:
    goal = Goal(target=0.8, epochs=20, max_epochs=20)
    found = _assessed(_job(schedule), [_trained(schedule, 4), _trained(schedule, 8)], goal, 20)
    assert found.forecast(0).epochs == 20


def test_two_runs_of_one_recipe_that_disagree_where_the_shorter_ended_show_a_rate_that_falls() -> None:
    runs = [_trained("cosine", 4, gain=0.15), _trained("cosine", 30, 12, gain=0.15)]
    assert "a run of 4 epochs ended with accuracy" in contradiction(_job(None), runs)
    assert falling(_job(None), runs) == "unknown"
    assert _learning(_job(None), runs).of_length is not None
    assert falling(_job("constant"), runs) is None
    assert _learning(_job("constant"), runs).of_length is None


def test_runs_that_learn_alike_whatever_they_are_told_show_none() -> None:
    long = _trained("cosine", 30)
    short = Sample(CONFIG, 4.0, 1.0, long.curve[3].accuracy, curve=long.curve[:4], seconds=4.0, length=4)
    assert contradiction(_job(None), [short, long]) == ""
    assert falling(_job(None), [short, long]) is None
