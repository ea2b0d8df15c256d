"""`cotune bench curves` on small tables of curves that are known."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from cotune.lab.bench.curves import bench_curves, curve_summaries, read_curves

HEADS = {
    "tasks.csv": "task,metric,better,target,unit,bound",
    "curves.csv": "task,variant,schedule,total,global_batch,run,progress,value",
}


def written(folder: Path) -> Path:
    lines = []
    for total in (12, 24):
        for seed in (0, 1):
            noise = np.random.default_rng(seed).normal(0, 0.01, total)
            for epoch in range(1, total + 1):
                lines.append(f"lm,a,cosine,{total},32,{seed},{epoch},{2 + 2 * epoch**-0.5 + noise[epoch - 1]:.4f}")
    bodies = {"tasks.csv": ["lm,loss,lower,2.5,steps,0"], "curves.csv": lines}
    for name, head in HEADS.items():
        (folder / name).write_text("\n".join([head, *bodies[name]]) + "\n")
    return folder


def test_every_question_is_asked_of_the_runs_that_can_answer_it(tmp_path: Path) -> None:
    rows = list(bench_curves(written(tmp_path), shown=(0.5,), most=9))
    assert [row["question"] for row in rows] == ["rest"] * 4 + ["another"] * 2 + ["longer"] * 2
    runs = read_curves(tmp_path)
    for row in rows:
        (run,) = [one for one in runs if (one.run.length, one.name) == (row["total"], row["run"])]
        assert row["measured"] == -run.run.values[-1]
        assert list(row["predicted"].values()) == sorted(row["predicted"].values())
        assert 0 <= (row["p_met"] or 0.0) <= 1
    assert {row["total"] for row in rows if row["question"] == "longer"} == {24.0}
    assert sum(one["rows"] for one in curve_summaries(rows)) == len(rows)


def test_a_target_that_was_shown_is_asked_as_one_beyond(tmp_path: Path) -> None:
    for row in bench_curves(written(tmp_path), shown=(0.9,), most=9):
        assert row["target"] is not None
        assert row["target"] <= 2.5
        if row["question"] == "another" and row["total"] == 24:
            assert row["target"] < 2.5
