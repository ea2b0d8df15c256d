"""Malleable work: how fast it gets on in each config.

A job's progress in a config is a curve, work against seconds, made of straight pieces:

    seconds(done) = T(total) - T(done)        advance(done, s) = T^-1(T(done) + s)

with T the seconds from the start to some work done. A job of constant speed has one piece.
`Believed` is the same job as a policy sees it when its forecast is off by a factor.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from cotune.cluster.policy import COUNTED, Nodes, Work
from cotune.types import Config, Floats


class ConstantSpeed:
    """What all work has in common whose speed in a config never changes."""

    @property
    def recipes(self: Work) -> tuple[Config, ...]:
        return self.configs

    def advance(self: Work, done: float, seconds: float, config: Config, nodes: Nodes = COUNTED) -> float:
        return done + seconds * self.rate(config, nodes)

    def seconds(self: Work, done: float, config: Config, nodes: Nodes = COUNTED) -> float:
        rate = self.rate(config, nodes)
        return (self.total - done) / rate if rate else math.inf

    def seconds_after_epoch(self: Work, done: float, config: Config) -> float:
        return self.seconds(done, config)


@dataclass(frozen=True)
class Steady(ConstantSpeed):
    """Work done at a constant rate in each of some configs, and `across_racks` times slower over several racks."""

    total: float
    rates: Mapping[Config, float]
    across_racks: float = 1.0

    @property
    def configs(self) -> tuple[Config, ...]:
        return tuple(self.rates)

    def rate(self, config: Config, nodes: Nodes = COUNTED, done: float = 0.0) -> float:  # noqa: ARG002  # as `Work` asks
        return self.rates[config] / (self.across_racks if nodes.racks > 1 else 1.0)


@dataclass(frozen=True)
class Pieces:
    """One config's progress: `seconds[i]` from the start until `work[i]` is done."""

    work: Floats
    seconds: Floats

    def left(self, done: float) -> float:
        return float(self.seconds[-1] - np.interp(done, self.work, self.seconds))

    def after(self, done: float, seconds: float) -> float:
        return float(np.interp(np.interp(done, self.work, self.seconds) + seconds, self.seconds, self.work))

    def rate(self, done: float) -> float:
        piece = min(int(np.searchsorted(self.work, done, side="right")), len(self.work) - 1)
        took = self.seconds[piece] - self.seconds[piece - 1]
        return float((self.work[piece] - self.work[piece - 1]) / took) if took > 0 else math.inf


@dataclass(frozen=True)
class Believed:
    """A job that is believed to take `factor` times as long as it does; progress is seen as it is."""

    truth: Work
    factor: float

    @property
    def total(self) -> float:
        return self.truth.total

    @property
    def configs(self) -> tuple[Config, ...]:
        return self.truth.configs

    @property
    def recipes(self) -> tuple[Config, ...]:
        return self.truth.recipes

    def rate(self, config: Config, nodes: Nodes = COUNTED, done: float = 0.0) -> float:
        return self.truth.rate(config, nodes, done)

    def advance(self, done: float, seconds: float, config: Config, nodes: Nodes = COUNTED) -> float:
        return self.truth.advance(done, seconds, config, nodes)

    def seconds(self, done: float, config: Config, nodes: Nodes = COUNTED) -> float:
        """Return the believed whole less what has passed: negative once the forecast is overrun."""
        surplus = (self.factor - 1.0) * self.truth.seconds(0.0, config, nodes) if self.factor != 1.0 else 0.0
        return surplus + self.truth.seconds(done, config, nodes)

    def seconds_after_epoch(self, done: float, config: Config) -> float:
        return self.factor * self.truth.seconds_after_epoch(done, config)
