"""How well seconds of steps are predicted from few rows of a table, whatever models and machines it holds.

Rows are drawn at random, the law is fitted to them, and all others are predicted; many draws, the median error of each,
and the median over draws.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from cotune.lab.bench.tasks import Figures, grouped, overall
from cotune.modelling.layouts.fitted_law import SECONDS, FittedLaw
from cotune.modelling.layouts.fitting import LogPrior
from cotune.modelling.layouts.tables import LayoutGroup
from cotune.types import Ints


def tables_of(groups: Sequence[LayoutGroup]) -> dict[str, list[LayoutGroup]]:
    """Return the groups as tables: one for each machine where there are several, and all as one."""
    machines = list(dict.fromkeys(group.name.split(" ")[0] for group in groups if " " in group.name))
    alone = {name: [group for group in groups if group.name.startswith(f"{name} ")] for name in machines}
    return alone | {"all": list(groups)}


@dataclass(frozen=True, slots=True)
class Column:
    """The table's own column of a step's time: its name, and how many of its unit are in a second."""

    name: str
    per_second: float


def bench_steps(groups: Sequence[LayoutGroup], column: Column, *, measure: int, draws: int, seed: int) -> list[Figures]:
    """Return predictions of every line that a draw left out, for every table."""
    found = []
    for name, parts in tables_of(groups).items():
        for draw in range(draws):
            rng = np.random.default_rng([seed, draw])
            places = rng.permutation(sum(len(part.lines) for part in parts))[:measure]
            found += _draw(name, parts, draw, places, column)
    return found


def _draw(name: str, parts: Sequence[LayoutGroup], draw: int, places: Ints, column: Column) -> list[Figures]:
    starts = np.cumsum([0, *(len(part.lines) for part in parts)])
    masks = [np.isin(np.arange(start, end), places) for start, end in pairwise(starts)]
    seen = [part.rows.take(mask) for part, mask in zip(parts, masks, strict=True)]
    fitted = FittedLaw.fit(SECONDS, seen, LogPrior.of(SECONDS.coefficients))
    found = []
    for part, mask in zip(parts, masks, strict=True):
        left, scale = part.rows.take(~mask), column.per_second
        for line, predicted, truth in zip(
            part.lines[~mask], fitted.predict(left.layouts, left.setting) * scale, left.seconds * scale, strict=True
        ):
            shown = dict(zip(("low", "mid", "high"), map(float, predicted), strict=True))
            row = {"row": int(line), "table": name, "draw": draw, "quantity": column.name}
            found.append(row | {"predicted": shown, "measured": float(truth)})
    return found


def step_summaries(rows: Sequence[Figures], measure: int) -> list[Figures]:
    """Return the errors on every table: medians over draws of the median and of the mean, and coverage of intervals."""
    found = []
    for table, mine in grouped(rows, lambda row: row["table"]).items():
        draws = grouped(mine, lambda row: row["draw"]).values()
        errors = [[abs(row["predicted"]["mid"] / row["measured"] - 1) for row in draw] for draw in draws]
        inside = [row["predicted"]["low"] <= row["measured"] <= row["predicted"]["high"] for row in mine]
        figures = {
            "table": table,
            "rows": len({row["row"] for row in mine}),
            "learnt_from": measure,
            "median_error": overall(np.median, map(np.median, errors)),
            "mape": overall(np.median, map(np.mean, errors)),
            "coverage": overall(np.mean, inside),
        }
        found.append(figures)
    return found
