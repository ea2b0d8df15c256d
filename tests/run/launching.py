"""Following a real launch: its events until the end, the files and the processes it left."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from pathlib import Path

from cotune.run.launch import Ended, Engine, Event, Launch, Reported, Started

PATIENCE = 60.0
# Options to the interpreter itself: it is started anew, and nothing imports torch in vain.
PLAIN = (sys.executable, "-X", "utf8", "train.py")


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


Make = Callable[..., Launch]
Play = Callable[..., Played]


def player(engine: Engine, launch: Make) -> Play:
    """Return a function that runs a launch on an engine to its end."""

    def play(*args: object, each: Callable[[Event], None] = lambda _: None, **kwargs: object) -> Played:
        made = launch(*args, **kwargs)
        engine.start(made)
        return Played(made.folder, until_ended(engine, made.id, each))

    return play


def until_ended(engine: Engine, launch: str, each: Callable[[Event], None] = lambda _: None) -> list[Event]:
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


def workers_of(folder: Path) -> list[int]:
    """Return the processes on this machine that work for a launch, wherever they hang."""
    mark = str(folder).encode()
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if mark in (entry / "environ").read_bytes():
                    found.append(int(entry.name))
    return found


def stopped(engine: Engine, play: Play) -> tuple[Played, Played]:
    """Return what becomes of a script that asks whether to stop, and of two that hear nothing, when they shall."""
    asks = """
        import cotune, os, pathlib, time
        epoch = 0
        while not cotune.report(epoch=(epoch := epoch + 1), accuracy=0.1):
            time.sleep(0.01)
        (pathlib.Path(os.environ["COTUNE_CHECKPOINT"]) / "last").write_text(str(epoch))
    """
    hangs = "import signal; signal.signal(15, signal.SIG_IGN)\nwhile True: signal.pause()"

    def stop(event: Event) -> None:
        if isinstance(event, Reported):
            engine.stop("asks", grace=30)

    def end(event: Event) -> None:
        if isinstance(event, Started):
            engine.stop("hangs", grace=0)

    return (
        play(asks, name="asks", each=stop, command=PLAIN),
        play(hangs, workers=2, name="hangs", each=end, command=PLAIN),
    )
