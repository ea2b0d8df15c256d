from __future__ import annotations

import math

from cotune.profile import CURVES, Design, Probe, hopeless
from cotune.space import Axis, Space
from cotune.types import Config, Evaluation, Goal, Job, Sample

JOB = Job("made-up", examples=10_000)
SPACE = Space((Axis("workers", (1, 2, 4, 8)), Axis("batch_size", (16, 32, 64, 128, 256))))


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
        long = probe.epochs > 2
        samples.append(trained(probe.config, [0.1] * 5) if long else measured(probe.config))
    return found


def test_the_corners_of_the_space_are_measured_first() -> None:
    corners = {(1, 16), (1, 256), (8, 16), (8, 256)}
    first = probes(Design(JOB, Goal(target=0.9), SPACE), 16)[:4]
    assert {(probe.config.workers, probe.config.batch_size) for probe in first} == corners


def test_no_config_is_measured_twice_for_its_seconds() -> None:
    short = [probe.config for probe in probes(Design(JOB, Goal(target=0.9), SPACE), 16) if probe.epochs <= 2]
    assert len(short) == len(set(short)) == 16 - CURVES


def test_learning_curves_are_shown_at_global_batches_spread_over_the_space() -> None:
    long = [probe.config.global_batch for probe in probes(Design(JOB, Goal(target=0.9), SPACE), 16) if probe.epochs > 2]
    assert len(long) == CURVES
    assert {min(long), max(long)} == {16, 2048}


def test_a_time_probe_takes_thirty_steps_and_two_epochs_at_most() -> None:
    design = Design(JOB, Goal(), SPACE)
    for probe in probes(design, 12):
        if probe.epochs <= 2:
            assert math.isclose(probe.epochs, min(2, 30 * probe.config.global_batch / 10_000))


def test_a_fixed_amount_of_work_needs_no_learning_curve() -> None:
    assert Design(JOB, Goal(epochs=3), SPACE).curves([]) == []
    fixed = Space((Axis("workers", (1, 2)),), global_batch=64)
    assert Design(JOB, Goal(target=0.9), fixed).curves([]) == []


def test_a_failed_config_is_left_alone_and_larger_batches_after_no_memory() -> None:
    design = Design(JOB, Goal(epochs=1), SPACE)
    crashed = Sample(Config.data_parallel(16, 1), failure="rank 0 failed: no luck")
    full = Sample(Config.data_parallel(128, 1), failure="rank 0 ran out of memory")
    tried = [crashed, full, measured(Config.data_parallel(32, 1))]
    seen = set()
    while (probe := design.next(tried, 99)) is not None:
        assert probe.config.batch_size < 128
        assert probe.config != crashed.config
        seen.add(probe.config)
        tried.append(measured(probe.config))
    assert len(seen) == 4 * 3 - 2


def test_an_interrupted_start_may_be_tried_again() -> None:
    design = Design(JOB, Goal(epochs=1), Space((Axis("workers", (1,)), Axis("batch_size", (16,)))))
    cut_short = Sample(Config.data_parallel(16, 1), failure="interrupted: by the user")
    assert design.next([cut_short], 1) is not None


def test_a_job_whose_first_starts_all_fail_is_given_up() -> None:
    crash = Sample(Config.data_parallel(16, 1), failure="rank 0 failed: no luck")
    assert not hopeless([crash, crash])
    assert hopeless([crash, crash, crash])
    assert not hopeless([crash, crash, crash, measured(Config.data_parallel(32, 1))])


def test_named_axes_are_covered_too() -> None:
    space = Space((Axis("workers", (1, 2)), Axis("batch_size", (16, 64)), Axis("precision", ("fp32", "bf16"))))
    first = probes(Design(JOB, Goal(epochs=1), space), 4)
    assert {dict(probe.config.axes)["precision"] for probe in first} == {"fp32", "bf16"}
