"""Active profiling measures what decides, within its limits, and stops."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cotune.checkpoints import joined
from cotune.lab.bench.lab import RecordedLab
from cotune.lab.bench.truth import Truth
from cotune.probe.active import ActiveDesign, design_for
from cotune.probe.design import Design
from cotune.probe.measure import Limits, probe_loop
from cotune.recording import Recording, read
from cotune.run.engines.recorded import Recorded
from cotune.space import Axis, Space
from cotune.types import Cluster, Config, Evaluation, Goal, Job, LearningRate, Sample
from lab.worlds import world
from recording.folders import recording as folder_of


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    return read(world(tmp_path_factory.mktemp("active") / "world"))


def measured(recording: Recording, goal: Goal, limit: int = 16, budget: float | None = None) -> list[Sample]:
    space = recording.space(with_accuracy=True)
    engine = Recorded(recording=recording, budget=budget)
    finished: dict[str, Sample] = {}
    chosen = design_for(recording.job, goal, space, recording.cluster)
    for step in probe_loop(engine, chosen, [], Limits(float("inf"), limit), Path("here"), engine_name="recorded"):
        finished[step.sample.id] = step.sample
    return list(finished.values())


def test_it_stops_before_its_limit_once_the_decision_is_measured(recording: Recording) -> None:
    truth = Truth(recording)
    for goal in truth.goals()[::3]:
        samples = measured(recording, goal)
        assert len(samples) < 16
        assert sum(1 for sample in samples if sample.curve) >= 1


@pytest.mark.parametrize("limit", [1, 2, 3, 6])
def test_it_keeps_to_any_number_of_starts(recording: Recording, limit: int) -> None:
    samples = measured(recording, Truth(recording).goals()[0], limit)
    assert 1 <= len(samples) <= limit


@pytest.mark.parametrize("budget", [0.0, 10.0, 500.0])
def test_it_keeps_to_any_budget(recording: Recording, budget: float) -> None:
    samples = measured(recording, Truth(recording).goals()[0], budget=budget)
    assert sum(sample.device_seconds for sample in samples) <= budget * (1 + 1e-9)


def test_the_engine_and_the_lab_measure_the_same(recording: Recording) -> None:
    goal = Truth(recording).goals()[2]
    lab = RecordedLab(recording, Truth(recording), goal)
    quick = lab.profile(lab.space)
    slow = measured(recording, goal)
    assert [sample.config for sample in quick] == [sample.config for sample in slow]


def test_a_fixed_recipe_needs_no_curves(recording: Recording) -> None:
    space = recording.space(with_accuracy=False)
    assert isinstance(design_for(recording.job, Goal(epochs=3), space, recording.cluster), Design)
    assert isinstance(design_for(recording.job, Goal(target=0.5), space, recording.cluster), ActiveDesign)
    assert not any(sample.curve and sample.epochs > 2 for sample in measured(recording, Goal(epochs=3)))


def test_a_probe_of_seconds_that_shows_an_evaluation_is_no_learning_curve(tmp_path: Path) -> None:
    """Thirty steps of the larger recipe last for two epochs; it is tried all the same, and wins."""
    times = "workers,batch_size,epoch_seconds\n1,50,100\n1,200,20\n8,50,20\n8,200,3\n"
    curve = [(epoch, 1 - 0.9 * 0.8**epoch) for epoch in range(1, 31)]
    accuracy = "global_batch,epoch,accuracy\n" + "".join(f"{b},{e},{a}\n" for b in (50, 1600) for e, a in curve)
    large = read(folder_of(tmp_path / "large", times=times, accuracy=accuracy))
    goal = Goal(0.9, 60.0, max_epochs=30)
    samples = measured(large, goal)
    assert max(sample.epochs for sample in samples if sample.config.global_batch == 1600) > 2


def test_a_curve_that_ended_before_its_first_evaluation_is_tried_twice_as_long(tmp_path: Path) -> None:
    times = "workers,batch_size,epoch_seconds\n1,10,8\n1,40,2\n4,10,4\n4,40,1\n"
    late = [(epoch, 0.5 + epoch / 100) for epoch in range(12, 31)]
    accuracy = "global_batch,epoch,accuracy\n" + "".join(f"{b},{e},{a}\n" for b in (10, 160) for e, a in late)
    seldom = read(folder_of(tmp_path / "seldom", times=times, accuracy=accuracy))
    samples = measured(seldom, Goal(0.7, 5.0, max_epochs=30))
    tried = [sample.epochs for sample in samples if sample.epochs >= 1]
    assert tried[1] == min(30, 2 * tried[0])
    assert any(sample.curve for sample in samples)


def test_a_curve_is_not_cut_short_by_layouts_that_no_device_is_there_for(recording: Recording) -> None:
    """One device is there, and the space has several workers: their price is infinite, and says nothing."""
    one = replace(recording.cluster, devices=tuple(replace(kind, count=1) for kind in recording.cluster.devices))
    design = ActiveDesign(recording.job, Goal(0.9, max_epochs=30), recording.space(with_accuracy=True), one)
    batch = next(
        batch
        for batch in design._configs.global_batch.tolist()
        if {config.workers for config in design._listed if config.global_batch == batch} > {1}
    )
    assert design._cap(batch, np.ones(len(design._listed)), float("inf")) == 30


def test_a_goal_that_nothing_meets_yet_is_tried_as_long_as_a_run_may_be() -> None:
    def annealed(batch: int, values: tuple[float, ...], length: int) -> Sample:
        curve = tuple(Evaluation(at + 1.0, value, at + 1.0) for at, value in enumerate(values))
        config = Config.data_parallel(batch, 1)
        return Sample(config, len(values), 8.0 / batch, values[-1], curve=curve, seconds=9.0, length=length)

    job = Job("net", examples=3000, schedule="linear")
    space = Space((Axis("workers", (1,)), Axis("batch_size", (8, 16)), Axis("device", ("cpu",))))
    goal = Goal(0.9, 600.0, max_epochs=5)
    short = annealed(8, (0.3, 0.5, 0.74), 3)
    samples = [short, annealed(16, (0.2, 0.3, 0.4, 0.43, 0.45), 5)]
    probe = ActiveDesign(job, goal, space, Cluster()).next(samples, 12)
    assert probe is not None
    assert (probe.config, probe.length) == (short.config, 5)
    tried = [*samples, annealed(8, (0.3, 0.4, 0.5, 0.6, 0.7), 5)]
    assert ActiveDesign(job, goal, space, Cluster()).next(tried, 12) is None


def test_what_a_fixed_rate_makes_the_plan_is_measured_before_it_stops(recording: Recording) -> None:
    fixed = replace(recording, job=replace(recording.job, scaling="fixed"))
    for goal in Truth(fixed).goals()[::3]:
        samples = measured(fixed, goal)
        design = ActiveDesign(fixed.job, goal, fixed.space(with_accuracy=True), fixed.cluster)
        assert len(samples) < 16
        found = design._assessed(fixed.job, joined(samples))
        for plan in [design._listed[row] for row in np.argsort(found.ranked_cost) if found.feasible[row]][:1]:
            assert plan in {sample.config for sample in samples}
            assert plan.global_batch in {sample.config.global_batch for sample in samples if sample.curve}


@pytest.mark.parametrize("schedule", ["linear", None])
def test_a_goal_that_nothing_meets_yet_is_tried_with_the_job_s_own_recipe(schedule: str | None) -> None:
    def trained(batch: int, epochs: int) -> Sample:
        curve = tuple(Evaluation(at, 0.45 + 0.01 * at, at) for at in range(1, epochs + 1))
        config = Config.data_parallel(batch, 1)
        return Sample(config, epochs, 8.0 / batch, curve[-1].accuracy, curve=curve, seconds=9.0, length=epochs)

    job = Job("net", examples=3000, schedule=schedule, lr=LearningRate(0.001, 32, "sqrt"))
    space = Space((Axis("workers", (1,)), Axis("batch_size", (16, 32, 64, 128)), Axis("device", ("cpu",))))
    design = ActiveDesign(job, Goal(0.9, 600.0, max_epochs=5), space, Cluster())
    timed = [Sample(Config.data_parallel(batch, 1), 0.3, 8.0 / batch, seconds=1.0) for batch in (16, 32, 64, 128)]
    samples = [*timed, trained(16, 5), trained(64, 5), trained(128, 5)]
    probe = design.next(samples, 9)
    assert probe is not None
    assert (probe.config.global_batch, probe.epochs, probe.curve) == (32, 5, True)
    assert design.next([*samples, trained(32, 5)], 9) is None
