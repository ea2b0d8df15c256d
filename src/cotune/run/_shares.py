"""Shares of the machine: which worker gets which cores or GPUs.

Each worker takes the units that are least in use, in order; so the workers of one
launch get neighbouring cores, several launches keep out of each other's way, and
when there are more workers than units they go round.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence


class Shares:
    """How many workers hold each unit."""

    def __init__(self, units: Sequence[int]) -> None:
        self.units = tuple(units)
        self._held: Counter[int] = Counter()

    def take(self, count: int) -> tuple[int, ...]:
        """Return the `count` least used units and count them as held once more."""
        chosen = tuple(sorted(sorted(self.units, key=lambda unit: self._held[unit])[:count]))
        self._held.update(chosen)
        return chosen

    def give_back(self, units: Iterable[int]) -> None:
        """Count these units as held once less."""
        self._held.subtract(list(units))
