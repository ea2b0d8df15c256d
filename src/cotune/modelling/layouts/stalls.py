"""Runs that stall: on a large network every exchange between nodes may wait as for a lost message, the whole run long.

    stalled  = healthy + s x exchanges
    exchanges = m min(pp - 1, 2) + max(pp - 2, 0)      pipelines: those of the busiest stage, and of the fill
              = 2                                      one stage: its gradients, scattered and gathered
    logit P(stalled) = a + b (pp > 1) + c log2 nodes

A table of layouts shows two kinds of runs and few between them. `s` and the odds are fitted by expectation and
maximisation with priors: a lost message costs a retransmission in each of two directions (TCP waits 0.2 s at least),
and if one bad node is enough, the odds grow with the number of nodes (c = ln 2). Nodes that are one node never stall.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from cotune.modelling.layouts.layout import Layouts
from cotune.types import Floats, Mask


@dataclass(frozen=True, slots=True)
class StallConstants:
    """What a run of either kind looks like, as deviations of logarithms, and how far models lie apart."""

    healthy: float = 0.15
    stalled: float = 0.2
    odd: float = 0.03  # share of runs that are like neither
    tail: float = 0.7  # of those
    seconds: float = 0.3  # of one run's seconds of an exchange
    seconds_before: float = 0.5  # of what they are before anything is measured
    between_models: float = 0.5  # of the logit of another model
    rounds: int = 30
    least: float = 0.1  # probability from which an interval reaches to the other kind


STALLS = StallConstants()


@dataclass(frozen=True)
class Stalls:
    """Odds of a stalled run, and the seconds that each of its exchanges takes longer."""

    weights: Floats  # of 1, a pipeline, and each doubling of nodes, in the logit
    covariance: Floats
    seconds: float

    @classmethod
    def assumed(cls) -> Stalls:
        """Return what is known before any table: two retransmissions, and odds that grow with the nodes."""
        return cls(np.array([-4.0, 0.0, np.log(2)]), np.diag([1.0, 1.5, 0.7]) ** 2, 0.4)

    @classmethod
    def average(cls, fitted: list[tuple[list[float], float]], spread: float = 0.5) -> Stalls:
        """Return the average of weights and seconds fitted elsewhere."""
        weights = np.mean([one for one, _ in fitted], axis=0)
        return cls(weights, np.diag(np.full(3, spread)) ** 2, float(np.exp(np.mean([np.log(s) for _, s in fitted]))))

    def probability(self, layouts: Layouts, per_node: int) -> Floats:
        """Return the probability that a run of each layout stalls."""
        columns, apart = _columns(layouts, per_node), exchanges(layouts, per_node) > 0
        return np.asarray(apart / (1 + np.exp(-columns @ self.weights)))

    def usual(self, layouts: Layouts, per_node: int) -> Mask:
        """Return where stalling is the rule, by more than the odds are uncertain."""
        columns, apart = _columns(layouts, per_node), exchanges(layouts, per_node) > 0
        variance = np.einsum("ij,jk,ik->i", columns, self.covariance, columns) + STALLS.between_models**2
        return np.asarray(apart & (columns @ self.weights > np.sqrt(variance)))

    def extra(self, layouts: Layouts, per_node: int) -> Floats:
        """Return the seconds that a stalled run's step takes longer."""
        return self.seconds * exchanges(layouts, per_node)

    def told(self, healthy: Floats, layouts: Layouts, per_node: int) -> Floats:
        """Return low, mid, high seconds, given those of healthy runs: mid is the kind that is the rule."""
        extra, usual = self.extra(layouts, per_node), self.usual(layouts, per_node)
        chance = self.probability(layouts, per_node)
        low, mid, high = healthy.T
        return np.column_stack(
            [
                np.where(usual & (chance > 1 - STALLS.least), low + extra, low),
                np.where(usual, mid + extra, mid),
                np.where(usual | (chance > STALLS.least), high + extra, high),
            ]
        )

    def fit(self, layouts: Layouts, per_node: int, law: Floats, measured: Floats) -> tuple[Stalls, Floats]:
        """Return the odds and seconds given what runs took where the law says so much, and the chance of each."""
        columns, count = _columns(layouts, per_node), exchanges(layouts, per_node)
        precision = np.linalg.inv(self.covariance)
        more = np.log(np.maximum(measured - law, 1e-9) / np.maximum(count, 1))
        found, chance = self, np.zeros(len(law))
        for _ in range(STALLS.rounds):
            before = found.probability(layouts, per_node)
            slow = before * _likelihood(np.log(measured / (law + found.seconds * count)), STALLS.stalled)
            chance = slow / (slow + (1 - before) * _likelihood(np.log(measured / law), STALLS.healthy))
            clear = np.where(measured > law * (1 + 2 * STALLS.healthy), chance, 0.0) / STALLS.seconds**2
            prior = 1 / STALLS.seconds_before**2
            centre = (np.sum(clear * more) + prior * np.log(self.seconds)) / (np.sum(clear) + prior)
            weights, curvature = found.weights, precision
            apart = count > 0
            for _ in range(4):
                odds = 1 / (1 + np.exp(-columns[apart] @ weights))
                slope = columns[apart].T @ (chance[apart] - odds) - precision @ (weights - self.weights)
                curvature = (columns[apart] * (odds * (1 - odds))[:, None]).T @ columns[apart] + precision
                weights = weights + np.linalg.solve(curvature, slope)
            found = replace(found, weights=weights, covariance=np.linalg.inv(curvature), seconds=float(np.exp(centre)))
        return found, chance


def exchanges(layouts: Layouts, per_node: int) -> Floats:
    """Return how many exchanges of a step wait for each other; none inside a node."""
    piped = layouts.accumulate * np.minimum(layouts.pp - 1, 2) + np.maximum(layouts.pp - 2, 0)
    alone = np.where(layouts.dp > 1, 2, 0)
    return np.asarray(np.where(layouts.pp > 1, piped, alone) * (layouts.gpus > per_node), dtype=np.float64)


def _columns(layouts: Layouts, per_node: int) -> Floats:
    nodes = np.maximum(layouts.gpus / per_node, 1)
    return np.stack([np.ones(len(layouts)), (layouts.pp > 1) * 1.0, np.log2(nodes)], axis=1)


def _likelihood(distance: Floats, deviation: float) -> Floats:
    """Return how likely runs are at a distance from their kind, in logarithms; a few are like neither kind."""
    near = np.exp(-0.5 * (distance / deviation) ** 2) / (deviation * np.sqrt(2 * np.pi))
    odd = np.exp(-np.abs(distance) / STALLS.tail) / (2 * STALLS.tail)
    return np.asarray((1 - STALLS.odd) * near + STALLS.odd * odd)
