"""A run that measures itself: it spends one account, decides alike on the same samples, and moves when that pays."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cotune.predict.run_odds import RunBelief
from cotune.predict.way import FIXED_RATE, Leg
from cotune.probe.replayed import SelfMeasuredStep, self_measured
from cotune.probe.self_change import SelfChange
from cotune.probe.self_measuring import SelfMeasuring
from cotune.probe.timing import begun_untimed
from cotune.recording import AccuracyRow, Recording, TimeRow, read, write
from cotune.run.replayed_training import ReplayedTraining
from cotune.types import Device, Goal, Job, RateScaling, Terms, Value
from lab.worlds import BATCHES, EXAMPLES, accuracy_at, step_seconds, world


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    folder: Path = tmp_path_factory.mktemp("self") / "world"
    return read(world(folder, seeds=1))


def ran(
    recorded: Recording, goal: Goal, brain: SelfMeasuring | None = None
) -> tuple[ReplayedTraining, list[SelfMeasuredStep]]:
    training = ReplayedTraining(recorded, goal)
    return training, list(self_measured(brain or brain_of(recorded, goal), training))


def brain_of(recorded: Recording, goal: Goal) -> SelfMeasuring:
    return SelfMeasuring(recorded.job, goal, recorded.space(with_accuracy=True), recorded.cluster)


GOAL = Goal(0.85, 600.0, max_epochs=40)


def test_everything_that_was_spent_is_in_one_account(recorded: Recording) -> None:
    training, _ = ran(recorded, GOAL)
    assert training.met
    assert training.probes
    assert training.device_seconds == pytest.approx(sum(sample.device_seconds for sample in training.samples))
    assert 0 < training.measuring_device_seconds < 0.3 * training.device_seconds
    assert training.seconds <= 600.0


@pytest.mark.parametrize("deadline", [200.0, 1000.0, None])
def test_the_later_the_deadline_the_less_is_paid(recorded: Recording, deadline: float | None) -> None:
    tight, _ = ran(recorded, replace(GOAL, deadline=80.0))
    loose, _ = ran(recorded, replace(GOAL, deadline=deadline))
    assert loose.met
    assert loose.device_seconds <= 1.1 * tight.device_seconds


def test_the_same_samples_give_the_same_choice(recorded: Recording) -> None:
    training, _ = ran(recorded, GOAL)
    config = training.starts[0].config
    brain = brain_of(recorded, GOAL)
    leg = Leg(brain.row(config), 2.0, ((1.0, 0.3), (2.0, 0.2)))
    first = brain.choose(training.samples, [leg], 50.0, config)
    again = brain_of(recorded, GOAL).choose(training.samples, [leg], 50.0, config)
    assert first == again


def test_odds_are_renewed_with_every_evaluation_and_never_certain(recorded: Recording) -> None:
    training, steps = ran(recorded, GOAL)
    evaluations = sum(len(start.curve) for start in training.starts)
    assert sum(step.kind != "pace" for step in steps) == evaluations  # the beginning, and every evaluation but the last
    assert all(0 <= step.choice.odds <= 0.99 for step in steps)


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
    training, _ = ran(recorded, replace(GOAL, deadline=1500.0))
    timed = {dict(probe.config.axes)[name] for probe in training.probes}
    assert {min(paces, key=str), max(paces, key=str)} <= timed
    assert dict(training.starts[-1].config.axes)[name] == best
    assert training.met


def test_a_hopeless_deadline_is_told_with_what_would_help(recorded: Recording) -> None:
    training, steps = ran(recorded, replace(GOAL, target=0.9, deadline=15.0))
    assert not training.met
    assert training.seconds <= 15.0 + max(probe.seconds for probe in training.probes)
    assert steps[-1].choice.odds < 0.5
    assert steps[-1].choice.remedy


def test_what_thirty_steps_are_much_of_is_begun_with_and_timed_then(recorded: Recording) -> None:
    short = replace(recorded, job=replace(recorded.job, examples=5_000))  # thirty steps of 256 are 1.5 epochs
    training, steps = ran(short, replace(GOAL, deadline=300.0))
    dear = [probe.seconds for probe in training.probes[1:]]
    assert all(seconds <= 0.1 * 300.0 for seconds in dear)
    timed = {probe.config for probe in training.probes}
    looked = [step for step in steps if step.kind == "pace"]
    assert len(looked) <= sum(start.config not in timed for start in training.starts)
    brain = brain_of(short, GOAL)
    known, new = training.probes[0].config, next(one for one in brain.configs if one not in timed)
    assert brain.first_look(known, training.probes) == float("inf")
    assert brain.first_look(new, training.probes) == pytest.approx(30 * new.global_batch / 5_000)


def test_a_first_probe_that_may_take_a_twentieth_of_the_deadline_is_trained_on_instead(recorded: Recording) -> None:
    short = replace(recorded, job=replace(recorded.job, examples=2_000))  # thirty steps of 64 are an epoch
    training, steps = ran(short, replace(GOAL, deadline=300.0))
    assert training.met
    assert not training.probes
    assert training.starts[0].config.workers == 1
    assert steps[1].kind in ("pace", "move")  # it looks at its pace before it is evaluated
    live = replace(brain_of(short, GOAL), constants=brain_of(short, GOAL).constants.timed)
    assert begun_untimed(live) is None  # a live probe is cut short instead
    seen = replace(brain_of(short, GOAL), known=tuple(training.starts))
    assert begun_untimed(seen) is None


def test_before_anything_is_timed_little_is_promised(recorded: Recording) -> None:
    short = replace(recorded, job=replace(recorded.job, examples=2_000))
    brain = brain_of(short, replace(GOAL, deadline=10_000.0))
    _, steps = ran(short, brain.goal, brain)
    assert steps[0].choice.odds <= brain.constants.timing.untimed < steps[-1].choice.odds
    pace, one = brain.presumed[0], brain.configs.workers == 1
    assert np.all(np.diff(pace[one][np.argsort(brain.configs.batch_size[one])]) < 0)  # steps idle for a part


def test_at_a_fixed_rate_less_is_promised_at_first_unless_the_job_s_own_curves_are_known(recorded: Recording) -> None:
    goal = replace(GOAL, deadline=2000.0)
    fixed = replace(recorded, job=replace(recorded.job, scaling="fixed"))
    training, steps = ran(fixed, goal)
    told = [step.choice.odds for step in steps]
    assert told[0] <= FIXED_RATE.surest < told[-1]  # the end of the way is in sight
    _, usual = ran(recorded, goal)
    assert max(step.choice.odds for step in usual) > 0.9
    seen = replace(brain_of(fixed, goal), known=tuple(training.samples))
    assert max(step.choice.odds for step in ran(fixed, goal, seen)[1]) > FIXED_RATE.surest


def test_where_thirty_steps_may_take_much_of_the_deadline_a_run_begins_at_once(recorded: Recording) -> None:
    few = replace(recorded, job=replace(recorded.job, examples=250))  # thirty steps of 16 are two epochs
    training, steps = ran(few, replace(GOAL, deadline=200.0))
    assert not training.probes
    assert "thirty steps may take more than 5% of the deadline" in steps[0].choice.reason
    assert training.met
    unbounded, _ = ran(few, replace(GOAL, deadline=None))
    assert unbounded.probes
    brain = brain_of(few, replace(GOAL, deadline=200.0))
    staying, _ = ran(few, brain.goal, replace(brain, constants=brain.constants.staying))
    assert staying.probes  # what it begins with is what it ends with


def test_a_move_keeps_the_odds_of_staying(recorded: Recording) -> None:
    training, _ = ran(recorded, GOAL)
    brain = brain_of(recorded, replace(GOAL, deadline=100.0))
    config = training.starts[0].config
    for epochs in (1.0, 3.0, 6.0):
        leg = Leg(brain.row(config), epochs, tuple((e, 0.4 / e) for e in np.arange(1.0, epochs + 1)))
        for spent in (10.0, 40.0, 70.0):
            staying = replace(brain, constants=brain.constants.staying)
            here = staying.choose(training.samples, [leg], spent, config)
            there = brain.choose(training.samples, [leg], spent, config)
            assert there.stays >= min(GOAL.confidence, here.stays) - 1e-9


def test_a_run_that_is_told_to_stay_never_moves(recorded: Recording) -> None:
    brain = brain_of(recorded, replace(GOAL, deadline=90.0))
    still = replace(brain, constants=brain.constants.staying)
    assert not ran(recorded, still.goal, still)[0].moves


def test_a_job_seen_before_spends_less_on_measuring(recorded: Recording) -> None:
    first, _ = ran(recorded, GOAL)
    known = (*first.probes, first.starts[0])
    brain = replace(brain_of(recorded, GOAL), known=known)
    again, _ = ran(recorded, GOAL, brain)
    assert again.met
    assert again.measuring_device_seconds < first.measuring_device_seconds
    assert again.device_seconds <= 1.2 * first.device_seconds


def test_without_a_target_the_epochs_that_are_asked_are_trained(recorded: Recording) -> None:
    training, _ = ran(recorded, Goal(None, 1000.0, epochs=5, max_epochs=5))
    assert training.met
    assert training.epoch == 5.0


def test_a_target_that_the_job_s_own_curves_never_reach_is_not_called_likely(recorded: Recording) -> None:
    training, _ = ran(recorded, GOAL)
    seen = replace(brain_of(recorded, GOAL), known=tuple(training.samples))
    best = max(point.accuracy for sample in training.samples for point in sample.curve)
    assert seen.choose((), (), 0.0, None).odds > 0.5
    beyond = replace(seen, goal=replace(GOAL, target=best + 0.9 * (1 - best)))
    choice = beyond.choose((), (), 0.0, None)
    assert choice.odds < 0.5
    assert f"P(met) {choice.odds:.2f}" in choice.reason


def test_a_run_has_no_odds_of_a_target_that_no_evaluation_can_meet(recorded: Recording) -> None:
    training, _ = ran(recorded, GOAL)
    brain = brain_of(recorded, replace(GOAL, target=2.0))
    choice = brain.choose(training.samples, (), 0.0, training.samples[-1].config)
    assert choice.odds == choice.stays == 0.0
    assert "P(met) 0.00" in choice.reason


def test_a_run_tells_no_better_odds_than_its_job_s_own_law(recorded: Recording, tmp_path: Path) -> None:
    training, _ = ran(recorded, GOAL)
    sample = replace(training.starts[0], ended=False)
    brain = brain_of(recorded, replace(GOAL, target=0.99))
    own = RunBelief(np.array([30.0, np.inf]), np.array([0.1, 0.9]), 20.0)
    trusting, doubting = (SelfChange(brain, (), tmp_path, told) for told in (lambda _: None, lambda _: (0.1, own)))
    for watch in (trusting, doubting):
        watch.see(sample)
    assert trusting.choice is not None
    assert trusting.choice.odds > 0.1
    assert doubting.words == ", P(met) 0.10"
    assert "cotune plan" in (doubting.warning() or "")
    assert doubting.belief is own


def test_a_run_that_has_got_worse_for_long_is_not_expected_to_arrive(recorded: Recording) -> None:
    training, _ = ran(recorded, GOAL)
    config = training.starts[0].config
    brain = brain_of(recorded, replace(GOAL, deadline=10_000.0))
    gaps = [0.1 + 0.3 / epoch for epoch in range(1, 11)] + [0.13 + 0.005 * late for late in range(1, 16)]
    odds = []
    for count in (10, 25):
        told = tuple((float(epoch), gap) for epoch, gap in enumerate(gaps[:count], start=1))
        leg = Leg(brain.row(config), float(count), told)
        odds.append(brain.choose(training.samples, [leg], 50.0, config).odds)
        belief = brain.belief(training.samples, [leg], config)
        assert np.all(np.isinf(belief.needed) | (belief.needed >= count + 1))
    assert odds[1] < 0.2 < odds[0]
    assert belief.weights[np.isinf(belief.needed)].sum() > 0.8


def test_more_workers_are_named_only_where_a_script_may_use_several(recorded: Recording) -> None:
    goal = replace(GOAL, target=0.9, deadline=15.0)
    _, steps = ran(recorded, goal)
    alone = replace(brain_of(recorded, goal), space=recorded.space(with_accuracy=True).with_axes({"workers": (1,)}))
    _, single = ran(recorded, goal, alone)
    assert "more workers" in steps[-1].choice.remedy
    assert single[-1].choice.remedy == "a later deadline or an easier target would help"


@pytest.mark.parametrize("deadline", [80.0, 200.0])
def test_a_job_at_a_fixed_rate_begins_with_a_smaller_batch(recorded: Recording, deadline: float) -> None:
    goal = replace(GOAL, deadline=deadline)

    def begun(scaling: RateScaling) -> int:
        brain = brain_of(replace(recorded, job=replace(recorded.job, scaling=scaling)), goal)
        training, _ = ran(recorded, goal, brain)
        return training.starts[0].config.global_batch

    assert begun("scaled") == begun("unknown")
    assert begun("fixed") < begun("unknown")


def test_each_move_asks_for_more_than_the_one_before(recorded: Recording) -> None:
    training, _ = ran(recorded, GOAL)
    brain = brain_of(recorded, replace(GOAL, deadline=60.0))
    slowest = max(brain.configs, key=lambda one: one.batch_size if one.workers == 1 else 0)
    row = brain.row(slowest)
    once = brain.choose(training.samples, [Leg(row, 0.13)], 5.0, slowest)
    often = brain.choose(training.samples, [Leg(row, 0.01)] * 13, 5.0, slowest)
    assert once.config != slowest
    assert often.config == slowest


def test_a_start_up_is_no_pace_and_odds_are_told_anew_however_often_a_run_is_evaluated(
    recorded: Recording, tmp_path: Path
) -> None:
    training, _ = ran(recorded, GOAL)
    start = replace(training.starts[0], ended=False)
    assert len(start.curve) > 5
    watch = SelfChange(brain_of(recorded, replace(GOAL, deadline=150.0)), (), tmp_path)
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
