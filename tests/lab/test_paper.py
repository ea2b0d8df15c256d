"""The paper's own method: Eq. (11) over f1 and f2 as the definition says, and a refusal where it has no samples."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cotune.lab.bench.lab import RecordedLab
from cotune.lab.bench.planning import bench_planning
from cotune.lab.bench.truth import Truth
from cotune.lab.predictors.isotonic import Isotonic
from cotune.lab.strategies.paper import Paper
from cotune.lab.strategy import decision_of
from cotune.recording import read
from cotune.types import Goal
from lab.worlds import world


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return world(tmp_path_factory.mktemp("recordings") / "world")


@pytest.fixture(scope="module")
def truth(folder: Path) -> Truth:
    return Truth(read(folder))


def lab_of(truth: Truth, goal: Goal) -> RecordedLab:
    return RecordedLab(truth.recording, truth, goal, seed=1)


@pytest.mark.parametrize("batch", ["worker", "global"])
@pytest.mark.parametrize("reading", ["pooled", "sliced"])
def test_the_choice_is_that_of_equation_11_tried_on_every_config(truth: Truth, reading: str, batch: str) -> None:
    method = Paper(reading=reading, batch=batch, rounds=5000)  # type: ignore[arg-type]
    chosen = 0
    for goal in truth.goals()[::6]:
        lab = lab_of(truth, goal)
        decision = method.decide(lab)
        f1 = Isotonic(reading).fit_seconds(lab.job, lab.samples)  # type: ignore[arg-type]
        f2 = Isotonic(reading, batch=batch).fit_accuracy(lab.job, lab.samples)  # type: ignore[arg-type]
        costs = {}
        for place, config in enumerate(truth.configs):
            rows = truth.configs.take(np.array([place]))
            seconds = float(f1.predict(rows)[0])
            for epochs in range(1, min(math.floor((goal.deadline or 0.0) / seconds), goal.max_epochs) + 1):
                if f2.predict(rows, np.array([float(epochs)]))[0, 0] >= (goal.target or 0.0):
                    costs[config] = config.workers * seconds * epochs
                    break
        assert (decision.config is None) == (not costs)
        if decision.config is not None:
            chosen += 1
            assert costs[decision.config] == pytest.approx(min(costs.values()))
    assert chosen


def test_its_samples_are_even_and_end_at_three_numbers_of_epochs(truth: Truth) -> None:
    lab = lab_of(truth, truth.goals()[-1])
    Paper(starts=9).decide(lab)
    last = lab.goal.max_epochs
    assert [sample.epochs for sample in lab.samples] == [last // 3, 2 * last // 3, last] * 3
    assert len({sample.config for sample in lab.samples}) == 9


def test_without_a_target_the_highest_accuracy_in_time_is_chosen(truth: Truth) -> None:
    goal = truth.goals()[-1]
    found = Paper(reading="sliced", batch="global").decide(lab_of(truth, replace(goal, target=None)))
    assert found.config is not None
    assert found.config in list(truth.configs)


def test_too_few_samples_are_a_refusal_that_is_paid_for(truth: Truth, folder: Path) -> None:
    lab = lab_of(truth, truth.goals()[0])
    decision = decision_of(Paper(starts=1), lab)
    assert decision.config is None
    assert decision.reason == "1 configs have epoch seconds and at least 2 are needed: profile more"
    assert lab.spent() > 0
    few = bench_planning([folder], ["joint(predictor=isotonic, accuracy=isotonic)"], max_samples=1, processes=1)
    assert few.rows
