"""Shares of the machine: which worker gets which cores or GPUs.

Each worker takes the units that are least in use by its own engine, and among these one that no other
engine on this machine uses, in order; so the workers of one launch get neighbouring cores, several launches
and several engines keep out of each other's way, and when there are more workers than units they go round.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from cotune.run.local.claims import Claims


class Shares:
    """How many workers hold each unit, such as a `core`."""

    def __init__(self, kind: str, units: Sequence[int]) -> None:
        self.units = tuple(units)
        self._held: Counter[int] = Counter()
        self._claims = Claims(kind)

    def take(self, count: int) -> tuple[int, ...]:
        """Return the `count` least used units and count them as held once more."""
        use = {unit: (self._held[unit], self._claims.others(unit)) for unit in self.units}
        chosen = tuple(sorted(sorted(self.units, key=use.__getitem__)[:count]))
        self._held.update(chosen)
        for unit in chosen:
            self._claims.claim(unit)
        return chosen

    def give_back(self, units: Iterable[int]) -> None:
        """Count these units as held once less."""
        for unit in units:
            self._held[unit] -= 1
            if not self._held[unit]:
                self._claims.drop(unit)
