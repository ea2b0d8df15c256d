"""What every engine is asked and what it tells: the protocol that `run/engines/` fill in.

An engine starts launches, tells what they do as events, and can stop them. It keeps
all state; whoever drives it only reads events. Time is the engine's own (`now`), so a
recording is an engine whose clock jumps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

if TYPE_CHECKING:  # the fork server enters its namespace before numpy may be imported
    from pathlib import Path

    from cotune.types import Config, Failure, Job


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
    stop_grace: float = 600.0  # as `types.STOP_GRACE`, which cannot be imported here
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
