"""The demo asks for a deadline that shows what planning is for."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

import cotune
from cotune.jobfile import settings

ROOT = Path(__file__).parents[1]


@pytest.fixture
def demo(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(ROOT / "examples")
    return importlib.import_module("demo")


@pytest.mark.parametrize(("name", "target"), [("cifar10dnn-cifar10-nodes", 0.6), ("lenet5-mnist-nodes", 0.98)])
def test_the_plan_has_several_workers_between_a_cheaper_late_one_and_a_dearer_early_one(
    demo: Any, name: str, target: float
) -> None:
    project = cotune.open(recording=ROOT / "recordings" / name, target=target)
    project.profile()
    cheapest, plan, fastest = demo.chosen_plans(project.planner().from_scratch())
    assert plan.config.workers > 1
    assert plan.forecast.probability >= demo.CONFIDENCE
    assert cheapest.forecast.cost.mid < plan.forecast.cost.mid <= fastest.forecast.cost.mid
    assert cheapest.forecast.seconds.mid > plan.forecast.seconds.mid >= fastest.forecast.seconds.mid


def test_its_job_file_is_one(demo: Any, tmp_path: Path) -> None:
    read = settings.loads(demo.JOB, {}, "the demo", tmp_path)
    assert read.goal.deadline is None, "chosen by what is measured"
    assert len(read.space) == 8
