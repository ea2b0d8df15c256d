"""What `cotune bench layouts` prints: errors and choices on a table of layouts, errors on a table of steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from cotune.cli.output import emit_json, say, table
from cotune.errors import UsageError
from cotune.lab.bench.layout_summary import anchors, summaries
from cotune.lab.bench.layouts import bench_layouts, forecast_left_out
from cotune.lab.bench.step_tables import Column, bench_steps, step_summaries
from cotune.modelling.layouts.tables import VTRAIN, LayoutGroup, read_table


def show_layouts(groups: Sequence[LayoutGroup], measure: int, seed: int, json: bool) -> None:
    """Print how well layouts are predicted and chosen, each model left out in turn."""
    judged = forecast_left_out(groups, measure)
    found, totals, rules = bench_layouts(judged), summaries(judged), anchors(judged, seed)
    if json:
        told = documents(rows=found.rows, choices=found.choices, measured=found.measured, summary=totals, anchors=rules)
        emit_json("bench.layouts", {"measure": measure, **told})
        return
    figures = [
        ("tokens/s, median error, up to 4 nodes", "speed_median_few_nodes"),
        ("best third, mean error, up to 4 nodes", "best_third_mape_few_nodes"),
        ("best third, mean error, more nodes", "best_third_mape_many_nodes"),
        ("memory, median error", "memory_median"),
        ("80 % interval covers", "coverage"),
        ("crashes foreseen", "crashes_foreseen"),
        ("false alarms", "false_alarms"),
        ("chosen within 10 % of the best", "within_10_percent"),
        ("regret, median", "regret_median"),
        ("a crash chosen", "crash_chosen"),
    ]
    lines = [(text, *(_percent(getattr(total, name)) for total in totals)) for text, name in figures]
    table(("figure", *(total.model for total in totals)), lines, title=f"each model left out, {measure} measured of it")
    say()
    table(
        ("chosen by", "within 5 %", "within 10 %", "regret, median", "a crash chosen"),
        [
            (
                rule.name,
                *map(_percent, (rule.within_5_percent, rule.within_10_percent, rule.regret_median, rule.crash_chosen)),
            )
            for rule in rules
        ],
        title="one layout for each model and number of nodes, against the best measured",
    )


def show_steps(path: Path, measure: int, draws: int, seed: int, json: bool) -> None:
    """Print how well seconds of steps are predicted from few rows."""
    if measure < 1:
        raise UsageError("a table of steps is learnt from its own rows: --measure 1 or more")
    column = Column("iteration_ms", 1000.0) if path.name == VTRAIN else Column("step_time_s", 1.0)
    rows = bench_steps(read_table(path), column, measure=measure, draws=draws, seed=seed)
    totals = step_summaries(rows, measure)
    if json:
        told = {**documents(rows=rows, choices=[]), "measure": measure, **documents(summary=totals)}
        emit_json("bench.layouts", told)
        return
    table(
        ("table", "rows", "learnt from", "median error", "MAPE", "80 % interval covers"),
        [
            (
                total.table,
                total.rows,
                total.learnt_from,
                f"{total.median_error:.1%}",
                f"{total.mape:.1%}",
                f"{total.coverage:.0%}",
            )
            for total in totals
        ],
        title=f"seconds of a step, rows not seen, medians over {draws} draws",
    )


def documents(**records: Sequence[Any]) -> dict[str, Any]:
    """Return lists of records by their names, as JSON has them."""
    return {name: [asdict(one) for one in many] for name, many in records.items()}


def _percent(share: float | None) -> str:
    return "" if share is None else f"{share:.1%}"
