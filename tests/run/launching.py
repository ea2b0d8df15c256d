"""Following a real launch: its events until the end, and the files it left."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

from cotune.run import Ended, Event
from cotune.run.local import Local

PATIENCE = 60.0


class Played:
    """The events of one launch, and the files it left."""

    def __init__(self, folder: Path, events: list[Event]) -> None:
        self.folder = folder
        self.events = events

    @property
    def ended(self) -> Ended:
        last = self.events[-1]
        assert isinstance(last, Ended), self.events
        return last

    def log(self, rank: int = 0) -> str:
        return (self.folder / f"rank-{rank}.log").read_text()


def until_ended(engine: Local, launch: str, each: Callable[[Event], None] = lambda _: None) -> list[Event]:
    """Return the events of a launch up to its end."""
    events: list[Event] = []
    while not (events and isinstance(events[-1], Ended)):
        event = engine.wait(PATIENCE)
        assert event is not None, f"nothing happened for {PATIENCE} s after {events}"
        if event.launch == launch:
            events.append(event)
            each(event)
    return events


def writing_to(logs: str) -> list[int]:
    """Return the processes whose output goes to a file that matches, the oldest first."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if (entry / "fd" / "1").readlink().match(logs):
                    found.append(int(entry.name))
    return sorted(found)
