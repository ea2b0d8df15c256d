"""Several engines as one: every job runs on the engine that its file names, and the service hears all of them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any

from cotune.cluster.service.cluster_in_use import EngineDevice
from cotune.run.launch import Ended, Engine, Event, Launch, opened_engine

_POLL = 0.05  # seconds for each of several engines


class RoutedEngines(ExitStack):
    """Engines opened when a job first needs them; whatever happens, all are closed."""

    def __init__(self, engine_of: Callable[[Launch], tuple[str, Mapping[str, Any]]]) -> None:
        super().__init__()
        self._engine_of = engine_of
        self._open: dict[str, Engine] = {}
        self._of: dict[str, Engine] = {}  # by launch

    def now(self) -> float:
        """Return the system's monotonic time, by which the engines of real workers go too."""
        return time.monotonic()

    def start(self, launch: Launch) -> None:
        engine = self._engine(*self._engine_of(launch))
        engine.start(launch)
        self._of[launch.id] = engine

    def stop(self, launch: str, grace: float = 5.0) -> None:
        if launch in self._of:
            self._of[launch].stop(launch, grace)

    def wait(self, timeout: float) -> Event | None:
        until = self.now() + timeout
        if not self._open:
            time.sleep(max(timeout, 0.0))
            return None
        while True:
            for engine in self._open.values():
                left = max(until - self.now(), 0.0)
                event = engine.wait(left if len(self._open) == 1 else min(left, _POLL))
                if isinstance(event, Ended):
                    self._of.pop(event.launch, None)
                if event is not None:
                    return event
            if self.now() >= until:
                return None

    def room(self, where: EngineDevice) -> int | None:
        """Return how many workers of a device an engine holds when nothing else runs there; None if it cannot tell."""
        room = getattr(self._open.get(_key(where.engine, where.settings)), "room", None)
        return None if room is None else int(room(where.device))

    def _engine(self, name: str, settings: Mapping[str, Any]) -> Engine:
        key = _key(name, settings)
        if key not in self._open:
            self._open[key] = self.enter_context(opened_engine(name, settings))
        return self._open[key]


def _key(name: str, settings: Mapping[str, Any]) -> str:
    return json.dumps([name, dict(settings)], sort_keys=True, default=str)
