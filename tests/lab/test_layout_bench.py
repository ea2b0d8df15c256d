from __future__ import annotations

import csv
import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from cotune.cli.app import app
from cotune.lab.bench.layout_summary import anchors, summaries
from cotune.lab.bench.layouts import bench_layouts, forecast_left_out
from cotune.modelling.layouts.setting import Transformer
from cotune.modelling.layouts.tables import LayoutGroup, find_table, read_table
from modelling.layouts.settings import LARGE, SMALL, lawful_rows

COLUMNS = (
    "model", "params", "layers", "hidden", "heads", "ffn", "nodes", "gpus", "dp", "tp", "pp", "zero_stage",
    "micro_batch", "grad_accum", "global_batch", "status", "tokens_per_s_per_gpu", "mfu_percent", "memory_gb",
)  # fmt: skip


def group(name: str, model: Transformer, factor: float, start: int = 0) -> LayoutGroup:
    rows = lawful_rows(model, factor)
    return LayoutGroup(name, np.arange(start, start + len(rows.layouts)), rows)


def groups() -> list[LayoutGroup]:
    small = group("small", SMALL, 1.2)
    return [small, group("large", LARGE, 1.4, start=len(small.lines))]


@pytest.mark.parametrize("measure", [0, 6])
def test_every_line_is_measured_or_predicted_and_measured_ones_are_of_two_smallest_node_counts(measure: int) -> None:
    parts = groups()
    found = bench_layouts(forecast_left_out(parts, measure))
    for part in parts:
        measured = [one["row"] for one in found["measured"] if one["model"] == part.name]
        predicted = {row["row"] for row in found["rows"] if row["model"] == part.name}
        assert len(measured) == len(set(measured)) == measure
        assert predicted | set(measured) == set(part.lines.tolist())
        assert not predicted & set(measured)
        assert set(part.nodes[np.isin(part.lines, measured)]) <= {1, 2}


def test_choices_of_a_lawful_table_are_near_the_best_and_beat_the_rules() -> None:
    judged = forecast_left_out(groups(), 6)
    assert summaries(judged)[0]["within_10_percent"] == 1.0
    rules = {rule["name"]: rule for rule in anchors(judged)}
    assert rules["law"]["within_5_percent"] >= max(rule["within_5_percent"] for rule in rules.values())


@pytest.mark.parametrize("measure", [0, 12])
def test_a_model_too_large_for_one_node_is_measured_where_it_runs_and_nothing_is_chosen_elsewhere(measure: int) -> None:
    huge = replace(LARGE, layers=80, hidden=8192, heads=64, kv_heads=64, ffn=28_672)
    rows = lawful_rows(huge, 1.3, nodes=(1, 8, 16))
    parts = [groups()[0], LayoutGroup("huge", 10_000 + np.arange(len(rows.layouts)), rows)]
    assert set(parts[1].nodes[rows.ran]) == {8, 16}
    found = bench_layouts(forecast_left_out(parts, measure))
    measured = [one["row"] for one in found["measured"] if one["model"] == "huge"]
    assert len(measured) == measure
    assert set(parts[1].nodes[np.isin(parts[1].lines, measured)]) <= {8, 16}
    chosen = {choice["nodes"]: choice for choice in found["choices"] if choice["model"] == "huge"}
    assert chosen[1]["row"] is None
    assert all(chosen[nodes]["regret"] is not None and chosen[nodes]["regret"] < 0.1 for nodes in (8, 16))


def test_where_every_try_crashed_everything_else_is_still_predicted() -> None:
    small, large = groups()
    large.rows.seconds[large.nodes <= 2] = np.nan
    large.rows.seconds[np.flatnonzero(large.nodes == 2)[0]] = 1.0  # one ran, so its node counts are tried
    assert np.isnan(large.rows.gib[np.flatnonzero(large.nodes == 2)[0]])  # and nobody looked at its memory
    found = bench_layouts(forecast_left_out([small, large], 3))
    rows = [row for row in found["rows"] if row["model"] == "large"]
    assert len({row["row"] for row in rows}) == len(large.lines) - 3
    assert all(np.isfinite(list(row["predicted"].values())).all() for row in rows)


def test_a_measurement_has_no_part_in_what_is_said_of_its_own_row() -> None:
    parts = groups()
    plain = bench_layouts(forecast_left_out(parts, 0))["rows"]
    parts[0].rows.seconds[parts[0].rows.ran] *= 3
    changed = bench_layouts(forecast_left_out(parts, 0))["rows"]
    told = [[row["predicted"] for row in rows if row["model"] == "small"] for rows in (plain, changed)]
    assert told[0] == told[1]


def write_table(path: Path, models: dict[str, tuple[Transformer, float]]) -> None:
    """A table in the playbook's format whose truth is the law."""
    with (path / "layouts.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        for name, (model, factor) in models.items():
            rows = lawful_rows(model, factor)
            for place in range(len(rows.layouts)):
                one = rows.layouts[place]
                head = (name, model.params, model.layers, model.hidden, model.heads, model.ffn, one.gpus // 8, one.gpus)
                shape = (one.dp, one.tp, one.pp, one.shard, one.micro_batch, one.accumulate, one.global_batch)
                speed = one.global_batch * 4096 / rows.seconds[place] / one.gpus
                told = ("measured", speed, 0, rows.gib[place]) if rows.ran[place] else ("crashed", "", "", "")
                writer.writerow((*head, *shape, *told))


def test_the_verb_prints_rows_choices_and_a_summary(tmp_path: Path) -> None:
    write_table(tmp_path, {"a": (SMALL, 1.2), "b": (LARGE, 1.3)})
    shown = CliRunner().invoke(app, ["bench", "layouts", str(tmp_path), "--measure", "3", "--json"])
    assert shown.exit_code == 0, shown.output
    document = json.loads(shown.stdout)
    assert document["schema"] == "cotune.bench.layouts"
    assert {row["quantity"] for row in document["rows"]} == {"tokens_per_s_per_gpu", "memory_gb"}
    assert any(row["measured"] is None for row in document["rows"])
    assert {(choice["model"], choice["nodes"]) for choice in document["choices"]} == {
        (m, n) for m in "ab" for n in (1, 2, 4)
    }
    assert len(document["measured"]) == 6
    assert {rule["name"] for rule in document["anchors"]} == {"law", "tp_dp_pp", "megatron", "random"}
    plain = CliRunner().invoke(app, ["bench", "layouts", str(tmp_path), "--measure", "0"])
    assert plain.exit_code == 0
    assert "crashes foreseen" in plain.stdout


def test_a_folder_without_a_table_is_not_found(tmp_path: Path) -> None:
    shown = CliRunner().invoke(app, ["bench", "layouts", str(tmp_path)])
    assert shown.exit_code != 0


@pytest.mark.skipif("COTUNE_DATA" not in os.environ, reason="needs the measured tables: COTUNE_DATA names their folder")
def test_measured_layouts_are_predicted_and_chosen_with_each_model_left_out() -> None:
    table = find_table(Path(os.environ["COTUNE_DATA"]) / "playbook_layouts")
    summary = summaries(forecast_left_out(read_table(table), 12))[0]
    assert summary["speed_median_few_nodes"] < 0.10
    assert summary["memory_median"] < 0.10
    assert summary["crashes_foreseen"] > 0.85
    assert summary["within_10_percent"] >= 0.75
