"""P(met) held against seeds that no probe saw."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cotune.lab.bench.other_seeds import (
    SeedBenchmark,
    SeedRow,
    ToldRow,
    bench_other_seeds,
    seed_summaries,
    told_summaries,
)
from cotune.lab.bench.truth import Truth
from cotune.recording import read
from cotune.recording.truth import first_meeting
from cotune.types import Goal
from lab.worlds import world
from recording.folders import recording


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return world(tmp_path_factory.mktemp("recordings") / "world", seeds=3)


@pytest.fixture(scope="module")
def found(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> SeedBenchmark:
    single = world(tmp_path_factory.mktemp("recordings") / "single", seeds=1)
    return bench_other_seeds([folder, single], confidences=(0.5, 0.9), max_samples=6, processes=1)


def test_probes_see_one_seed_and_all_others_judge(folder: Path) -> None:
    recorded = read(folder)
    for seed in range(3):
        shown, others = recorded.apart(seed)
        for batch, runs in recorded.curves[None].items():
            assert shown.curves[None][batch] == (runs[seed],)
            assert others.curves[None][batch] == tuple(run for place, run in enumerate(runs) if place != seed)
        assert shown.job.seeds == 1


def test_a_plan_is_met_by_the_share_of_runs_that_reach_its_target_in_time(folder: Path) -> None:
    truth = Truth(read(folder).apart(0)[1])
    goal = truth.goals()[-1]
    assert goal.target is not None
    assert goal.deadline is not None
    for row, config in enumerate(truth.configs):
        runs = truth.recording.accuracy(config)
        assert runs is not None
        seconds = first_meeting(runs, goal.target) * truth.epoch_seconds[row]
        assert truth.share_met(config, goal.max_epochs, goal) == np.mean(seconds <= goal.deadline)


def test_starts_of_a_config_are_shown_and_judge_as_seeds_do(tmp_path: Path) -> None:
    times = "workers,batch_size,epoch_seconds,repeat\n" + "".join(
        f"1,{batch},{seconds},{repeat}\n"
        for batch in (32, 64)
        for repeat, seconds in enumerate((10.0, 20.0, 30.0), start=1)
    )
    accuracy = "global_batch,epoch,accuracy,seed\n" + "".join(
        f"{batch},{epoch},0.{epoch},{seed}\n" for batch in (32, 64) for epoch in (1, 2) for seed in (1, 2, 3)
    )
    shown, others = read(recording(tmp_path / "starts", times=times, accuracy=accuracy)).apart(1)
    truth = Truth(others)
    config = truth.configs[0]
    assert shown.draw_epoch_seconds(config, np.random.default_rng(0)) == pytest.approx(20.0)
    assert truth.share_met(config, 2, Goal(0.2, 50.0, max_epochs=2)) == 0.5, "twice 10 s, or twice 30 s"


@pytest.mark.xdist_group("other seeds")  # benched once
def test_every_goal_is_asked_with_every_confidence_and_refusals_are_counted(found: SeedBenchmark) -> None:
    assert found.left_out == [{"recording": "single", "reason": "1 seeds, fewer than 3"}]
    asked = {(row.seed, row.target, row.deadline) for row in found.rows}
    assert len(found.rows) == 2 * len(asked)
    assert all(row.probability >= row.confidence for row in found.rows if not row.refused)
    assert [total["goals"] for total in seed_summaries(found.rows)] == [len(asked), len(asked)]


@pytest.mark.xdist_group("other seeds")
def test_all_configs_are_told_of_after_every_profile(folder: Path, found: SeedBenchmark) -> None:
    assert sum(row.configs for row in found.told) == len(found.rows) * len(Truth(read(folder).apart(0)[1]).space)
    assert all(row.low <= row.probability <= row.high for row in found.told)
    assert all(0 <= row.met <= 1 for row in found.told)


def test_every_profile_weighs_the_same_in_what_all_configs_were_told() -> None:
    many, one = ToldRow("r", 0.5, 0.65, 30, 0.5, 0.2), ToldRow("r", 0.5, 0.65, 1, 0.6, 1.0)
    total = told_summaries([many, one, ToldRow("r", 0.0, 0.05, 4, 0.01, 0.0)])
    assert [(part["low"], part["profiles"], part["configs"]) for part in total] == [(0.0, 1, 4), (0.5, 2, 31)]
    assert (total[1]["probability"], total[1]["met"]) == (pytest.approx(0.55), pytest.approx(0.6))


def test_a_summary_leaves_refused_goals_out_of_what_was_met() -> None:
    row = SeedRow("r", 0, 0.9, 10.0, 0.9, False, 1, 8, 3, 0.92, 0.5)
    refused = SeedRow("r", 0, 0.9, 1.0, 0.9, True, None, None, 0, 0.0, 0.0)
    total = seed_summaries([row, row, refused])[0]
    assert total == {"confidence": 0.9, "goals": 3, "refused": 1, "probability": pytest.approx(0.92), "met": 0.5}
