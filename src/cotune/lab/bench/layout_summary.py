"""Layout predictions and choices in a few figures, and rivals that choose by rule on the same lines.

The best third is that of each model and number of nodes, by the share of peak that the line reaches (MFU): means over
all lines mostly measure stragglers. Rivals choose among the same lines of the same batch:

    random      the expected regret of any line that ran, and the share of lines that crash
    tp_dp_pp    tensor parallelism fills the node, then data parallelism, pipelines only if memory asks for them
    megatron    as little model parallelism as memory allows, tensor before pipeline, then the largest micro-batch
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from cotune.lab.bench.layouts import LeftOut, judge_choice
from cotune.lab.bench.tasks import Figures, overall
from cotune.modelling.layouts.choosing import choose, scores
from cotune.modelling.layouts.fitting import LogPrior
from cotune.modelling.layouts.layout import allowed
from cotune.modelling.layouts.memory import MEMORY, count_memory, log_memory
from cotune.modelling.layouts.tables import LayoutGroup
from cotune.types import Floats, Ints, Mask

FEW_NODES = 4


def mfu(group: LayoutGroup) -> Floats:
    """Return the share of peak every line reaches, as the playbook counts it: 6 P + 12 L h s operations a token."""
    model, machine = group.rows.setting.model, group.rows.setting.machine
    piped = model.layers * model.layer_params + 2 * model.embedding_params
    params = np.where(group.rows.layouts.pp > 1, piped, model.params)
    operations = 6 * params + 12 * model.layers * model.hidden * model.seq_len
    return np.asarray(group.tokens_per_gpu / group.rows.seconds * operations / machine.flops)


def best_third(one: LeftOut) -> Mask:
    """Return the lines not measured that are in the best third of their number of nodes."""
    group = one.group
    best = np.zeros(len(group.lines), dtype=bool)
    share, left = mfu(group), one.left & group.rows.ran
    for nodes in np.unique(group.nodes):
        places = np.flatnonzero(left & (group.nodes == nodes))
        best[places[np.argsort(-share[places])][: max(1, round(len(places) / 3))]] = True
    return best


def summaries(judged: Sequence[LeftOut]) -> list[Figures]:
    """Return the figures of every model and of all together."""
    return [_summary("all", judged), *(_summary(one.group.name, [one]) for one in judged)]


def _summary(name: str, judged: Sequence[LeftOut]) -> Figures:
    """Return shares and relative errors, None where there is no such line."""

    def gathered(of: Callable[[LeftOut], Floats | Mask | Ints]) -> Floats:
        return np.concatenate([of(one).astype(np.float64) for one in judged])

    ran = gathered(lambda one: one.group.rows.ran).astype(bool)
    left = gathered(lambda one: one.left).astype(bool)
    few = gathered(lambda one: one.group.nodes) <= FEW_NODES
    best = gathered(best_third).astype(bool)
    # speed is tokens over seconds, so its relative error is that of measured over predicted seconds
    speed = gathered(lambda one: np.abs(one.group.rows.seconds / one.forecasts.seconds[:, 1] - 1))
    memory = gathered(lambda one: np.abs(one.forecasts.gib[:, 1] / one.group.rows.gib - 1))
    fits = gathered(lambda one: one.forecasts.p_fits)
    inside = gathered(_inside)
    return {
        "model": name,
        "speed_median_few_nodes": overall(np.median, speed[ran & left & few]),
        "best_third_mape_few_nodes": overall(np.mean, speed[best & few]),
        "best_third_mape_many_nodes": overall(np.mean, speed[best & ~few]),
        "memory_median": overall(np.median, memory[ran & left & np.isfinite(memory)]),
        "coverage": overall(np.mean, inside[ran & left]),  # of the 80 % interval of tokens/s
        "crashes_foreseen": overall(np.mean, fits[~ran & left] < 0.5),
        "false_alarms": overall(np.mean, fits[ran & left] < 0.5),
        **_shares([choice for one in judged for choice in _own_choice(one)]),
    }


def _inside(one: LeftOut) -> Mask:
    seconds = one.group.rows.seconds
    return np.asarray((seconds >= one.forecasts.seconds[:, 0]) & (seconds <= one.forecasts.seconds[:, 2]))


Chosen = tuple[float | None, bool]  # regret, and whether it crashed


def _own_choice(one: LeftOut) -> list[Chosen]:
    return _chosen(one, scores(one.group.rows, one.forecasts, one.tried))


def _chosen(one: LeftOut, found: Floats) -> list[Chosen]:
    # Where nothing ran there is no best to compare with.
    cells = [(nodes, among) for nodes, among in one.cells if one.group.rows.ran[among].any()]
    judged = [judge_choice(one, nodes, choose(found, among)) for nodes, among in cells]
    return [(choice.regret, choice.crashed) for choice in judged]


def _shares(chosen: Sequence[Chosen]) -> Figures:
    """Return how good some choices are: shares of cells, and the median regret where the choice ran."""
    regrets = np.array([np.inf if regret is None else regret for regret, _ in chosen])
    return {
        "within_5_percent": overall(np.mean, regrets <= 0.05),
        "within_10_percent": overall(np.mean, regrets <= 0.10),
        "regret_median": overall(np.median, regrets[np.isfinite(regrets)]),
        "crash_chosen": overall(np.mean, [crashed for _, crashed in chosen]),
        "cells": len(chosen),
    }


def anchors(judged: Sequence[LeftOut], seed: int = 0) -> list[Figures]:
    """Return how this and the rivals choose on the same lines."""
    rng = np.random.default_rng(seed)
    rules: dict[str, Callable[[LeftOut], list[Chosen]]] = {
        "law": _own_choice,
        "tp_dp_pp": lambda one: _chosen(one, _rule_scores(one, fill_node=True)),
        "megatron": lambda one: _chosen(one, _rule_scores(one, fill_node=False)),
        "random": lambda one: [pick for _ in range(20) for pick in _chosen(one, rng.random(len(one.group.lines)))],
    }
    return [
        {"name": name, **_shares([choice for one in judged for choice in rule(one)])} for name, rule in rules.items()
    ]


def _rule_scores(one: LeftOut, *, fill_node: bool) -> Floats:
    """Score by a rule of thumb: ranks of its criteria, the first first; memory as counted."""
    rows, machine = one.group.rows, one.group.rows.setting.machine
    layouts, per_node = rows.layouts, machine.per_node
    inside = layouts.tp <= per_node
    if fill_node:
        criteria = (~inside, layouts.pp, per_node - layouts.tp, -layouts.micro_batch, -layouts.shard)
    else:
        criteria = (~inside, layouts.tp * layouts.pp, layouts.pp, -layouts.micro_batch, -layouts.shard)
    order = np.lexsort([np.asarray(criterion) for criterion in reversed(criteria)])
    ranks = np.empty(len(order))
    ranks[order] = np.arange(len(order))
    gib = np.exp(log_memory(LogPrior.of(MEMORY).centre, count_memory(layouts, rows.setting)))
    fits = (gib < 0.9 * machine.gib) & allowed(layouts, rows.setting)
    return np.where(fits, 1 / (1 + ranks), 0.0)
