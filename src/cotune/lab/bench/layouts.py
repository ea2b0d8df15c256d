"""How well layouts are predicted and chosen, one model left out in turn.

Of the model in question K layouts may be measured, of the bench's own choice, among those of its two smallest numbers
of nodes at which anything runs; one that crashed costs one of the K. Everything else that is learnt comes from the
other models of the table. All other rows are predicted (tokens/s, memory, P(fits)), and for each number of nodes one
layout is chosen, at the table's own global batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from cotune.lab.bench.tasks import Figures
from cotune.modelling.layouts.choosing import choose, next_to_measure, scores
from cotune.modelling.layouts.predictor import LayoutForecasts, LayoutLearner
from cotune.modelling.layouts.priors import LayoutPriors
from cotune.modelling.layouts.residual import points_of
from cotune.modelling.layouts.tables import LayoutGroup
from cotune.types import Ints, Mask

SPEED, MEMORY = "tokens_per_s_per_gpu", "memory_gb"


@dataclass(frozen=True, slots=True)
class LayoutChoice:
    """What is chosen for a model on so many nodes; no row where nothing should run."""

    model: str
    nodes: int
    row: int | None
    layout: str | None
    p_fits: float | None
    regret: float | None  # best measured speed over the chosen one's, less 1; None where it crashed or nothing ran
    crashed: bool


@dataclass(frozen=True)
class LeftOut:
    """A model with what was tried of it, and forecasts of all its layouts."""

    group: LayoutGroup
    tried: Ints
    forecasts: LayoutForecasts

    @property
    def left(self) -> Mask:
        """Return which lines were not tried."""
        return ~np.isin(np.arange(len(self.group.lines)), self.tried)

    @property
    def usual(self) -> Mask:
        """Return which lines have the model's most frequent global batch: the recipe is not ours to change."""
        batch = self.group.rows.layouts.global_batch
        values, counts = np.unique(batch, return_counts=True)
        return np.asarray(batch == values[np.argmax(counts)])

    @property
    def cells(self) -> list[tuple[int, Mask]]:
        """Return every number of nodes with its lines of the usual batch."""
        nodes = self.group.nodes
        return [(int(count), (nodes == count) & self.usual) for count in np.unique(nodes)]


def forecast_left_out(groups: Sequence[LayoutGroup], measure: int) -> list[LeftOut]:
    """Return every model, measured at most so often and learnt from the others."""
    return [_left_out(group, [other for other in groups if other is not group], measure) for group in groups]


def _left_out(group: LayoutGroup, others: Sequence[LayoutGroup], measure: int) -> LeftOut:
    rows = group.rows
    learner = LayoutLearner([other.rows for other in others], LayoutPriors.measured_elsewhere(rows.setting.model))
    smallest = np.unique(group.nodes[rows.ran])[:2]
    candidates = np.flatnonzero(np.isin(group.nodes, smallest))
    near = rows.layouts.take(candidates)
    points = points_of(near, rows.setting)
    tried: list[int] = []
    predictor = learner.fit(rows.take(np.array(tried, dtype=np.int64)))
    for _ in range(measure):
        place = next_to_measure(predictor.predict(near), near, points, np.array(tried, dtype=np.int64))
        if place is None:
            break
        tried.append(place)
        predictor = learner.fit(rows.take(candidates[tried]))
    return LeftOut(group, candidates[np.array(tried, dtype=np.int64)], predictor.predict(rows.layouts))


def bench_layouts(judged: Sequence[LeftOut]) -> Figures:
    """Return predictions of every line not measured, a choice for every number of nodes, and what was measured."""
    return {
        "rows": [row for one in judged for row in _rows(one)],
        "choices": [asdict(choice) for one in judged for choice in _choices(one)],
        "measured": [
            {"model": one.group.name, "row": int(one.group.lines[place]), "ran": bool(one.group.rows.ran[place])}
            for one in judged
            for place in one.tried
        ],
    }


def _rows(one: LeftOut) -> list[Figures]:
    group, forecasts = one.group, one.forecasts
    speed = group.tokens_per_gpu[:, None] / forecasts.seconds[:, ::-1]
    truth = group.tokens_per_gpu / group.rows.seconds
    return [
        {
            "row": int(group.lines[place]),
            "model": group.name,
            "nodes": int(group.nodes[place]),
            "quantity": quantity,
            "predicted": dict(zip(("low", "mid", "high"), map(float, predicted[place]), strict=True)),
            "measured": float(measured[place]) if np.isfinite(measured[place]) else None,
            "p_fits": float(forecasts.p_fits[place]),
            "p_memory": float(forecasts.p_memory[place]),
        }
        for place in np.flatnonzero(one.left)
        for quantity, predicted, measured in ((SPEED, speed, truth), (MEMORY, forecasts.gib, group.rows.gib))
    ]


def _choices(one: LeftOut) -> list[LayoutChoice]:
    found = scores(one.group.rows, one.forecasts, one.tried)
    return [judge_choice(one, nodes, choose(found, among)) for nodes, among in one.cells]


def judge_choice(one: LeftOut, nodes: int, place: int | None) -> LayoutChoice:
    """Return a choice with its regret against the best measured line of the same nodes and batch."""
    group = one.group
    if place is None:
        return LayoutChoice(group.name, nodes, None, None, None, None, crashed=False)
    ran = bool(group.rows.ran[place])
    among = (group.nodes == nodes) & one.usual & group.rows.ran
    regret = float(group.rows.seconds[place] / group.rows.seconds[among].min() - 1) if ran else None
    return LayoutChoice(
        group.name, nodes, int(group.lines[place]), str(group.rows.layouts[place]),
        float(one.forecasts.p_fits[place]), regret, crashed=not ran,
    )  # fmt: skip
