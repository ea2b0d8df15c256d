"""The second phase of HeterPS: what the policy learns from plans that were run."""

from __future__ import annotations

import random
from pathlib import Path

from cotune.placement.answers import PlacementGoal
from cotune.placement.episodes import Episodes, pipelines, refined
from cotune.placement.problems import Placement
from cotune.placement.profiles import Profile, parse
from cotune.placement.staged import engines

QUICK = "reinforce(rounds=30, pretrain=5)"


def profile() -> Profile:
    """Two types; the cost model believes that fast is cheap enough for both layers."""
    layer = {"compute_parallel": [0.5, 0.5], "cut_before": [0.0, 0.0]}
    return parse({
        "name": "ctrdnn(width=8, rows=300, groups=[1,4])",
        "batch": 64,
        "types": [
            {"name": "slow", "price_per_hour": 1.0, "limit": 1, "device": "cpu"},
            {"name": "fast", "price_per_hour": 1.5, "limit": 1, "device": "cpu"},
        ],
        "layers": [{"compute": [0.02, 0.01], **layer}, {"compute": [0.02, 0.01], **layer}],
    })  # fmt: skip


def test_runs_that_contradict_the_cost_model_change_the_plan() -> None:
    ran: list[Placement] = []

    def run(plan: Placement) -> float:
        """Play a world in which the first layer is ten times as slow on `fast` as the model says."""
        ran.append(plan)
        return plan.throughput / (10 if plan.stages[0].device == "fast" else 1)

    known = Episodes(profile(), PlacementGoal(100.0), run)
    found = refined(known, 30, random.Random(0), QUICK)
    assert [stage.device for stage in found.exact.plan.stages] == ["fast"]
    assert found.second_phase is not None
    assert found.second_phase.plan.stages[0].device == "slow"
    assert found.second_phase.cost_per_million < found.exact.cost_per_million
    assert len(ran) == len({plan.stages for plan in ran}) <= 4, "a plan that is drawn again is not run again"


def test_an_episode_runs_a_real_pipeline(tmp_path: Path) -> None:
    told: list[str] = []
    with engines() as there:
        known = Episodes(profile(), PlacementGoal(1.0), pipelines(there, profile(), 6, tmp_path, told.append))
        found = refined(known, 1, random.Random(0), QUICK)
    assert found.second_phase is not None
    assert found.second_phase.throughput > 0
    assert len(told) == len(list(tmp_path.glob("episode-*"))) >= found.runs == 1
