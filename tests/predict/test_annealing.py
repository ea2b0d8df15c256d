"""Learning rates that fall to the end of a run: samples of any length tell of one curve, and a plan has a length."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotune.plan.assess import assess
from cotune.plan.nearest import infeasible
from cotune.predict.annealing import Annealing, annealing_of, contradiction
from cotune.predict.learn import forecaster
from cotune.space import Configs
from cotune.types import Cluster, Config, Evaluation, Goal, Job, Sample

CONFIG = Config.data_parallel(32, 1)
SCHEDULES: tuple[str, ...] = ("cosine", "linear", "one_cycle", "wsd(0.4)", "cosine warmup(0.1)", "step(0.5,0.8)")
GAIN = 0.5


def _true(schedule: str) -> Annealing:
    return Annealing(schedule, GAIN, offset=0.5, power=0.8)


def _trained(schedule: str, length: int, until: int | None = None, noise: float = 0.0) -> Sample:
    """Return a run that was told a length, of a job that learns as the law says."""
    epochs = np.arange(1.0, (until or length) + 1)
    worth, below = _true(schedule).way(length, epochs)
    values = 0.9 - 0.3 * (worth + 0.5) ** -0.8 - below
    values += noise * np.random.default_rng(length).standard_normal(len(values))
    curve = tuple(Evaluation(float(e), float(v), float(e)) for e, v in zip(epochs, values, strict=True))
    return Sample(CONFIG, epochs[-1], 1.0, curve[-1].accuracy, curve=curve, seconds=epochs[-1], length=length)


def _job(schedule: str | None) -> Job:
    return Job("annealed", examples=3200, schedule=schedule)


@given(st.sampled_from(SCHEDULES), st.integers(1, 50), st.floats(0.0, 0.5))
def test_the_end_of_a_run_is_a_point_of_the_annealed_curve_as_it_was_measured(
    schedule: str, length: int, gain: float
) -> None:
    sample = _trained(schedule, length)
    last = Annealing(schedule, gain).annealed(_job(schedule), sample).curve[-1]
    assert last.epoch == pytest.approx(length)
    assert last.accuracy == pytest.approx(sample.curve[-1].accuracy)


@given(st.sampled_from(SCHEDULES), st.floats(0.0, 1.0), st.floats(0.0, 2.0), st.booleans())
def test_no_annealed_end_is_beyond_what_the_metric_can_be(
    schedule: str, first: float, gain: float, falls: bool
) -> None:
    job = Job("annealed", examples=3200, schedule=schedule, metric="loss", better="lower") if falls else _job(schedule)
    level = 1 - first if falls else first
    curve = tuple(Evaluation(float(epoch), level, float(epoch)) for epoch in (1, 2, 3))
    sample = Sample(CONFIG, 3.0, 1.0, level, curve=curve, seconds=3.0, length=9)
    ends = Annealing(schedule, gain, 0.0 if falls else 1.0).annealed(job, sample).curve
    assert all(0 <= end.accuracy <= 1 for end in ends)
    assert all(job.meets(level, end.accuracy) for end in ends)
    plain = Annealing(schedule, gain).annealed(job, sample).curve
    near = [one.accuracy for one in plain if abs(one.accuracy - level) <= (level if falls else 1 - level) / 2]
    assert near == pytest.approx([end.accuracy for end in ends][-len(near) :] if near else [])


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
        outlook = forecaster(job, [sample], Cluster())(Configs.of([CONFIG]), 40)
        found = assess(outlook, Goal(target=target, max_epochs=40), Cluster(), job.sign).forecast(0).accuracy
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


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_what_annealing_gains_is_learnt_from_short_runs_and_the_beginning_of_a_long_one(schedule: str) -> None:
    found = annealing_of(_job(schedule), [_trained(schedule, 4), _trained(schedule, 8), _trained(schedule, 40, 12)])
    assert found is not None
    epochs = np.arange(2.0, 12.0)
    below, right = (one.way(12, epochs)[1] for one in (found, _true(schedule)))
    np.testing.assert_allclose(below, right, rtol=0.25)


@pytest.mark.parametrize("schedule", ["cosine", "linear"])
def test_the_length_of_a_plan_is_that_of_the_run_that_ends_at_the_target(schedule: str) -> None:
    target = 0.9 - 0.3 * 12.5**-0.8  # the end of a run of 12 epochs
    job, goal = _job(schedule), Goal(target=target, max_epochs=40)
    samples = [_trained(schedule, length, noise=0.0005) for length in (2, 4, 8)]
    forecast = forecaster(job, samples, Cluster())
    found = assess(forecast(Configs.of([CONFIG]), 40), goal, Cluster(), job.sign)
    planned = found.forecast(0)
    assert planned.epochs_needed is not None
    assert planned.probability >= goal.confidence
    assert 12 <= planned.epochs <= 30  # told longer, to be sure
    assert planned.epochs_needed.low <= planned.epochs
    assert planned.epochs_needed.mid > 0.4 * planned.epochs  # its rate falls late, and so it meets its target late


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_run_that_is_asked_for_so_many_epochs_is_told_these_also_with_a_target(schedule: str) -> None:
    job, goal = _job(schedule), Goal(target=0.8, epochs=20, max_epochs=20)
    forecast = forecaster(job, [_trained(schedule, 4), _trained(schedule, 8)], Cluster())
    found = assess(forecast(Configs.of([CONFIG]), 20), goal, Cluster(), job.sign)
    assert found.forecast(0).epochs == 20
    end = found.outlook.learning
    assert end is not None
    assert end.evaluation[0, -1] == pytest.approx(0.9 - 0.3 * 20.5**-0.8, abs=0.03)


def test_two_runs_of_one_recipe_that_disagree_where_the_shorter_ended_show_a_rate_that_falls() -> None:
    runs = [_trained("cosine", 4), _trained("cosine", 30, 12)]
    assert "a run of 4 epochs ended with accuracy" in contradiction(_job(None), runs)
    assert annealing_of(_job(None), runs) is not None
    assert annealing_of(Job("constant", schedule="constant"), runs) is None


def test_runs_that_learn_alike_whatever_they_are_told_show_none() -> None:
    long = _trained("cosine", 30)
    short = Sample(CONFIG, 4.0, 1.0, long.curve[3].accuracy, curve=long.curve[:4], seconds=4.0, length=4)
    assert contradiction(_job(None), [short, long]) == ""
    assert annealing_of(_job(None), [short, long]) is None


@pytest.mark.parametrize("schedule", SCHEDULES)
@given(share=st.floats(0.001, 1.0))
def test_what_was_trained_is_worth_no_shorter_annealed_run(schedule: str, share: float) -> None:
    """The rise of one cycle counted for so little that runs of a tenth of the steps were planned."""
    worth, _ = Annealing(schedule, GAIN).way(100.0, np.array([100.0 * share]))
    assert worth[0] >= 100.0 * share * (1 - 1e-9)


def test_while_no_run_has_seen_its_fall_no_more_is_expected_of_it_than_is_usual() -> None:
    early = [_trained("one_cycle", 200, until, noise=0.01) for until in (20, 40, 60)]
    found = annealing_of(_job("one_cycle"), early)
    assert found is not None
    shown = [point.accuracy for sample in early for point in sample.curve]
    middle = float(np.exp(np.log([found.way(200, np.array([at]))[0][0] for at in range(1, 61)]).mean()))
    assert found.gain * (middle + found.offset) ** -found.power <= 0.15 * (max(shown) - min(shown)) + 1e-9


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_no_evaluation_on_the_way_is_worth_more_than_the_end_that_its_run_had(schedule: str) -> None:
    """A rate that warms up makes early evaluations low, and what its fall gains look large."""
    curve = tuple(Evaluation(float(at), value, float(at)) for at, value in enumerate((0.6, 0.8, 0.84, 0.83), 1))
    whole = Sample(CONFIG, 4.0, 1.0, 0.83, curve=curve, seconds=4.0, length=4)
    ends = Annealing(schedule, 0.3).annealed(_job(schedule), whole).curve
    assert max(end.accuracy for end in ends) == 0.83
    part = Sample(CONFIG, 4.0, 1.0, 0.83, curve=curve, seconds=4.0, length=12)
    assert Annealing(schedule, 0.3).annealed(_job(schedule), part).curve[-1].accuracy > 0.83
