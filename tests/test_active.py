"""Active profiling measures what decides, within its limits, and stops."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.worlds import world
from cotune.active import ActiveDesign, design_for
from cotune.bench.lab import RecordedLab
from cotune.bench.truth import Truth
from cotune.profile import Design, Limits, profile
from cotune.recording import Recording, read
from cotune.run.recorded import Recorded
from cotune.types import Goal, Sample


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    return read(world(tmp_path_factory.mktemp("active") / "world"))


def measured(recording: Recording, goal: Goal, limit: int = 16, budget: float | None = None) -> list[Sample]:
    space = recording.space(with_accuracy=True)
    engine = Recorded(recording=recording, budget=budget)
    finished: dict[str, Sample] = {}
    chosen = design_for(recording.job, goal, space, recording.cluster)
    for step in profile(engine, chosen, [], Limits(float("inf"), limit), Path("here")):
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
