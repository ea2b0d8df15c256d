"""What a job with a deadline can still run in, worked out once, and again only when it has got on.

On each kind of device only configs count that are faster than all smaller ones, and that leave nodes whole for others
(`packing`). Two times are told of each: what is believed, and what is set aside for a promise, which is more where the
forecast is uncertain. A job that waits keeps its candidates; of one that runs only the seconds change.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from cotune.cluster.options import cautious, choices, packing, seconds_left
from cotune.cluster.policy import Active, Promise
from cotune.cluster.work import Steady
from cotune.types import Cluster, Config, Floats, Ints

_AT_ONCE = 1e-9  # seconds, for jobs that are done


@dataclass(slots=True)
class Ladder:
    """The configs of one device from the smallest up, each faster than the one before."""

    device: str
    price: float  # of a unit for a second
    configs: tuple[Config, ...]
    units: tuple[int, ...]
    sizes: Ints  # the same
    counted: Ints  # the same, and 0 at the end: row -1 is to run in nothing
    rates: tuple[float, ...] | None  # of work of which nothing else decides, see `_rates`
    held: int = -1  # the row of what the job runs in
    likely: list[float] = field(default_factory=list)  # believed seconds to the end
    sure: list[float] = field(default_factory=list)  # seconds that are set aside for it

    @property
    def speed(self) -> Floats:
        """Return how much of what is left each config does in a second; nothing does nothing."""
        return np.array([*(1.0 / max(seconds, _AT_ONCE) for seconds in self.sure), 0.0])

    def cost(self, row: int) -> float:
        """Return what running to the end in a config is believed to cost."""
        return self.price * self.units[row] * self.likely[row]

    def row(self, units: int) -> int:
        """Return the largest config within some units; -1 for none."""
        return bisect_right(self.units, units) - 1


class Stamp(NamedTuple):
    """A time that counts as long as a job has the same promise and holds the same."""

    promise: Promise | None
    config: Config | None
    at: float


@dataclass(slots=True)
class Candidates:
    """All that a job can run in, as it stands after some work."""

    ladders: tuple[Ladder, ...]
    quickest: float  # seconds to the end in the fastest config, if all goes well
    done: float = -1.0
    config: Config | None = None  # what it held when this was worked out
    margin: float = 0.0  # standard deviations that are set aside
    tried: float = -math.inf  # when no room was found for it last
    wake: Stamp | None = None  # when to look at it again
    base: tuple[Ladder, int] | None = None  # the cheapest in time, and until when it is if the job runs in it
    base_until: float = -math.inf
    revised: Stamp | None = None  # when its promise was made as small as it can be

    def on(self, device: str) -> Ladder:
        """Return the configs on a device."""
        for ladder in self.ladders:
            if ladder.device == device:
                return ladder
        raise LookupError(device)


def candidates_of(active: Active, cluster: Cluster, margin: float, hope: float) -> Candidates:
    """Return a job's candidates, those of before if it has not got on since.

    `margin` is how many standard deviations are set aside for a promise, `hope` by how many it may be quicker.
    """
    known: Candidates | None = active.memory
    if known is None:
        known = active.memory = Candidates(tuple(_ladders(active, cluster)), math.inf)
    return brought_up_to_date(active, known, margin, hope)


def brought_up_to_date(active: Active, known: Candidates, margin: float, hope: float) -> Candidates:
    """Return the candidates of a job as it stands now."""
    if known.done == active.done and known.config is active.config and known.margin == margin:
        return known
    for ladder in known.ladders:
        if known.config is not active.config:
            ladder.held = -1 if active.config not in ladder.configs else ladder.configs.index(active.config)
        ladder.likely = _likely(active, ladder)
        sure = [cautious(active, config, margin) for config in ladder.configs] if active.spread else ladder.likely
        ladder.sure = sure
    known.done, known.config, known.margin = active.done, active.config, margin
    if len(known.ladders) == 1:
        known.quickest = _at_best(active, known.ladders[0], hope)
    else:
        known.quickest = min((_at_best(active, ladder, hope) for ladder in known.ladders), default=math.inf)
    return known


def _at_best(active: Active, ladder: Ladder, hope: float) -> float:
    return cautious(active, ladder.configs[-1], -hope) if active.spread else ladder.likely[-1]


def _ladders(active: Active, cluster: Cluster) -> list[Ladder]:
    ladders = []
    for device in cluster.devices:
        there = device.count if device.count is not None else 1 << 60
        configs = [one for one in choices(active, cluster, any_batch=True) if one.device == device.name]
        fitting = [one for one in packing(configs, cluster) if one.units <= there]
        rising = _rising(active, sorted(fitting, key=lambda one: one.units))
        if not rising:
            continue
        sizes = tuple(one.units for one in rising)
        counted = np.array([*sizes, 0], dtype=np.int64)
        price = device.price_per_hour / 3600.0 if cluster.priced and device.price_per_hour else 1.0
        ladders.append(Ladder(device.name, price, rising, sizes, counted[:-1], counted, _rates(active, rising)))
    return ladders


def _rising(active: Active, configs: Sequence[Config]) -> tuple[Config, ...]:
    """Return the configs that are faster than all smaller ones."""
    rising: list[Config] = []
    best = math.inf
    for config in configs:
        seconds = seconds_left(active, config)
        if seconds >= best:
            continue
        if rising and rising[-1].units == config.units:
            rising.pop()
        rising.append(config)
        best = seconds
    return tuple(rising)


def _rates(active: Active, configs: Sequence[Config]) -> tuple[float, ...] | None:
    """Return the work done per second in each config where that never changes; None where it is to be asked for."""
    belief = active.belief
    if type(belief) is Steady and belief.across_racks == 1.0:
        return tuple(belief.rates[config] for config in configs)
    return None


def _likely(active: Active, ladder: Ladder) -> list[float]:
    """Return the believed seconds to the end in each config."""
    if ladder.rates is None or active.belief is None or not active.done < active.belief.total:
        return [seconds_left(active, config) for config in ladder.configs]
    left = active.belief.total - active.done
    if 0.0 in ladder.rates:
        return [left / rate if rate else math.inf for rate in ladder.rates]
    return [left / rate for rate in ladder.rates]
