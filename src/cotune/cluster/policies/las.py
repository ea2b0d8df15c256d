"""Least attained service, discretised (Tiresias): favour the jobs that have had little so far.

Attained service is GPUs x seconds run. Jobs start at level 0 and go down one when their
service reaches a threshold; levels are served in order, and each job gets all its GPUs or
is passed over. With a `knob`, a job that has waited knob x the time it ran goes back to
level 0 and starts afresh.

What is called Tiresias differs most in the order inside a level, and that changes the
average completion time several times over, so each variant has its name:

    tiresias   list     3250, 7200    running jobs keep their place, all others stand behind them
    pollux     fifo     57600         by time of entering the level, kept when stopped; rounds of 60 s (also Sia)
    lucid      submit   18000         by submission; rounds of 60 s
    blox       service  none          no levels: least attained service first; rounds of 60 s
    paper      start    3250          by first start, never started last

Reference: Gu et al., Tiresias: a GPU cluster manager for distributed deep learning, NSDI 2019.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from cotune.bounds import Interval, NotNegative, Positive
from cotune.cluster.ordered import Ordered
from cotune.cluster.policy import Active, Rank

_VARIANTS: dict[str, tuple[tuple[float, ...], str, float | None]] = {
    "tiresias": ((3250.0, 7200.0), "list", None),
    "pollux": ((57600.0,), "fifo", 60.0),
    "lucid": ((18000.0,), "submit", 60.0),
    "blox": ((), "service", 60.0),
    "paper": ((3250.0,), "start", None),
}
_ORDERS = ("list", "fifo", "submit", "start", "service")
_ALMOST = 1.0 - 1e-12  # service is summed in floating point


@dataclass(frozen=True)
class Las(Ordered):
    """Least attained GPU time first, in levels; `variant` names whose Tiresias it is."""

    variant: str = "tiresias"
    thresholds: Sequence[Positive] | None = None
    order: str | None = None
    knob: NotNegative = 0.0
    interval: Interval | None = None

    preempts: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.variant not in _VARIANTS:
            raise ValueError(f"no variant {self.variant!r} of las; there are {', '.join(_VARIANTS)}")
        thresholds, order, interval = _VARIANTS[self.variant]
        object.__setattr__(self, "thresholds", tuple(thresholds if self.thresholds is None else self.thresholds))
        object.__setattr__(self, "order", order if self.order is None else self.order)
        object.__setattr__(self, "interval", interval if self.interval is None else self.interval)
        if self.order not in _ORDERS:
            raise ValueError(f"no order {self.order!r} inside a level of las; there are {', '.join(_ORDERS)}")
        if self.order == "service" and self.interval is None:
            raise ValueError("las by service needs rounds: without an interval two equal jobs would alternate for ever")

    @property
    def steady(self) -> bool:
        return self.order != "service"

    def rank(self, active: Active) -> Rank:
        match self.order:
            case "list":
                return (active.level, not active.settled, active.turn)
            case "fifo":
                return (active.level, active.entered, active.number)
            case "submit":
                return (active.level, active.number)
            case "start":
                return (active.level, active.started, active.number)
            case _:
                return (active.level, active.service, active.number)

    def level_of(self, active: Active) -> int:
        patience = self.knob * self._counted(active)
        if patience and patience * _ALMOST <= active.starved and not active.running and active.level:
            return 0
        service = self._counted(active) * active.job.gpus
        reached = sum(service >= threshold * _ALMOST for threshold in self.thresholds or ())
        return max(active.level, reached)

    def level_lasts(self, active: Active) -> float:
        if not active.running:
            if not (self.knob and active.level):
                return math.inf
            return max(self.knob * self._counted(active) - active.starved, 0.0)
        service = self._counted(active) * active.job.gpus
        ahead = [threshold for threshold in self.thresholds or () if threshold * _ALMOST > service]
        return (min(ahead) - service) / active.job.gpus if ahead else math.inf

    def _counted(self, active: Active) -> float:
        """Return the seconds run since the last promotion."""
        return active.executed - active.forgiven
