"""A run that measures itself: it spends one account, decides alike on the same samples, and moves when that pays."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from cotune.predict.run_odds import RunBelief
from cotune.predict.way import FIXED_RATE, Leg
from cotune.probe.self_change import SelfChange
from cotune.probe.self_measuring import SelfMeasuring
from cotune.probe.timing import begun_untimed
from cotune.project.ended_runs import EndedRun
from cotune.project.measured_itself import MeasuredItself
from cotune.project.project import Project
from cotune.project.run import RunOptions
from cotune.recording import AccuracyRow, Recording, TimeRow, read, write
from cotune.recording.replayed import ReplayedJob
from cotune.run.engines.recorded import Recorded
from cotune.run.supervise import RunEvent
from cotune.space import Space
from cotune.types import Device, Goal, Job, RateScaling, Sample, Terms, Value
from lab.worlds import BATCHES, EXAMPLES, accuracy_at, step_seconds, world


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    folder: Path = tmp_path_factory.mktemp("self") / "world"
    return read(world(folder, seeds=1))


@dataclass(frozen=True)
class Ran:
    """A run of a recording without a profile, as it began, went on and ended."""

    begun: MeasuredItself
    ended: EndedRun
    events: list[RunEvent]

    @property
    def samples(self) -> list[Sample]:
        return [*self.ended.measured, *self.ended.starts]

    @property
    def device_seconds(self) -> float:
        return sum(sample.device_seconds for sample in self.samples)

    @property
    def odds(self) -> list[float]:
        """P(met) as it was told at the beginning and on the way."""
        return [odds for odds in (self.begun.odds, *(event.odds for event in self.events)) if odds is not None]

    @property
    def notes(self) -> str:
        return "; ".join(event.note for event in self.events if event.note)


def ran(
    recorded: Recording, goal: Goal, *, known: Sequence[Sample] = (), fixed: bool = False, space: Space | None = None
) -> Ran:
    job = ReplayedJob(Path(recorded.name), recorded)
    settings = replace(job.settings(), goal=goal, space=space or recorded.space(with_accuracy=True))
    engine = Recorded(recording=recorded, deadline=goal.deadline)
    events: list[RunEvent] = []
    with Project(settings=settings, replayed=job, engine=engine) as project:
        for sample in known:
            project.keep(sample)
        run = project.run(options=RunOptions(fixed=fixed))
        ended = run.result(events.append)
    assert run.itself is not None
    return Ran(run.itself, ended, events)


def brain_of(recorded: Recording, goal: Goal) -> SelfMeasuring:
    return SelfMeasuring(recorded.job, goal, recorded.space(with_accuracy=True), recorded.cluster)


GOAL = Goal(0.85, 600.0, max_epochs=40)


def test_everything_that_was_spent_is_in_one_account(recorded: Recording) -> None:
    run = ran(recorded, GOAL)
    assert run.ended.missed is None
    assert run.ended.seconds == pytest.approx(sum(sample.seconds for sample in run.samples))
    assert run.ended.cost == pytest.approx(run.device_seconds)
    assert 0 < sum(probe.device_seconds for probe in run.ended.measured) < 0.3 * run.device_seconds
    assert run.ended.seconds <= 600.0


@pytest.mark.parametrize("deadline", [200.0, 1000.0, None])
def test_the_later_the_deadline_the_less_is_paid(recorded: Recording, deadline: float | None) -> None:
    tight = ran(recorded, replace(GOAL, deadline=80.0))
    loose = ran(recorded, replace(GOAL, deadline=deadline))
    assert loose.ended.missed is None
    assert loose.device_seconds <= 1.1 * tight.device_seconds


def test_the_same_samples_give_the_same_choice(recorded: Recording) -> None:
    run = ran(recorded, GOAL)
    config = run.begun.config
    brain = brain_of(recorded, GOAL)
    leg = Leg(brain.row(config), 2.0, ((1.0, 0.3), (2.0, 0.2)))
    first = brain.choose(run.samples, [leg], 50.0, config)
    again = brain_of(recorded, GOAL).choose(run.samples, [leg], 50.0, config)
    assert first == again


def test_odds_are_renewed_with_every_evaluation_and_never_certain(recorded: Recording) -> None:
    run = ran(recorded, GOAL)
    evaluations = sum(len(start.curve) for start in run.ended.starts)
    told = {(event.sample.id, len(event.sample.curve)) for event in run.events if event.sample.curve and event.odds}
    assert len(told) == evaluations - 1  # by the last one the target is met
    assert all(0 <= odds <= 0.99 for odds in run.odds)


@pytest.mark.parametrize(
    ("name", "paces", "best"),
    [
        ("attention", {"eager": 3.0, "math": 3.1, "sdpa": 1.0}, "sdpa"),
        ("power_limit", {100: 3.0, 150: 3.1, 300: 1.0}, 300),
    ],
)
def test_values_of_a_named_axis_are_timed_before_the_run_begins(
    tmp_path: Path, name: str, paces: dict[Value, float], best: Value
) -> None:
    times = [
        TimeRow(
            workers, batch, pace * step_seconds(workers, batch) * EXAMPLES / (workers * batch), axes=((name, value),)
        )
        for workers in (1, 2)
        for batch in BATCHES
        for value, pace in paces.items()
    ]
    points = [AccuracyRow(batch, epoch, accuracy_at(batch, epoch)) for batch in (16, 64, 256) for epoch in range(1, 41)]
    recorded = read(write(tmp_path / name, Job(name, examples=EXAMPLES), times, points, [Device("")]))
    run = ran(recorded, replace(GOAL, deadline=1500.0))
    timed = {dict(probe.config.axes)[name] for probe in run.ended.measured}
    assert {min(paces, key=str), max(paces, key=str)} <= timed
    assert dict(run.ended.last.config.axes)[name] == best
    assert run.ended.missed is None


def test_a_hopeless_deadline_is_told_with_what_would_help(recorded: Recording) -> None:
    run = ran(recorded, replace(GOAL, target=0.9, deadline=15.0))
    assert "its deadline of 15 s has passed" in (run.ended.missed or "")
    assert run.ended.seconds == pytest.approx(15.0)
    assert run.odds[-1] < 0.5
    assert "a later deadline or an easier target would help" in run.notes


def test_what_thirty_steps_are_much_of_is_begun_with_and_timed_then(recorded: Recording) -> None:
    short = replace(recorded, job=replace(recorded.job, examples=5_000))  # thirty steps of 256 are 1.5 epochs
    probes = ran(short, replace(GOAL, deadline=300.0)).ended.measured
    assert all(probe.seconds <= 0.1 * 300.0 for probe in probes[1:])
    timed = {probe.config for probe in probes}
    brain = brain_of(short, GOAL)
    known, new = probes[0].config, next(one for one in brain.configs if one not in timed)
    assert brain.first_look(known, probes) == float("inf")
    assert brain.first_look(new, probes) == pytest.approx(30 * new.global_batch / 5_000)


def test_a_first_probe_that_may_take_a_twentieth_of_the_deadline_is_trained_on_instead(recorded: Recording) -> None:
    short = replace(recorded, job=replace(recorded.job, examples=2_000))  # thirty steps of 64 are an epoch
    run = ran(short, replace(GOAL, deadline=300.0))
    assert run.ended.missed is None
    assert not run.ended.measured
    assert run.begun.config.workers == 1
    assert any(event.odds is not None and not event.sample.curve for event in run.events)  # as its pace was seen
    live = replace(brain_of(short, GOAL), constants=brain_of(short, GOAL).constants.timed)
    assert begun_untimed(live) is None  # a live probe is cut short instead
    seen = replace(brain_of(short, GOAL), known=run.ended.starts)
    assert begun_untimed(seen) is None


def test_before_anything_is_timed_little_is_promised(recorded: Recording) -> None:
    short = replace(recorded, job=replace(recorded.job, examples=2_000))
    brain = brain_of(short, replace(GOAL, deadline=10_000.0))
    told = ran(short, brain.goal).odds
    assert told[0] <= brain.constants.timing.untimed < told[-1]
    pace, one = brain.presumed[0], brain.configs.workers == 1
    assert np.all(np.diff(pace[one][np.argsort(brain.configs.batch_size[one])]) < 0)  # steps idle for a part


def test_at_a_fixed_rate_less_is_promised_at_first_unless_the_job_s_own_curves_are_known(recorded: Recording) -> None:
    goal = replace(GOAL, deadline=2000.0)
    fixed = replace(recorded, job=replace(recorded.job, scaling="fixed"))
    first = ran(fixed, goal)
    assert first.odds[0] <= FIXED_RATE.surest < first.odds[-1]  # the end of the way is in sight
    assert max(ran(recorded, goal).odds) > 0.9
    assert max(ran(fixed, goal, known=first.samples).odds) > FIXED_RATE.surest


def test_where_thirty_steps_may_take_much_of_the_deadline_a_run_begins_at_once(recorded: Recording) -> None:
    few = replace(recorded, job=replace(recorded.job, examples=250))  # thirty steps of 16 are two epochs
    run = ran(few, replace(GOAL, deadline=200.0))
    assert not run.ended.measured
    assert run.ended.missed is None
    assert ran(few, replace(GOAL, deadline=None)).ended.measured
    assert ran(few, replace(GOAL, deadline=200.0), fixed=True).ended.measured  # it ends with what it begins with


def test_a_move_keeps_the_odds_of_staying(recorded: Recording) -> None:
    run = ran(recorded, GOAL)
    brain = brain_of(recorded, replace(GOAL, deadline=100.0))
    config = run.begun.config
    for epochs in (1.0, 3.0, 6.0):
        leg = Leg(brain.row(config), epochs, tuple((e, 0.4 / e) for e in np.arange(1.0, epochs + 1)))
        for spent in (10.0, 40.0, 70.0):
            staying = replace(brain, constants=brain.constants.staying)
            here = staying.choose(run.samples, [leg], spent, config)
            there = brain.choose(run.samples, [leg], spent, config)
            assert there.stays >= min(GOAL.confidence, here.stays) - 1e-9


def test_a_run_that_is_told_to_stay_never_moves(recorded: Recording) -> None:
    short, goal = replace(recorded, job=replace(recorded.job, examples=5_000)), replace(GOAL, deadline=70.0)
    assert len(ran(short, goal).ended.starts) > 1
    assert len(ran(short, goal, fixed=True).ended.starts) == 1


def test_a_job_seen_before_spends_less_on_measuring(recorded: Recording) -> None:
    first = ran(recorded, GOAL)
    again = ran(recorded, GOAL, known=[*first.ended.measured, first.ended.starts[0]])
    assert again.ended.missed is None
    assert len(again.ended.measured) < len(first.ended.measured)
    assert again.device_seconds <= 1.2 * first.device_seconds


def test_a_target_that_the_job_s_own_curves_never_reach_is_not_called_likely(recorded: Recording) -> None:
    run = ran(recorded, GOAL)
    curves = tuple(replace(sample, goal=None) for sample in run.samples)  # and no goal that was met
    seen = replace(brain_of(recorded, GOAL), known=curves)
    best = max(point.accuracy for sample in run.samples for point in sample.curve)
    assert seen.choose((), (), 0.0, None).odds > 0.5
    beyond = replace(seen, goal=replace(GOAL, target=best + 0.9 * (1 - best)))
    choice = beyond.choose((), (), 0.0, None)
    assert choice.odds < 0.5
    assert f"P(met) {choice.odds:.2f}" in choice.reason


def test_a_run_has_no_odds_of_a_target_that_no_evaluation_can_meet(recorded: Recording) -> None:
    run = ran(recorded, GOAL)
    brain = brain_of(recorded, replace(GOAL, target=2.0))
    choice = brain.choose(run.samples, (), 0.0, run.samples[-1].config)
    assert choice.odds == choice.stays == 0.0
    assert "P(met) 0.00" in choice.reason


def test_a_run_tells_no_better_odds_than_its_job_s_own_law(recorded: Recording, tmp_path: Path) -> None:
    sample = replace(ran(recorded, GOAL).ended.starts[0], ended=False)
    brain = brain_of(recorded, replace(GOAL, target=0.99))
    own = RunBelief(np.array([30.0, np.inf]), np.array([0.1, 0.9]), 20.0)
    trusting, doubting = (
        SelfChange(brain, (), tmp_path, time.monotonic, told) for told in (lambda _: None, lambda _: (0.1, own))
    )
    for watch in (trusting, doubting):
        watch.see(sample)
    assert trusting.choice is not None
    assert trusting.choice.odds > 0.1
    assert doubting.words == ", P(met) 0.10"
    assert "cotune plan" in (doubting.warning() or "")
    assert doubting.belief is own


def test_a_run_that_has_got_worse_for_long_is_not_expected_to_arrive(recorded: Recording) -> None:
    run = ran(recorded, GOAL)
    config = run.begun.config
    brain = brain_of(recorded, replace(GOAL, deadline=10_000.0))
    gaps = [0.1 + 0.3 / epoch for epoch in range(1, 11)] + [0.13 + 0.005 * late for late in range(1, 16)]
    odds = []
    for count in (10, 25):
        told = tuple((float(epoch), gap) for epoch, gap in enumerate(gaps[:count], start=1))
        leg = Leg(brain.row(config), float(count), told)
        odds.append(brain.choose(run.samples, [leg], 50.0, config).odds)
        belief = brain.belief(run.samples, [leg], config)
        assert np.all(np.isinf(belief.needed) | (belief.needed >= count + 1))
    assert odds[1] < 0.2 < odds[0]
    assert belief.weights[np.isinf(belief.needed)].sum() > 0.8


def test_more_workers_are_named_only_where_a_script_may_use_several(recorded: Recording) -> None:
    goal = replace(GOAL, target=0.9, deadline=15.0)
    alone = recorded.space(with_accuracy=True).with_axes({"workers": (1,)})
    assert "more workers" in ran(recorded, goal).notes
    assert "more workers" not in ran(recorded, goal, space=alone).notes


@pytest.mark.parametrize("deadline", [80.0, 120.0])
def test_a_job_at_a_fixed_rate_begins_with_a_smaller_batch(recorded: Recording, deadline: float) -> None:
    goal = replace(GOAL, deadline=deadline)

    def begun(scaling: RateScaling) -> int:
        return ran(replace(recorded, job=replace(recorded.job, scaling=scaling)), goal).begun.config.global_batch

    assert begun("scaled") == begun("unknown")
    assert begun("fixed") < begun("unknown")


def test_each_move_asks_for_more_than_the_one_before(recorded: Recording) -> None:
    run = ran(recorded, GOAL)
    brain = brain_of(recorded, replace(GOAL, deadline=60.0))
    slowest = max(brain.configs, key=lambda one: one.batch_size if one.workers == 1 else 0)
    row = brain.row(slowest)
    once = brain.choose(run.samples, [Leg(row, 0.13)], 5.0, slowest)
    often = brain.choose(run.samples, [Leg(row, 0.01)] * 13, 5.0, slowest)
    assert once.config != slowest
    assert often.config == slowest


def test_a_start_up_is_no_pace_and_odds_are_told_anew_however_often_a_run_is_evaluated(
    recorded: Recording, tmp_path: Path
) -> None:
    start = replace(ran(recorded, GOAL).ended.starts[0], ended=False, engine="local")
    assert len(start.curve) > 5
    watch = SelfChange(brain_of(recorded, replace(GOAL, deadline=150.0)), (), tmp_path, time.monotonic)
    first = replace(start, curve=start.curve[:1], epochs=start.curve[0].epoch, accuracy=start.curve[0].accuracy)
    watch.see(replace(first, curve=(), epochs=0.0, epoch_seconds=None))
    watch.see(replace(first, epoch_seconds=100.0, seconds=100.0, terms=Terms(startup=0.0)))
    assert watch.words == ""
    told = set()
    for count in range(2, 6):
        point = start.curve[count - 1]
        watch.see(replace(start, curve=start.curve[:count], epochs=point.epoch, accuracy=point.accuracy, seconds=20.0))
        assert watch.choice is not None
        assert watch.belief is not None
        assert watch.belief.done == point.epoch
        told.add(watch.choice.odds)
    assert len(told) > 1
