"""Choosing: searches over spaces, and the planner that ranks configs by their forecasts.

A search is one file. It minimises `rank`, which takes points (rows of indices) and
returns their keys: rows compared from left to right, infinite where a point is not valid.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Protocol

from cotune.space import Space
from cotune.types import Floats, Ints

Point = tuple[int, ...]
Rank = Callable[[Ints], Floats]


class Search(Protocol):
    """What finds the point of a space with the least rank."""

    def search(self, space: Space, rank: Rank, rng: random.Random) -> Point:
        """Return the best point seen."""
        ...
