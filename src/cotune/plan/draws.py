"""Runs draw by draw: the epochs that each takes, its seconds, and whether deadline and budget are kept.

    N = first epoch whose accuracy meets the target         (per recipe and draw)
    t = startup e^(spread' z) + N (epoch_seconds e^(spread z) + overhead)

Configs come in blocks, so that the draws of a hundred thousand of them need never be in memory together.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from cotune.forecast import Outlook
from cotune.types import Floats, Goal, Ints, Mask

ROWS = 8192  # rows of draws held in memory at a time


def epochs_needed(outlook: Outlook, goal: Goal, sign: int) -> Floats:
    """Return for each recipe and draw the epochs a run takes (one row when all take the same)."""
    learning = outlook.learning
    if goal.target is None or learning is None:
        return np.full((1, outlook.draws), float(goal.cap))
    evaluated = learning.evaluated(np.arange(len(learning.shown)), goal.max_epochs)
    most = int(evaluated.max(initial=1))
    met = learning.best[:, :, :most] >= sign * goal.target
    met &= (np.arange(met.shape[2]) < evaluated[:, None])[:, None, :]
    first = (met.argmax(axis=2) + 1) * learning.steps[:, None]
    return np.where(met.any(axis=2), first, np.inf)


def longest_epochs(outlook: Outlook, goal: Goal, rate: Floats, confidence: float) -> Iterator[tuple[Ints, Floats]]:
    """Yield blocks of (rows, most epochs up to an evaluation that deadline and budget allow in that share of draws)."""
    around, between = _around(outlook, confidence)
    for rows in _blocks(outlook, rate):
        step = step_of(outlook, rows)
        slow = np.quantile(around.each(rows), between, axis=1)
        allowed = np.full(len(rows), np.inf)
        if goal.deadline is not None:
            allowed = np.minimum(allowed, goal.deadline)
        if goal.max_cost is not None:
            allowed = np.minimum(allowed, goal.max_cost / rate[rows])
        fits = step * np.floor((allowed - np.quantile(around.begun(rows), between, axis=1)) / slow / step)
        yield rows, np.clip(fits, 0.0, goal.max_epochs)


def _around(outlook: Outlook, share: float) -> tuple[Outlook, float]:
    """Return an outlook of the two draws of time that a share of all lies between, and how far it lies between them.

    Seconds rise with their draw, so these two tell any quantile of them.
    """
    place = share * (outlook.draws - 1)
    below = max(min(int(place), outlook.draws - 2), 0)
    two = np.sort(outlook.z_time)[[below, min(below + 1, outlook.draws - 1)]]
    return replace(outlook, z_time=two), place - below


def runs(outlook: Outlook, goal: Goal, rate: Floats, needed: Floats) -> Iterator[tuple[Ints, Mask, Floats]]:
    """Yield blocks of (rows, whether each draw meets the goal, seconds each draw takes)."""
    for rows in _blocks(outlook, rate):
        wanted = of_rows(needed, outlook, rows)
        spent = outlook.begun(rows) + np.minimum(wanted, goal.max_epochs) * outlook.each(rows)
        yield rows, affordable(goal, spent, rate[rows]) & np.isfinite(wanted), spent


def affordable(goal: Goal, spent: Floats, rate: Floats) -> Mask:
    """Return which draws keep to the deadline and the budget."""
    kept = np.ones(spent.shape, dtype=bool)
    if goal.deadline is not None:
        kept &= spent <= goal.deadline
    if goal.max_cost is not None:
        kept &= spent * rate[:, None] <= goal.max_cost
    return kept


def step_of(outlook: Outlook, rows: Ints) -> Floats:
    """Return the epochs between two evaluations of some configs, after which a run may stop."""
    learning = outlook.learning
    return np.ones(len(rows)) if learning is None else learning.steps[learning.recipe[rows]]


def of_rows(needed: Floats, outlook: Outlook, rows: Ints) -> Floats:
    """Return the epochs needed by some configs."""
    if len(needed) == 1 or outlook.learning is None:
        return np.repeat(needed[:1], len(rows), axis=0)
    return needed[outlook.learning.recipe[rows]]


def _blocks(outlook: Outlook, rate: Floats) -> Iterator[Ints]:
    """Yield the rows of configs that can run at all, a block at a time."""
    rows = np.flatnonzero(np.isfinite(rate) & np.isfinite(outlook.epoch_seconds))
    return (rows[begin : begin + ROWS] for begin in range(0, len(rows), ROWS))
