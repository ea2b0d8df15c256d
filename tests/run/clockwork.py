"""An engine whose clock jumps: jobs of a given pace, for what drives engines."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from cotune.run.launch import Ended, Event, Launch, Reported, Started
from cotune.types import Failure


@dataclass
class Clockwork:
    """Every launch takes `pace` seconds an epoch and gains `learn` of accuracy; it may fail or fall silent."""

    pace: Callable[[Launch], float] = lambda _: 10.0
    learn: float = 0.1
    fails: Callable[[Launch], Failure | None] = lambda _: None
    silent: bool = False
    evaluation: float = 1.0
    time: float = 0.0
    launches: list[Launch] = field(default_factory=list)
    stops: dict[str, float] = field(default_factory=dict)
    coming: deque[Event] = field(default_factory=deque)

    def now(self) -> float:
        return self.time

    def start(self, launch: Launch) -> None:
        self.launches.append(launch)
        at = self.time + 2.0
        self.coming.append(Started(launch.id, at))
        if (why := self.fails(launch)) is not None:
            self.coming.append(Ended(launch.id, at + 1, "failed", why))
            return
        if self.silent:
            return
        at += 3.0
        self.coming.append(Reported(launch.id, at, 0.0))
        for tenth in range(1, 10 * launch.epochs + 1):
            at += self.pace(launch) / 10
            if tenth % 10:
                self.coming.append(Reported(launch.id, at, tenth / 10))
                continue
            at += self.evaluation
            accuracy = min(1.0, self.learn * tenth / 10)
            self.coming.append(Reported(launch.id, at, tenth / 10, accuracy, (("evaluation", self.evaluation),)))
            if launch.target is not None and accuracy >= launch.target:
                break
        self.coming.append(Ended(launch.id, at, "done"))

    def stop(self, launch: str, grace: float = 5.0) -> None:
        self.coming = deque([Ended(launch, self.time, "stopped")])
        self.stops[launch] = grace

    def wait(self, timeout: float) -> Event | None:
        if not self.coming or self.coming[0].at > self.time + timeout:
            self.time += timeout
            return None
        event = self.coming.popleft()
        self.time = max(self.time, event.at)
        return event

    def close(self) -> None:
        self.coming.clear()


@dataclass
class Printing(Clockwork):
    """Jobs whose lines, one an epoch, are read now and then, and have the time of that."""

    every: float = 0.25

    def start(self, launch: Launch) -> None:
        super().start(launch)
        self.coming = deque(map(self._read, filter(self._is_told, self.coming)))

    def stop(self, launch: str, grace: float = 5.0) -> None:
        read = [event for event in self.coming if isinstance(event, Reported) and event.at <= self.time]
        super().stop(launch, grace)
        self.coming.extendleft(reversed(read))

    def _is_told(self, event: Event) -> bool:
        return not isinstance(event, Reported) or event.accuracy is not None

    def _read(self, event: Event) -> Event:
        if not isinstance(event, Reported):
            return event
        return replace(event, at=self.every * math.ceil(event.at / self.every), terms=())


def quick_epochs() -> Printing:
    """Return jobs of a hundred epochs a second, of which many are read at once."""
    return Printing(pace=lambda _: 0.01, evaluation=0.0, learn=0.0)
