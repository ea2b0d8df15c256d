"""Measuring and training inside one deadline: every method is charged for all it does."""

from __future__ import annotations

from pathlib import Path

import pytest

from cotune.errors import UsageError
from cotune.lab.bench.running import METHODS, bench_running, running_summaries
from lab.worlds import world


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return world(tmp_path_factory.mktemp("running") / "world")


def test_every_method_answers_the_same_goals_and_nobody_is_late_and_met(folder: Path) -> None:
    pytest.importorskip("optuna")
    rows, left_out = bench_running([folder], slacks=(2.0,), every=5, processes=1)
    by_method = {method: [row for row in rows if row.method == method] for method in METHODS}
    assert len({tuple((row.target, row.deadline) for row in own) for own in by_method.values()}) == 1
    assert all(row.seconds <= row.deadline * (1 + 1e-6) for row in rows if row.met)
    assert all(row.spent > 0 and row.measuring <= row.spent + 1e-9 for row in rows)
    assert not left_out
    assert all((row.told is not None) == (row.method == "self") for row in rows)
    assert {total["method"]: total["goals"] for total in running_summaries(rows)} == {
        m: len(o) for m, o in by_method.items()
    }


def test_a_job_seen_before_costs_less_than_a_new_one(folder: Path) -> None:
    new, _ = bench_running([folder], ["self"], slacks=(2.0,), every=2, processes=1)
    seen, _ = bench_running([folder], slacks=(2.0,), every=2, seen=True, processes=1)
    first, again = running_summaries(new)[0], running_summaries(seen)[0]
    assert again["mean_score"] < first["mean_score"]


def test_a_method_that_there_is_not_is_told(folder: Path) -> None:
    with pytest.raises(UsageError, match="no method 'magic'; there are self, profile"):
        bench_running([folder], ["magic"])
