"""benchmarks/service_faults.py: eight random kills of everything there is, judged by what the jobs wrote."""

from __future__ import annotations

import runpy
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_no_job_is_lost_or_run_twice_and_no_process_is_left(tmp_path: Path) -> None:
    faults = runpy.run_path(str(ROOT / "benchmarks" / "service_faults.py"))
    settings = faults["Campaign"](jobs=3, epochs=40, pause=0.05, between=(0.05, 0.6))
    verdict = faults["campaign"](1, 8, settings, tmp_path, str(tmp_path / "store.db"))
    assert (verdict.lost, verdict.run_twice, verdict.orphans) == (0, 0, 0), verdict.words
    assert sum(verdict.kills.values()) == 8


def test_the_judge_sees_an_epoch_of_a_start_that_is_over() -> None:
    twice = runpy.run_path(str(ROOT / "benchmarks" / "service_faults.py"))["_twice"]
    good = [["start", 1, True, 0, 1.0], ["epoch", 1, True, 1, 2.0], ["start", 2, True, 1, 3.0]]
    assert twice(good, 1) == []
    assert twice([*good, ["epoch", 1, True, 2, 4.0]], 1) == ["start 1 told epoch 2 after start 2 had begun"]
    assert twice([*good, ["start", 2, True, 1, 5.0]], 2) == ["2 whole trainings", "start 2 was made twice"]
