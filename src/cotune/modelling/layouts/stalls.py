"""Runs that stall: on a large network every exchange between nodes may wait as for a lost message, the whole run long.

    stalled  = healthy + s x exchanges
    exchanges = m min(pp - 1, 2) + max(pp - 2, 0)      pipelines: those of the busiest stage, and of the fill
              = 1                                      one stage: its gradients
    P(healthy) = (1 - n / (N + 1/2))^b       b bad nodes: of any run, a pipeline, one between tensor groups of > 2 nodes

A table of layouts shows two kinds of runs and few between them. A run stalls when one of its n nodes is bad for it.
Nodes are drawn from a pool of N, so a job that takes most of the pool can hardly avoid the bad ones (the formula is the
hypergeometric one for a number that is not whole); a pool is as large as the largest job that was tried on it. b and
`s` are fitted by expectation and maximisation with priors: a lost message costs a retransmission in each of two
directions (TCP waits 0.2 s at least). What is on one node never stalls.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from cotune.modelling.layouts.layout import Layouts
from cotune.types import Floats


@dataclass(frozen=True, slots=True)
class StallConstants:
    """What a run of either kind looks like, as deviations of logarithms."""

    healthy: float = 0.15
    stalled: float = 0.2
    odd: float = 0.03  # share of runs that are like neither
    tail: float = 0.7  # of those
    seconds: float = 0.3  # of one run's seconds of an exchange
    seconds_before: float = 0.5  # of what they are before anything is measured
    rounds: int = 30
    least: float = 0.1  # probability from which an interval reaches to the other kind


STALLS = StallConstants()


@dataclass(frozen=True)
class Stalls:
    """How many nodes of a pool are bad, and the seconds that each exchange of a stalled run takes longer."""

    weights: Floats  # logarithms: of the bad nodes of any run, and how many times more of the two kinds of pipelines
    spread: Floats  # of these, as deviations
    seconds: float
    pool: int  # nodes that jobs are placed on

    @classmethod
    def assumed(cls) -> Stalls:
        """Return what is known before any table: two retransmissions, and less than one bad node in 64."""
        return cls(np.array([np.log(0.3), 0.0, 0.0]), np.full(3, 1.5), 0.4, pool=64)

    @classmethod
    def average(cls, fitted: list[Stalls], spread: float = 0.5) -> Stalls:
        """Return the average of what was fitted elsewhere, on the largest of the pools."""
        weights = np.mean([one.weights for one in fitted], axis=0)
        seconds = float(np.exp(np.mean([np.log(one.seconds) for one in fitted])))
        return cls(weights, np.full(len(weights), spread), seconds, max(one.pool for one in fitted))

    def probability(self, layouts: Layouts, per_node: int) -> Floats:
        """Return the probability that a run of each layout stalls."""
        columns, drawn = self._columns(layouts, per_node)
        return np.asarray((exchanges(layouts, per_node) > 0) * -np.expm1(-np.exp(columns @ self.weights) * drawn))

    def extra(self, layouts: Layouts, per_node: int) -> Floats:
        """Return the seconds that a stalled run's step takes longer."""
        return self.seconds * exchanges(layouts, per_node)

    def told(self, healthy: Floats, layouts: Layouts, per_node: int) -> Floats:
        """Return low, mid, high seconds, given those of healthy runs: each is of the kind that is so likely."""
        extra, chance = self.extra(layouts, per_node), self.probability(layouts, per_node)
        reached = chance[:, None] > np.array([1 - STALLS.least, 0.5, STALLS.least])
        return np.asarray(healthy + reached * extra[:, None])

    def fit(self, layouts: Layouts, per_node: int, law: Floats, measured: Floats) -> tuple[Stalls, Floats]:
        """Return bad nodes and seconds given what runs took where the law says so much, and the chance of each."""
        pool = max(self.pool, int(np.max(layouts.gpus, initial=0)) // per_node)
        found, chance, count = replace(self, pool=pool), np.zeros(len(law)), exchanges(layouts, per_node)
        columns, drawn = found._columns(layouts, per_node)
        more = np.log(np.maximum(measured - law, 1e-9) / np.maximum(count, 1))
        for _ in range(STALLS.rounds):
            before = found.probability(layouts, per_node)
            slow = before * _likelihood(np.log(measured / (law + found.seconds * count)), STALLS.stalled)
            chance = slow / (slow + (1 - before) * _likelihood(np.log(measured / law), STALLS.healthy))
            clear = np.where(measured > law * (1 + 2 * STALLS.healthy), chance, 0.0) / STALLS.seconds**2
            prior = 1 / STALLS.seconds_before**2
            centre = (np.sum(clear * more) + prior * np.log(self.seconds)) / (np.sum(clear) + prior)
            weights, apart = found.weights, count > 0
            for _ in range(4):
                weights = weights + self._step(weights, columns[apart], drawn[apart], chance[apart])
            found = replace(found, weights=weights, seconds=float(np.exp(centre)))
        return found, chance

    def _step(self, weights: Floats, columns: Floats, drawn: Floats, chance: Floats) -> Floats:
        """Return a step of Fisher's scoring towards the most likely weights, given the chance that each run stalled."""
        bad = np.exp(columns @ weights) * drawn
        stalls = -np.expm1(-bad)
        slope = columns.T @ (bad * (chance - stalls) / stalls) - (weights - self.weights) / self.spread**2
        curvature = (columns * (bad**2 * (1 - stalls) / stalls)[:, None]).T @ columns + np.diag(1 / self.spread**2)
        return np.asarray(np.clip(np.linalg.solve(curvature, slope), -1, 1))

    def _columns(self, layouts: Layouts, per_node: int) -> tuple[Floats, Floats]:
        """Return what the weights are multiplied with, and -ln(1 - n / (N + 1/2)): how much of the pool a job takes."""
        nodes = layouts.gpus / per_node
        drawn = -np.log1p(-nodes / (np.maximum(nodes, self.pool) + 0.5))
        piped = layouts.pp > 1
        kinds = (np.ones(len(layouts)), piped, piped & (layouts.tp > 2 * per_node))
        return np.stack([np.asarray(kind, dtype=float) for kind in kinds], axis=1), drawn


def exchanges(layouts: Layouts, per_node: int) -> Floats:
    """Return how many exchanges of a step wait for each other; none inside a node."""
    piped = layouts.accumulate * np.minimum(layouts.pp - 1, 2) + np.maximum(layouts.pp - 2, 0)
    alone = np.where(layouts.dp > 1, 1, 0)
    return np.asarray(np.where(layouts.pp > 1, piped, alone) * (layouts.gpus > per_node), dtype=np.float64)


def _likelihood(distance: Floats, deviation: float) -> Floats:
    """Return how likely runs are at a distance from their kind, in logarithms; a few are like neither kind."""
    near = np.exp(-0.5 * (distance / deviation) ** 2) / (deviation * np.sqrt(2 * np.pi))
    odd = np.exp(-np.abs(distance) / STALLS.tail) / (2 * STALLS.tail)
    return np.asarray((1 - STALLS.odd) * near + STALLS.odd * odd)
