from __future__ import annotations

import math
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import pytest

from cotune.display import Terminal
from cotune.probe.design import CURVES, Design, Probe
from cotune.probe.measure import Limits, ProfileStep, hopeless, patience, probe_loop
from cotune.probe.outcome import ProfileOutcome
from cotune.probe.session import measure
from cotune.space import Axis, Space
from cotune.types import Cause, Cluster, Config, Device, Evaluation, Failure, Goal, Job, Sample, Terms
from run.clockwork import Clockwork, quick_epochs

JOB = Job("made-up", examples=10_000)
SPACE = Space((Axis("workers", (1, 2, 4, 8)), Axis("batch_size", (16, 32, 64, 128, 256))))


@pytest.fixture(autouse=True)
def nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """Count no processes of this machine: a clock that jumps would have it done thousands of times."""
    monkeypatch.setattr("cotune.run.load._others", lambda *_: 0)


def measured(config: Config, epochs: float = 0.5) -> Sample:
    return Sample(config, epochs=epochs, epoch_seconds=1.0)


def trained(config: Config, accuracies: list[float]) -> Sample:
    curve = tuple(Evaluation(epoch + 1, accuracy, epoch + 1.0) for epoch, accuracy in enumerate(accuracies))
    return Sample(config, len(curve), 1.0, accuracies[-1], curve=curve)


def probes(design: Design, starts: int) -> list[Probe]:
    """The probes of a profile in which every start goes well."""
    samples: list[Sample] = []
    found: list[Probe] = []
    for left in range(starts, 0, -1):
        probe = design.next(samples, left)
        if probe is None:
            break
        found.append(probe)
        whole = [0.1] * design.goal.max_epochs
        samples.append(trained(probe.config, whole) if probe.curve else measured(probe.config))
    return found


def test_every_worker_count_and_batch_size_is_soon_measured() -> None:
    first = probes(Design(JOB, Goal(target=0.9), SPACE, Cluster()), 16)[:8]
    assert {probe.config.workers for probe in first} == {1, 2, 4, 8}
    assert {probe.config.batch_size for probe in first} == {16, 32, 64, 128, 256}


def test_no_config_is_measured_twice_for_its_seconds() -> None:
    short = [probe.config for probe in probes(Design(JOB, Goal(target=0.9), SPACE, Cluster()), 16) if not probe.curve]
    assert len(short) == len(set(short)) == 16 - CURVES


def test_learning_curves_are_shown_at_global_batches_spread_over_the_space() -> None:
    long = [
        probe.config.global_batch
        for probe in probes(Design(JOB, Goal(target=0.9), SPACE, Cluster()), 16)
        if probe.epochs > 2
    ]
    assert len(long) == CURVES
    assert {min(long), max(long)} == {16, 2048}


def test_a_time_probe_takes_thirty_steps_and_two_epochs_at_most() -> None:
    design = Design(JOB, Goal(), SPACE, Cluster())
    for probe in probes(design, 12):
        if not probe.curve:
            assert math.isclose(probe.epochs, min(2, 30 * probe.config.global_batch / 10_000))


def test_a_fixed_amount_of_work_needs_no_learning_curve() -> None:
    assert Design(JOB, Goal(epochs=3), SPACE, Cluster()).curves([]) == []
    fixed = Space((Axis("workers", (1, 2)),), global_batch=64)
    assert Design(JOB, Goal(target=0.9), fixed, Cluster()).curves([]) == []


def test_a_failed_config_is_left_alone_and_larger_batches_after_no_memory() -> None:
    design = Design(JOB, Goal(epochs=1), SPACE, Cluster())
    crashed = Sample(Config.data_parallel(16, 1), failure=Failure("rank 0 failed: no luck"))
    full = Sample(Config.data_parallel(128, 1), failure=Failure("rank 0 ran out of memory", Cause.MEMORY))
    tried = [crashed, full, measured(Config.data_parallel(32, 1))]
    seen = set()
    while (probe := design.next(tried, 99)) is not None:
        assert probe.config.batch_size < 128
        assert probe.config != crashed.config
        seen.add(probe.config)
        tried.append(measured(probe.config))
    assert len(seen) == 4 * 3 - 2


def test_a_config_that_failed_and_has_run_since_is_as_good_as_any() -> None:
    design = Design(JOB, Goal(target=0.9), SPACE, Cluster())
    full = Sample(Config.data_parallel(128, 1), failure=Failure("rank 0 ran out of memory", Cause.MEMORY))
    again = measured(full.config)
    assert design.able([full, again]).all()
    assert not design.able([again, full]).all()


def test_workers_that_train_alone_are_measured_one_by_one() -> None:
    design = Design(JOB, Goal(target=0.9), SPACE, Cluster())
    apart = Sample(Config.data_parallel(16, 4), failure=Failure("4 workers never met", Cause.APART))
    able = design.able([apart])
    assert able.tolist() == (SPACE.configs().workers == 1).tolist()


def test_an_interrupted_start_may_be_tried_again() -> None:
    design = Design(JOB, Goal(epochs=1), Space((Axis("workers", (1,)), Axis("batch_size", (16,)))), Cluster())
    cut_short = Sample(Config.data_parallel(16, 1), failure=Failure.interrupted("by the user"))
    assert design.next([cut_short], 1) is not None


def test_a_measured_start_that_was_cut_short_is_not_measured_again() -> None:
    design = Design(JOB, Goal(epochs=1), Space((Axis("workers", (1,)), Axis("batch_size", (16,)))), Cluster())
    known = Sample(Config.data_parallel(16, 1), 0.5, 1.0, failure=Failure.interrupted("by the user"))
    assert design.next([known], 1) is None


def test_more_workers_than_there_are_devices_are_never_measured() -> None:
    design = Design(JOB, Goal(target=0.9), SPACE, Cluster((Device(count=2),)))
    assert {probe.config.workers for probe in probes(design, 16)} == {1, 2}


def starts(space: Space, goal: Goal, seconds: float, engine: Clockwork | None = None) -> list[ProfileStep]:
    """The last step of every start of a profile on an engine whose clock jumps."""
    engine = engine or Clockwork()
    design = Design(JOB, goal, space, Cluster())
    steps = probe_loop(engine, design, [], Limits(seconds), Path("nowhere"))
    return [step for step in steps if step.sample.ended]


def test_every_curve_gets_its_share_of_the_budget() -> None:
    space = Space((Axis("workers", (1,)), Axis("batch_size", (16, 64, 256, 1024))))
    done = starts(space, Goal(target=0.99, max_epochs=1000), 2000, Clockwork(learn=0.0001))
    curves = [step.sample for step in done if step.probe.curve]
    assert len({sample.config.global_batch for sample in curves}) == 4
    assert max(s.seconds for s in curves) < 1.2 * min(s.seconds for s in curves)


def test_a_profile_of_one_or_two_epochs_never_repeats_itself() -> None:
    for epochs in (1, 2):
        done = starts(SPACE, Goal(target=0.99, max_epochs=epochs), 10_000)
        assert len({(step.sample.config, step.probe.curve) for step in done}) == len(done)


def test_the_number_of_probes_that_may_come_stays_the_same_while_they_are_made() -> None:
    assert {step.of for step in starts(SPACE, Goal(target=0.99), 300)} == {16}
    few = Space((Axis("workers", (1, 2)), Axis("batch_size", (16, 64))))
    done = starts(few, Goal(epochs=1), 10_000)
    assert [(step.number, step.of) for step in done] == [(number, 4) for number in range(1, 5)]


def test_a_job_whose_lines_come_too_quickly_is_told_to_train_for_long() -> None:
    """Two epochs of 10 ms were told as their start-up, and goals were refused that a run meets in seconds."""
    space = Space((Axis("workers", (1,)), Axis("batch_size", (16, 32, 64, 128))))
    design = Design(replace(JOB, pattern="epoch"), Goal(epochs=100, max_epochs=100), space, Cluster())
    engine = quick_epochs()
    steps = list(probe_loop(engine, design, [], Limits(600), Path("nowhere")))
    ended = [step.sample for step in steps if step.sample.ended]
    assert [launch.epochs for launch in engine.launches] == [2, 100, 100, 100, 100]
    assert ended[0].config == ended[1].config
    assert len({sample.config for sample in ended}) == 4
    for sample in ended[1:]:
        assert sample.epoch_seconds == pytest.approx(0.01, rel=0.3)
    later = quick_epochs()
    list(probe_loop(later, design, ended[:1], Limits(600), Path("nowhere")))
    assert {launch.epochs for launch in later.launches} == {100}
    slow = Clockwork()
    list(probe_loop(slow, design, [], Limits(6000), Path("nowhere")))
    assert [launch.epochs for launch in slow.launches] == [2] * 4


def test_a_profile_keeps_to_its_budget() -> None:
    engine = Clockwork()
    starts(SPACE, Goal(target=0.99), 300, engine)
    assert engine.now() <= 310


def test_a_long_probe_says_how_far_it_is_every_few_seconds_where_nobody_watches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, lines = Clockwork(), list[tuple[float, str]]()
    monkeypatch.setattr("cotune.display.time", SimpleNamespace(monotonic=engine.now))
    monkeypatch.setattr("cotune.display.note", lambda text: lines.append((engine.time, text)))
    space = Space((Axis("workers", (1,)), Axis("batch_size", (16,))))
    design = Design(JOB, Goal(target=0.5, max_epochs=8), space, Cluster())
    measure(
        engine, design, (), Limits(120.0), tmp_path, save=lambda _: None, display=Terminal(), seed=0, engine_name="made"
    )
    of_curve = [(at, text) for at, text in lines if "learning curve" in text]
    gaps = [after - before for (before, _), (after, _) in pairwise(of_curve)]
    assert len(of_curve) > 5
    assert min(gaps) >= 5.0, "however often it reports"
    assert max(gaps) <= 8.0
    assert re.search(r"learning curve.*: epoch 3.*, accuracy 0.3", "\n".join(text for _, text in of_curve))


def test_a_short_budget_shows_a_learning_curve_too() -> None:
    for seconds in (30, 60, 120):
        done = starts(SPACE, Goal(target=0.3), seconds)
        assert any(step.probe.curve for step in done), seconds
        assert not done[0].probe.curve


def test_as_many_starts_are_left_as_the_budget_holds() -> None:
    limits = Limits(60, 16)
    assert [limits.starts_left(0, 0.0), limits.starts_left(1, 10.0), limits.starts_left(10, 10.0)] == [16, 5, 6]
    assert limits.starts_left(2, 59.0) == 1
    assert limits.starts_left(1, 10.0, once=8.0) == 15, "the engine comes up once"
    assert Limits(math.inf, 16).starts_left(4, 100.0) == 12


@pytest.mark.parametrize(("engine_counts", "told"), [(True, 0), (False, 1)])
def test_the_seconds_in_which_an_engine_comes_up_count_unless_what_follows_goes_on_with_it(
    engine_counts: bool, told: int
) -> None:
    """Two seconds for the engine, three until the first step and one until the pace is told are six; five are left."""
    design = Design(JOB, Goal(target=0.9), SPACE, Cluster())
    limits = Limits(5.0, engine_counts=engine_counts)
    steps = list(probe_loop(Clockwork(), design, [], limits, Path("nowhere")))
    ended = [step.sample for step in steps if step.sample.ended]
    assert [sample.epoch_seconds is not None for sample in ended] == [bool(told)]
    assert ended[0].terms.engine == pytest.approx(2.0)


def test_a_curve_is_taken_up_again_only_when_it_can_go_much_further() -> None:
    space = Space((Axis("workers", (1,)), Axis("batch_size", (16,))))
    design = Design(JOB, Goal(target=0.99, max_epochs=100), space, Cluster())
    known = [trained(Config.data_parallel(16, 1), [0.1] * 10)]
    assert not design.worth(16, 12.0, known)
    assert design.worth(16, 16.0, known)
    assert design.curves(known) == [16]
    assert Design(JOB, Goal(target=0.1), space, Cluster()).curves(known) == []


def test_a_job_that_was_slow_to_start_may_be_so_again() -> None:
    slow = Sample(Config.data_parallel(16, 1), 1.0, 0.5, terms=Terms(startup=25.0))
    assert (patience([slow]) or 0.0) > 50.0
    assert patience([measured(slow.config)]) == 20.0


def test_failures_of_an_earlier_profile_do_not_make_this_one_hopeless() -> None:
    broken = [Sample(Config.data_parallel(batch, 1), failure=Failure("crash")) for batch in (16, 32, 64)]
    design = Design(JOB, Goal(epochs=1), SPACE, Cluster())
    assert list(probe_loop(Clockwork(), design, broken, Limits(500), Path("nowhere")))


def test_a_job_whose_first_starts_all_fail_is_given_up() -> None:
    crash = Sample(Config.data_parallel(16, 1), failure=Failure("rank 0 failed: no luck"))
    assert not hopeless([crash, crash])
    assert hopeless([crash, crash, crash])
    assert not hopeless([crash, crash, crash, measured(Config.data_parallel(32, 1))])


def test_a_job_that_cannot_be_heard_is_given_up_at_once_and_tried_again_by_the_next_profile() -> None:
    engine = Clockwork(fails=lambda _: Failure("ended without a report", Cause.UNHEARD))
    (step,) = starts(SPACE, Goal(epochs=1), 500, engine)
    design = Design(JOB, Goal(epochs=1), SPACE, Cluster())
    again = next(iter(probe_loop(Clockwork(), design, [step.sample], Limits(500), Path("nowhere"))))
    assert again.probe == step.probe


def test_named_axes_are_covered_too() -> None:
    space = Space((Axis("workers", (1, 2)), Axis("batch_size", (16, 64)), Axis("precision", ("fp32", "bf16"))))
    first = probes(Design(JOB, Goal(epochs=1), space, Cluster()), 4)
    assert {dict(probe.config.axes)["precision"] for probe in first} == {"fp32", "bf16"}


def test_once_memory_ran_out_batches_are_tried_from_below_and_doubled() -> None:
    space = Space((Axis("workers", (1,)), Axis("batch_size", (16, 32, 64, 128, 256, 512))))
    design = Design(JOB, Goal(epochs=1), space, Cluster())
    tried = [Sample(Config.data_parallel(512, 1), failure=Failure("out of memory on rank 0", Cause.MEMORY))]
    order = []
    while (probe := design.next(tried, 99)) is not None:
        order.append(probe.config.batch_size)
        fits = probe.config.batch_size < 100
        tried.append(
            measured(probe.config)
            if fits
            else Sample(probe.config, failure=Failure("out of memory on rank 0", Cause.MEMORY))
        )
    assert order == [16, 32, 64, 128], "one probe ran out of memory, and none beyond it was tried"


def test_a_program_is_tried_from_its_smallest_batch_and_never_beyond_what_its_probes_let_expect() -> None:
    program = Job("program", ("python", "train.py"), examples=10_000)
    space = Space((Axis("workers", (1, 2)), Axis("batch_size", (16, 32, 64, 128, 256, 512)), Axis("device", ("gpu",))))
    design = Design(program, Goal(epochs=1), space, Cluster((Device("gpu"),)))
    for fixed, slope, limit, fits in ((1000, 10, 3000, 128), (1000, 10, 1170, 16), (0, 1, 10_000, 512)):
        tried: list[Sample] = []
        while (probe := design.next(tried, 99)) is not None:
            peak = fixed + slope * probe.config.batch_size
            assert peak <= limit or probe.config.batch_size == 32, "only a doubling may be tried in vain"
            if peak <= limit:
                tried.append(Sample(probe.config, 0.5, 1.0, peak_bytes=peak, limit_bytes=limit))
            else:
                tried.append(Sample(probe.config, failure=Failure("out of memory on rank 0", Cause.MEMORY)))
        assert tried[0].config.batch_size == 16
        assert {sample.config.batch_size for sample in tried if not sample.failed} == {
            batch for batch in (16, 32, 64, 128, 256, 512) if batch <= fits
        }


def test_a_profile_shows_itself_in_a_line() -> None:
    """A notebook printed every field of every sample."""
    new, known = (measured(Config.data_parallel(16, 1)),), (measured(Config.data_parallel(32, 1)),)
    assert repr(ProfileOutcome(JOB, new, known, known, Limits())) == "<ProfileOutcome made-up: 1 new sample, 2 in all>"
