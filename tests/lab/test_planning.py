"""The benchmark of planning: its goals, its truth and its scores against their definitions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cotune import registry
from cotune.lab.bench.lab import RecordedLab
from cotune.lab.bench.planning import Benchmark, PlanningRow, bench_planning, planning_summaries
from cotune.lab.bench.truth import Truth
from cotune.lab.strategy import Decision
from cotune.recording import read
from lab.worlds import world


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return world(tmp_path_factory.mktemp("recordings") / "world")


@pytest.fixture(scope="module")
def truth(folder: Path) -> Truth:
    return Truth(read(folder).halves()[1])


def test_goals_are_the_points_of_the_true_frontier_with_a_quarter_more_time(truth: Truth) -> None:
    for target in truth.targets:
        seconds = truth.epochs_to(target) * truth.epoch_seconds
        cost = seconds * truth.rate
        frontier = [
            float(s)
            for s, c in zip(seconds, cost, strict=True)
            if np.isfinite(s) and not np.any((seconds <= s) & (cost <= c) & ((seconds < s) | (cost < c)))
        ]
        asked = [goal.deadline for goal in truth.goals() if goal.target == target]
        assert sorted(asked) == pytest.approx(sorted({1.25 * s for s in frontier}))


def test_the_oracle_is_the_cheapest_of_all_that_meet_the_goal(truth: Truth) -> None:
    for goal in truth.goals():
        outcomes = [truth.outcome(config, goal.max_epochs, goal) for config in truth.configs]
        best = truth.best(goal)
        assert best is not None
        assert outcomes[best].met
        assert outcomes[best].cost == pytest.approx(min(outcome.cost for outcome in outcomes if outcome.met))


def test_half_of_the_seeds_must_meet_a_target(folder: Path) -> None:
    recording = read(folder)
    truth = Truth(recording)
    row = next(row for row, config in enumerate(truth.configs) if config.global_batch == 64)
    seeds = recording.accuracy(truth.configs[row])
    assert seeds is not None
    level = float(np.sort(seeds[:, 9])[-1])
    first = [int(np.argmax(curve >= level)) + 1 if (curve >= level).any() else 10**9 for curve in seeds]
    assert truth.epochs_to(level)[row] == sorted(first)[(len(first) - 1) // 2]


def test_a_cap_below_what_is_needed_misses_and_costs_up_to_the_cap(truth: Truth) -> None:
    goal = truth.goals()[-1]
    best = truth.best(goal)
    assert best is not None
    config = truth.configs[best]
    needed = truth.outcome(config, goal.max_epochs, goal)
    short = truth.outcome(config, int(needed.epochs) - 1, goal)
    assert not short.met
    assert short.epochs == needed.epochs - 1
    assert short.cost == pytest.approx(needed.cost * short.epochs / needed.epochs)


def test_the_oracle_scores_one_and_a_row_tells_what_it_says(folder: Path) -> None:
    found = bench_planning([folder], ["oracle", "manual(tries=5)"], processes=1)
    assert {row.score for row in found.rows if row.strategy == "oracle"} == {1.0}
    for row in found.rows:
        missed = 0.0 if row.met else 2.0
        assert row.score == pytest.approx(missed + row.cost / row.oracle_cost)
        paid = row.cost + row.profile_cost - row.reused_cost
        assert row.score_with_profile == pytest.approx(missed + paid / row.oracle_cost)
        assert row.score >= 1.0 - 1e-9


def test_a_summary_counts_what_its_name_says() -> None:
    row = PlanningRow("r", 0.9, 10.0, "s", 1, 8, 3, True, 0.9, 2.0, 2.0, 1.0, 4, 1.0, 0.0, 1.5, "device-seconds")
    dear = replace(row, probability=1.0, score=2.0, score_with_profile=3.5)
    missed = replace(row, met=False, probability=0.95, score=5.0, score_with_profile=6.0)
    refused = replace(missed, workers=None, batch_size=None, epochs=0, probability=None, score=2.0)
    total, nothing = (planning_summaries(rows)[0] for rows in ([row, dear, missed, refused], [refused]))
    costs = {"median": 1.5, "mean": 1.5, "median_with_profile": 2.5, "mean_with_profile": 2.5}
    counts = {"strategy": "s", "goals": 4, "planned": 0.75, "met": pytest.approx(2 / 3), "profile_samples": 4.0}
    assert total == {**counts, "probability": pytest.approx(0.95), **costs}
    assert nothing["met"] is None


def test_recordings_with_few_best_configs_are_listed_and_left_out(folder: Path, tmp_path: Path) -> None:
    narrow = tmp_path / "narrow"
    narrow.mkdir()
    (narrow / "job.yaml").write_text("name: narrow\nexamples: 100\n")
    (narrow / "epoch_time.csv").write_text("workers,batch_size,epoch_seconds\n1,8,1\n")
    (narrow / "accuracy.csv").write_text("global_batch,epoch,accuracy\n8,1,0.1\n8,2,0.2\n")
    found = bench_planning([folder, narrow], ["oracle"], processes=1)
    assert {row.recording for row in found.rows} == {"world"}
    assert found.left_out == [{"recording": "narrow", "reason": "1 different best configs, fewer than 4"}]
    assert bench_planning([narrow], ["oracle"], processes=1) == Benchmark((), found.left_out)


def test_processes_change_nothing_but_the_time(folder: Path, tmp_path: Path) -> None:
    other = world(tmp_path / "other", seeds=1)
    alone = bench_planning([folder, other], ["oracle", "manual(tries=3)"], processes=1)
    assert bench_planning([folder, other], ["oracle", "manual(tries=3)"], processes=2) == alone


@pytest.mark.parametrize("name", [name for name in registry.names("strategy") if name != "oracle"])
def test_every_strategy_decides_within_the_space_and_pays_for_what_it_measures(name: str, folder: Path) -> None:
    truth, seen = Truth(read(folder).halves()[1]), read(folder).halves()[0]
    goals = truth.goals()
    strategy = registry.create("strategy", name)
    decided: list[Decision] = []
    easy = replace(goals[len(goals) // 2], deadline=10 * (goals[-1].deadline or 0.0))
    for goal in (easy, goals[-1]):
        lab = RecordedLab(seen, truth, goal, seed=3)
        decision = strategy.decide(lab)
        decided.append(decision)
        assert lab.samples
        assert lab.spent() == pytest.approx(sum(sample.device_seconds for sample in lab.samples))
        assert decision.config is None or truth.space.row(decision.config) is not None
        assert decision == strategy.decide(RecordedLab(seen, truth, goal, seed=3))
    assert any(decision.config is not None for decision in decided)


def test_joint_is_near_the_oracle_and_pays_little_for_it(folder: Path) -> None:
    found = bench_planning([folder], ["joint", "manual"], processes=1)
    joint, manual = (
        next(t for t in planning_summaries(found.rows) if t["strategy"] == name) for name in ("joint", "manual")
    )
    assert joint["planned"] * joint["met"] >= 0.5
    assert joint["median"] <= 1.5
    assert joint["median_with_profile"] < manual["median_with_profile"] / 3
    assert max(row.profile_samples for row in found.rows if row.strategy == "joint") <= 16


@pytest.mark.parametrize("seeds", [1, 2])
def test_joint_refuses_what_only_a_point_forecast_or_a_probe_s_own_run_meets(tmp_path: Path, seeds: int) -> None:
    seen, truth = read(world(tmp_path / "world", seeds)).halves()
    judging = Truth(truth)
    goal = replace(judging.goals()[-1], confidence=0.999)  # surer than any training from scratch is
    decided = [
        registry.create("strategy", name).decide(RecordedLab(seen, judging, goal)) for name in ("joint", "pollux")
    ]
    # Where a recording holds one run of a recipe, what a probe met is met again.
    assert ("to go on with this" in decided[0].reason) == (decided[0].config is not None) == (seeds == 1)
    assert seeds == 1 or 0.5 <= decided[1].probability < goal.confidence
