"""What every engine is asked and what it tells: the protocol that `run/engines/` fill in, and what they share.

An engine starts launches, tells what they do as events, and can stop them. It keeps
all state; whoever drives it only reads events. Time is the engine's own (`now`), so a
recording is an engine whose clock jumps.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Literal, Protocol, TypeVar, runtime_checkable

from cotune import registry
from cotune.errors import UsageError
from cotune.types import STOP_GRACE, Config, Failure, Job

Running = TypeVar("Running")
TERM_SECONDS = 2.0  # for a worker that is asked to end by SIGTERM, until it is killed
UNHEARD_SECONDS = 0.5  # for a job that cannot know that it should stop to write what it keeps
_PART_OF_EPOCH = 0.25  # by which such a job has written what it keeps of the epoch before


@dataclass(frozen=True, slots=True)
class Launch:
    """One start of one config: what to run, for how long at most, and where its files go.

    `seconds_limit` is for engines that must ask for time before they get it, such as Slurm.
    `trained` is how many epochs the checkpoint holds that a resumed start goes on from.
    `stop_grace` is how many seconds a job has to end by itself once there is nothing left to train.
    `fence` is the number that a store has given this start; without one the folder gives the next.
    `nodes` is the node of its device's type on which each worker stands, where somebody has placed them.
    """

    id: str
    job: Job
    config: Config
    epochs: int
    folder: Path
    target: float | None = None
    seed: int = 0
    resume: bool = False
    probe_epochs: float | None = None
    seconds_limit: float | None = None
    trained: float = 0.0
    stop_grace: float = STOP_GRACE
    fence: int | None = None
    nodes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Reported:
    """Rank 0 told something: so many epochs done, `at` seconds on the engine's clock."""

    launch: str
    at: float
    epoch: float | None = None
    accuracy: float | None = None
    terms: tuple[tuple[str, float], ...] = ()
    metrics: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Started:
    """All workers are up; the job's own code begins. `modelled` says what of its machine is only a model."""

    launch: str
    at: float
    modelled: str | None = None


@dataclass(frozen=True, slots=True)
class Ended:
    """A launch is over and nothing of it runs any more.

    `peak_bytes` is the most memory that a worker took, of the `limit_bytes` it could have had, where that is known.
    `copies` says that its workers never met, so that each trained alone.
    """

    launch: str
    at: float
    outcome: Literal["done", "stopped", "failed"]
    failure: Failure | None = None
    warning: str | None = None
    peak_bytes: int | None = None
    limit_bytes: int | None = None
    copies: bool = False


Event = Started | Reported | Ended


def checkpoint_seconds(job: Job, most: float, epoch_seconds: float | None) -> float:
    """Return how long a job that is to stop may go on: `most` to come to a checkpoint, or what writing one takes.

    A job that is read cannot be asked for one. It keeps what it keeps after an evaluation, so early in
    the next epoch is the time to stop it.
    """
    if job.hears:
        return most
    return min(most, max(UNHEARD_SECONDS, _PART_OF_EPOCH * (epoch_seconds or 0.0)))


@runtime_checkable
class Engine(Protocol):
    """Where launches run."""

    def start(self, launch: Launch) -> None:
        """Start a launch; its events follow from `wait`."""
        ...

    def stop(self, launch: str, grace: float = 5.0) -> None:
        """Ask a launch to end, and end it after `grace` seconds; `Ended` follows from `wait`."""
        ...

    def wait(self, timeout: float) -> Event | None:
        """Return the next event, or None after `timeout` seconds without one."""
        ...

    def now(self) -> float:
        """Return the engine's time in seconds."""
        ...

    def close(self) -> None:
        """End everything this engine started."""
        ...


def require_engine(engine: object) -> None:
    """Refuse what is no engine: a name that none has, or an object that lacks what engines do."""
    named = next(iter(engine), None) if isinstance(engine, Mapping) else engine
    if isinstance(named, str):
        registry.require("engine", named)
    elif named is not None and not isinstance(named, Engine):
        words = "an engine is a name, a name with settings, or has start, stop, wait, now and close"
        raise UsageError(f"{words}; this is {type(engine).__name__}: {engine!r:.80}")


@contextmanager
def opened_engine(engine: str | Engine, settings: Mapping[str, Any]) -> Iterator[Engine]:
    """Yield the engine of that name, or the one that is given; whatever happens, nothing it started stays behind."""
    if not isinstance(engine, str):
        yield engine  # whoever made it closes it
        return
    made: Engine = registry.make(registry.load("engine", engine), settings, f"engine {engine}")
    try:
        yield made
    finally:
        made.close()


class PolledEngine(Generic[Running]):
    """An engine of real processes, which looks at its launches every `poll` seconds, or sooner where they are heard."""

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
