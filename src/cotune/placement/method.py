"""Placing: the layers of a network on types of device, at the least cost for a throughput.

A placement method is one file, found by its name. `exact` proves its answer; the others are
rules that people use. The searches of `plan/` work here too, see `layer_space`.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from cotune.placement.problems import Placement, Problem


class Method(Protocol):
    """What places layers."""

    def place(self, problem: Problem, rng: random.Random) -> Placement | None:
        """Return a plan that reaches the throughput within the limits, or None."""
        ...
