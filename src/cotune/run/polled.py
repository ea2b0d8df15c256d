"""What engines of real processes share: they look at every launch that runs, and queue what happened as events."""

from __future__ import annotations

import time
from collections import deque
from typing import Generic, TypeVar

from cotune.run.launch import Event

Running = TypeVar("Running")


class PolledEngine(Generic[Running]):
    """An engine whose launches are looked at every `poll` seconds, or sooner where they can make themselves heard."""

    poll: float

    def __post_init__(self) -> None:
        self._running: dict[str, Running] = {}
        self._events: deque[Event] = deque()

    def now(self) -> float:
        """Return the system's monotonic time in seconds."""
        return time.monotonic()

    def wait(self, timeout: float) -> Event | None:
        """Return the next event, or None after `timeout` seconds without one."""
        until = self.now() + timeout
        while not self._events:
            left = until - self.now()
            self._listen(max(0.0, min(left, self.poll)))
            for running in list(self._running.values()):
                self._attend(running)
            if left <= 0:
                break
        return self._events.popleft() if self._events else None

    def _refuse_twice(self, launch: str) -> None:
        if launch in self._running:
            raise ValueError(f"launch {launch!r} is already running")

    def _listen(self, timeout: float) -> None:
        """Wait for something to happen, at most so many seconds, and take in what has."""
        raise NotImplementedError

    def _attend(self, running: Running) -> None:
        """Take in what a launch tells, and end it when it is over or when it is time."""
        raise NotImplementedError
