"""Choosing: configs are judged by their forecasts, searched and made a plan.

    draws     the epochs and seconds of runs, draw by draw
    assess    what each config's forecast means for a goal: seconds, cost, the chance to meet it
    choose    ranks what was assessed and puts the `Plan` together, with its rivals and reason
    nearest   what comes nearest where no config meets the goal
    searches  one file each; `project/planner.py` is what the command line and `Project` ask

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
