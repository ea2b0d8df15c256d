"""Units that an engine has lost: asked for when a job loses workers, and then until all of them are back.

units of a type = workers that the engine of the job holds when nothing else runs there
                + what jobs of other engines hold of that type
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from cotune.cluster.policy import Active
from cotune.cluster.service.cluster_in_use import ClusterInUse
from cotune.errors import CotuneError

LOOK_SECONDS = 5.0  # between two questions whether lost units are back


@dataclass(frozen=True, slots=True)
class EngineDevice:
    """A device of an engine, as the job calls it that runs there."""

    engine: str
    settings: Mapping[str, Any]
    device: str


Room = Callable[[EngineDevice], int | None]
Elsewhere = Callable[[str, str], int]


class LostUnits:
    """Which types of a cluster are short of units, and whom to ask for them."""

    def __init__(self, cluster: ClusterInUse, room: Room, elsewhere: Elsewhere) -> None:
        """Ask `room` how many workers an engine holds, `elsewhere` what others than an engine hold of a type."""
        self._cluster, self._room, self._elsewhere = cluster, room, elsewhere
        self._asked: dict[str, EngineDevice] = {}  # by type
        self._looked = time.monotonic()

    def noticed_by(self, active: Active, where: EngineDevice) -> bool:
        """Take in that a job has lost workers; say whether units are lost with them."""
        assert active.config is not None
        kind = active.config.device
        there = self._there(kind, where)
        if there is None or not self._cluster.has(kind, there, active):
            return False
        self._asked[kind] = where
        return True

    def came_back(self) -> bool:
        """Ask now and then whether lost units are there again; say whether some are."""
        now = time.monotonic()
        if not self._asked or now < self._looked + LOOK_SECONDS:
            return False
        self._looked, news = now, False
        for kind, where in list(self._asked.items()):
            there = self._there(kind, where)
            news |= there is not None and self._cluster.has(kind, there)
            if kind not in self._cluster.smaller:
                del self._asked[kind]
        return news

    def _there(self, kind: str, where: EngineDevice) -> int | None:
        try:
            room = self._room(where)
        except CotuneError:  # the engine is away as a whole: nothing is known
            return None
        return None if room is None else room + self._elsewhere(kind, where.engine)
