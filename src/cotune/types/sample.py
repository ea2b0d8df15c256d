"""One start of one config, as it was measured."""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Literal

from cotune.types.config import Config
from cotune.types.goal import Goal


@dataclass(frozen=True, slots=True)
class Terms:
    """Where the seconds of a run go; None where it is not known.

    `engine` passes until the job's own code begins and `startup` until its first step,
    both once; `evaluation` and `checkpoint` are paid each time; `compute`,
    `communication` and `input` are parts of a whole epoch.
    """

    engine: float | None = None
    startup: float | None = None
    compute: float | None = None
    communication: float | None = None
    input: float | None = None
    evaluation: float | None = None
    checkpoint: float | None = None

    def known(self) -> dict[str, float]:
        """Return the terms that are known, by name."""
        values = {term.name: getattr(self, term.name) for term in fields(self)}
        return {name: float(value) for name, value in values.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The metric after some epochs, `seconds` after the start of the run."""

    epoch: float
    accuracy: float
    seconds: float
    metrics: tuple[tuple[str, float], ...] = ()


class Cause(StrEnum):
    """What ended a start early, as far as it decides what happens next."""

    JOB = "job"  # its own error, which would come again
    MEMORY = "memory"  # the config needs more than there is
    APART = "apart"  # its workers never met: each trained alone, as those of any other config would
    UNHEARD = "unheard"  # it refused its arguments, or said nothing that we could read, as any config would
    OUTSIDE = "outside"  # a kill, silence, a lost node: it may go on from its checkpoint
    BUSY = "busy"  # its device was still another's just then, as it may be to any config
    INTERRUPTED = "interrupted"  # no fault of the config, which may be tried again
    NOT_RECORDED = "not recorded"  # a recording does not say


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a start ended early; `room` is how many of its workers the cluster still holds, where it was that."""

    words: str
    cause: Cause = Cause.JOB
    room: int | None = None

    @classmethod
    def interrupted(cls, why: str) -> Failure:
        return cls(f"interrupted: {why}", Cause.INTERRUPTED)

    @property
    def from_outside(self) -> bool:
        """Return whether neither job nor config is to blame, so that it may go on from its checkpoint."""
        return self.cause in (Cause.OUTSIDE, Cause.BUSY)

    def __str__(self) -> str:
        return self.words


@dataclass(frozen=True, slots=True)
class Load:
    """How busy a machine was with other things while a start ran: their running processes, and its cores."""

    others: float
    cores: int

    @property
    def per_core(self) -> float:
        return self.others / max(self.cores, 1)


@dataclass(frozen=True, slots=True)
class Sample:
    """One start of one config, as measured: how far it got, how fast, how well.

    It is `modelled` when part of its machine was, such as links that are only slept for.
    `peak_bytes` is the most memory a worker took, of the `limit_bytes` it could have had.
    `goal` is what a run was for, which the one that goes on from it is for as well.
    `load` is what else the machine did meanwhile, where that was looked at.
    `length` is the epochs that it was told to train, however few it did.
    `copies` is set where its workers never met: each trained alone, and none at the config's global batch.
    """

    config: Config
    epochs: float = 0.0
    epoch_seconds: float | None = None
    accuracy: float | None = None
    terms: Terms = Terms()
    curve: tuple[Evaluation, ...] = ()
    seconds: float = 0.0
    failure: Failure | None = None
    purpose: Literal["probe", "run"] = "probe"
    id: str = ""
    started: str = ""
    ended: bool = True
    engine: str = "local"
    warning: str | None = None
    folder: str = ""
    resumed_from: str | None = None
    modelled: bool = False
    seed: int | None = None
    peak_bytes: int | None = None
    limit_bytes: int | None = None
    goal: Goal | None = None
    load: Load | None = None
    length: int | None = None
    copies: bool = False

    @property
    def failed(self) -> bool:
        """Return whether the config is to blame: a crash, no memory, a time-out, but not an interruption."""
        return self.failure is not None and self.failure.cause is not Cause.INTERRUPTED

    @property
    def tells_pace(self) -> bool:
        """Return whether it says how fast its config is: a start that failed does not, however far it came."""
        return self.epoch_seconds is not None and not self.failed

    @property
    def out_of_memory(self) -> bool:
        """Return whether the config needs more memory than there is."""
        return self.failure is not None and self.failure.cause is Cause.MEMORY

    @property
    def unheard(self) -> bool:
        """Return whether it ended without a word that could be read, as any other config would."""
        return self.failure is not None and self.failure.cause is Cause.UNHEARD

    @property
    def refused(self) -> bool:
        """Return whether it could not have its device before it ever trained, which says nothing of its config."""
        return self.failure is not None and self.failure.cause is Cause.BUSY and self.epoch_seconds is None

    @property
    def apart(self) -> bool:
        """Return whether its workers never met, so that each trained alone."""
        return self.copies or (self.failure is not None and self.failure.cause is Cause.APART)

    @property
    def device_seconds(self) -> float:
        """Return what this sample cost: seconds times the units held, servers included."""
        return self.seconds * self.config.units
