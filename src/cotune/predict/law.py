"""The physical law of a step, whose coefficients `gaussian` learns.

    law(x) = work / (n peak) x ((1 + h / u + (q1 + q2 [t across nodes]) (t - 1) / width + q3 a)^g + net^g)^(1/g)
    net    = k1 (l - 1) / (l b) + k2 (N - 1) / (N b)

n workers on N nodes, l on each; b examples per worker between two exchanges, u of them at a
time; t workers share a tensor of some width; a is what attention adds; g is 2 where the network hides behind
arithmetic, else 1 (see `_layout`). Each coefficient is what its term adds to a typical config.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cotune.predict.layout import (
    at_once,
    bubble,
    exchanged,
    nodes,
    operations,
    overlap,
    peak,
    tensor,
    tensor_across,
    width,
)
from cotune.predict.process import Coefficients, TermShares
from cotune.space import Configs
from cotune.types import Floats, Ints

LAW = np.array([-0.7, -1.0, -1.0, -3.0, -3.0, 0.3])  # centres of ln h, k1, k2, q1, q2, q3 at a typical config
LAW_WIDTH = np.array([1.5, 1.5, 1.5, 1.5, 1.5, 0.5])
_NETWORK = slice(1, 3)  # the terms of the network
_ATTENTION = slice(5, 6)


@dataclass(frozen=True, slots=True)
class Law:
    """What multiplies each coefficient of the law, 1 at a typical config."""

    per_node: int | None
    typical: Floats

    @classmethod
    def of(cls, configs: Configs, per_node: int | None) -> Law:
        return cls(per_node, np.exp([np.log(scale).mean() for scale in cls._scales(configs)]))

    @staticmethod
    def _scales(configs: Configs) -> tuple[Floats, Floats, Floats]:
        """Return 1 / u and 1 / b in units of work, and 1 / width."""
        work, _, params = operations(configs)
        idle = 1 / (np.maximum(at_once(configs), 1e-3) * work)
        return idle, params / (np.maximum(exchanged(configs), 1) * work), 1 / width(configs)

    def base(self, configs: Configs) -> Floats:
        """Return the logarithm of work / (n peak), bubbles of a pipeline included."""
        work, _, _ = operations(configs)
        return np.log(work * bubble(configs) / np.maximum(configs.workers, 1) / peak(configs))

    def terms(self, configs: Configs) -> LawTerms:
        """Return what multiplies the coefficients for some configs."""
        scales = (scale / usual for scale, usual in zip(self._scales(configs), self.typical, strict=True))
        idle, rate, narrow = scales
        across = nodes(configs, self.per_node)
        local = np.maximum(configs.workers, 1) / across
        split = (tensor(configs) - 1) * narrow
        inside, between = (local - 1) / local * rate, (across - 1) / across * rate
        far = split * tensor_across(configs, self.per_node)
        return LawTerms(np.stack([idle, inside, between, split, far, operations(configs)[1]]), overlap(configs))


@dataclass(frozen=True, slots=True)
class LawTerms:
    """What multiplies each coefficient (rows) for each config (columns), and how each config's network overlaps."""

    factors: Floats
    overlap: Floats

    def take(self, rows: Ints) -> LawTerms:
        return LawTerms(self.factors[:, rows], self.overlap[rows])

    def log(self, coefficients: Coefficients) -> Floats:
        """Return the logarithm of all but the base, for each draw and config."""
        own, network = self._parts(coefficients)
        return np.asarray(np.log(own) + np.log1p((network / own) ** self.overlap) / self.overlap)

    def shares(self, coefficients: Coefficients) -> TermShares:
        """Return the share of the network in a step, and of matrix products in arithmetic."""
        own, network = self._parts(coefficients)
        ratio = (network / own) ** self.overlap
        return TermShares(ratio / (1 + ratio), 1 / (1 + coefficients.law[:, _ATTENTION] @ self.factors[_ATTENTION]))

    def slopes(self, coefficients: Coefficients) -> Floats:
        """Return by how much the logarithm rises with that of each coefficient, for each draw, coefficient and config.

        It is the share of the coefficient's term in a step.
        """
        own, network = self._parts(coefficients)
        whole = own**self.overlap + network**self.overlap
        found = coefficients.law[:, :, None] * self.factors
        slopes = found * (own ** (self.overlap - 1) / whole)[:, None]
        slopes[:, _NETWORK] = found[:, _NETWORK] * (network ** (self.overlap - 1) / whole)[:, None]
        return np.asarray(slopes)

    def doubts(self, coefficients: Coefficients) -> Floats:
        """Return how far each config lies apart (rows) for one width of each coefficient (columns), for one draw."""
        return np.asarray(self.slopes(coefficients)[0].T * LAW_WIDTH)

    def _parts(self, coefficients: Coefficients) -> tuple[Floats, Floats]:
        network = coefficients.law[:, _NETWORK] @ self.factors[_NETWORK]
        return 1 + coefficients.law @ self.factors - network, network
