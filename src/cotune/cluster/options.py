"""What a job with a deadline can run in, and how long that is believed to take."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from cotune.cluster.policy import COUNTED, Active, rigid_config
from cotune.cluster.work import Believed, Steady
from cotune.types import Cluster, Config, Floats, Ints

_NEAR = 0.02  # of the whole
_LEAST = 1e-3  # of the whole
_NORMAL = NormalDist()


def choices(active: Active, cluster: Cluster, *, any_batch: bool = False) -> tuple[Config, ...]:
    """Return the configs of a job, with its own batch or with any; a rigid one may run on any device of its kind."""
    if active.belief is None:
        job = active.job
        if job.wants is not None:
            return (job.wants,)
        kinds = [device.name for device in cluster.devices if job.device in (None, device.name)]
        return tuple(rigid_config(job.gpus, job.batch_size, kind) for kind in kinds)
    return active.belief.recipes if any_batch else active.belief.configs


def packing(configs: Sequence[Config], cluster: Cluster) -> Sequence[Config]:
    """Return the configs that break no node in two: whole nodes, or a part that divides one; all if none does.

    Jobs of such sizes fit beside each other, and stand on as few nodes as their forecasts count on. Where GPUs are
    only counted every size does.
    """
    sizes = {device.name: device.per_node for device in cluster.devices if device.per_node}
    if not sizes:
        return configs
    per_node = [sizes.get(one.device, 1) for one in configs]
    whole = [one for one, size in zip(configs, per_node, strict=True) if not (one.units % size and size % one.units)]
    return whole or configs


def seconds_left(active: Active, config: Config) -> float:
    """Return the believed time to the end in a config; a job past its forecast is taken to be near its end."""
    left = _forecast(active, config)
    return left if left > 0 else _NEAR * _whole(active, config)


def cautious(active: Active, config: Config, z: float) -> float:
    """Return the time to the end that is not exceeded with the probability of z standard deviations.

    A job that still runs is none of the shorter ones that it might have been, so this probability is that among
    the lengths beyond what has passed: the more a forecast is overrun, the higher the quantile of it that counts.
    """
    if not active.spread:
        return seconds_left(active, config)
    left, whole = _forecast(active, config), _whole(active, config)
    if not 0.0 < whole < math.inf:
        return whole
    passed = max(whole - left, 0.0) / whole
    longer = _NORMAL.cdf(-math.log(passed) / active.spread) if passed else 1.0
    quantile = -_NORMAL.inv_cdf(max(longer * _NORMAL.cdf(-z), 1e-300))
    return max(left + math.expm1(quantile * active.spread) * whole, _LEAST * whole)


def _forecast(active: Active, config: Config) -> float:
    """Return what is left of the believed time in a config: nothing or less once it is overrun."""
    if active.belief is None:
        return active.left
    # where it runs now it is known how fast its nodes are
    return active.belief.seconds(active.done, config, active.nodes if config == active.config else COUNTED)


def _whole(active: Active, config: Config) -> float:
    """Return the believed time from the start to the end in a config."""
    return active.total if active.belief is None else active.belief.seconds(0.0, config)


@dataclass(frozen=True, slots=True)
class Sizes:
    """What a job can run in, by units, as far as that stays the same while it gets on."""

    configs: tuple[Config | None, ...]  # from the smallest up, and nothing
    sizes: Ints  # units of each config, rising
    units: Ints  # the same, and of nothing
    whole: Floats | None  # seconds from the start to the end where speeds never change; else they are to be asked for
    total: float = 0.0  # work that is to be done
    rates: Floats | None = None  # of it per second
    factor: float = 1.0  # how many times as long it is believed to take
    best: Ints | None = None  # the fastest of the first so many configs, where speeds never change

    @classmethod
    def of(cls, active: Active, allowed: Sequence[Config]) -> Sizes:
        """Return the configs in order of their units; of as many units the fastest comes first."""
        took = {config: seconds_left(active, config) for config in allowed}
        configs = sorted(took, key=lambda config: (config.units, took[config]))
        sizes = np.array([config.units for config in configs], dtype=np.int64)
        units = np.append(sizes, 0)
        belief, factor = active.belief, 1.0
        if isinstance(belief, Believed):
            factor, belief = belief.factor, belief.truth
        if not isinstance(belief, Steady) or belief.across_racks != 1.0 or not all(map(belief.rates.get, configs)):
            return cls((*configs, None), sizes, units, None)
        rates = np.array([belief.rates[config] for config in configs])
        whole = belief.total / rates
        surplus = (factor - 1.0) * whole if factor != 1.0 else 0.0
        best = _fastest_within(1.0 / np.maximum(surplus + whole, 1e-9))
        return cls((*configs, None), sizes, units, surplus + whole, belief.total, rates, factor, best)

    def seconds(self, active: Active) -> Floats:
        """Return the believed time to the end in each config; a job past its forecast is taken to be near its end."""
        if self.whole is None or self.rates is None:
            return np.array([seconds_left(active, config) for config in self.configs if config is not None])
        left: Floats = (self.total - active.done) / self.rates
        if self.factor != 1.0:
            left = (self.factor - 1.0) * (self.total / self.rates) + left
        return left if left[-1] > 0 and left.min() > 0 else np.where(left > 0, left, _NEAR * self.whole)

    def row(self, config: Config | None) -> int:
        """Return where a config stands; -1 for nothing, and for one that is not there."""
        for place, one in enumerate(self.configs):
            if one is config:
                return place if config is not None else -1
        return self.configs.index(config) if config in self.configs else -1


@dataclass(frozen=True, slots=True)
class Options:
    """What a job can run in, by units, and how fast it would get on there now; row -1 is to run in nothing."""

    configs: Sequence[Config | None]
    sizes: Ints  # units of each config, rising
    units: Ints  # the same, and of nothing
    seconds: Floats  # to the end in each config
    speed: Floats  # how much of what is left is done per second, and by nothing
    best: Ints  # the fastest of the first so many configs
    held: int  # the row it runs in now
    waits: float  # seconds until it is at work there
    restart: float  # seconds that it takes to get to work in another

    @classmethod
    def of(cls, active: Active, allowed: Callable[[], Sequence[Config]]) -> Options:
        """Return a job's options; what it may run in is asked for once."""
        known: Sizes | None = active.memory
        if known is None:
            known = active.memory = Sizes.of(active, allowed())
        seconds = known.seconds(active)
        speed = np.zeros(len(seconds) + 1)
        np.divide(1.0, np.maximum(seconds, 1e-9), out=speed[:-1])
        return cls(
            known.configs,
            known.sizes,
            known.units,
            seconds,
            speed,
            _fastest_within(speed[:-1]) if known.best is None else known.best,
            known.row(active.config),
            max(active.ready - active.synced, 0.0) if active.running else 0.0,
            active.restart,
        )

    def within(self, units: Ints) -> Ints:
        """Return the row of the fastest config within each of some units."""
        return self.best[self.sizes.searchsorted(units, side="right")]

    def working(self, chosen: Ints, lasts: Floats) -> Floats:
        """Return the seconds of each stretch less those that getting to work in another config takes."""
        if not self.restart:
            return lasts
        lost = np.empty(chosen.shape)
        lost[..., 1:] = np.where(chosen[..., 1:] != chosen[..., :-1], self.restart, 0.0)
        lost[..., :1] = np.where(chosen[..., :1] == self.held, self.waits, self.restart)
        return lasts - lost


def _fastest_within(speed: Floats) -> Ints:
    """Return, for each number of configs from none to all, which of the first so many is the fastest; -1 for none."""
    best = [-1]
    for place, value in enumerate(speed.tolist()):
        best.append(place if best[-1] < 0 or value > speed[best[-1]] else best[-1])
    return np.array(best, dtype=np.int64)
