"""Which jobs run now, and on what: the records and protocols of cluster scheduling.

A policy is one file and a pure function of what it sees:

    allocate(active, cluster) -> {job: Config}

Whoever is not in the answer waits. Policies see beliefs (`left`, `speed`), never the
truth, and times relative to the present (`age`, `deadline_left`), so that the same
policy decides for a simulation whose clock jumps and for a cluster in real time.

Many policies are just an order: sort the jobs, and give each what it asked for while it
lasts. For such a policy (`Ordered`) the loop keeps the order from one event to the next
instead of sorting again; `allocate` remains its definition.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple, Protocol, runtime_checkable

from cotune.errors import UsageError
from cotune.types import Cluster, Config

Rank = tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Nodes:
    """Where a job's GPUs are: how many on each node, and in how many racks; nowhere where GPUs are only counted."""

    gpus: tuple[int, ...] = ()
    racks: int = 1


COUNTED = Nodes()


class Work(Protocol):
    """How fast a malleable job gets on: what is to be done, and the rate at which a config does it."""

    @property
    def total(self) -> float:
        """Return the amount of work, in the job's own unit."""
        ...

    @property
    def configs(self) -> tuple[Config, ...]:
        """Return the configs that the job can run in, with the batch it was submitted with."""
        ...

    @property
    def recipes(self) -> tuple[Config, ...]:
        """Return those it can run in where the batch is chosen too; the same for a job that leaves no choice."""
        ...

    def rate(self, config: Config, nodes: Nodes = COUNTED, done: float = 0.0) -> float:
        """Return the work done per second, after `done` of it."""
        ...

    def advance(self, done: float, seconds: float, config: Config, nodes: Nodes = COUNTED) -> float:
        """Return the work done after some more seconds."""
        ...

    def seconds(self, done: float, config: Config, nodes: Nodes = COUNTED) -> float:
        """Return the seconds until the work is done; infinite if it never is."""
        ...

    def seconds_after_epoch(self, done: float, config: Config) -> float:
        """Return the seconds of the steps after the present epoch alone; the same where a job has no epochs."""
        ...


@dataclass(frozen=True, slots=True)
class Submission:
    """A job as handed to a cluster: what it asks for, and how long that really takes.

    A rigid job has only `gpus` and `seconds`; a malleable one has `work`, which then decides.
    `deadline` is a time on the cluster's clock, like `submit`. `seconds` may be infinite.
    """

    name: str
    submit: float
    gpus: int
    seconds: float
    deadline: float | None = None
    work: Work | None = None
    wants: Config | None = None  # what it asked for, where that is more than a number of GPUs
    device: str | None = None
    team: str = ""
    priority: int = 0
    weight: float = 1.0
    batch_size: int = 1
    model: str = ""
    skewed: bool = False
    row: int = 0
    restart: float | None = None  # seconds that every start of it takes, where that is known of this job

    @property
    def config(self) -> Config:
        """Return what the job asked for."""
        return self.wants or rigid_config(self.gpus, self.batch_size, self.device or "gpu")


@lru_cache(maxsize=4096)
def rigid_config(gpus: int, batch_size: int = 1, device: str = "gpu") -> Config:
    """Return the data-parallel config of so many GPUs."""
    return Config.data_parallel(batch_size, gpus, device)


class Promise(NamedTuple):
    """A job's part of a plan that keeps all deadlines: so many units until each of some times on the clock.

    One that is not `firm` may be taken back for jobs of which more can be kept in its place.
    """

    ends: tuple[float, ...]
    units: tuple[int, ...]
    device: str = "gpu"
    firm: bool = True

    def held(self, begin: float, end: float) -> float:
        """Return the unit-seconds promised between two times on the clock."""
        turns = [min(max(turn, begin), end) for turn in (begin, *self.ends)]
        return sum(units * (after - before) for units, (before, after) in zip(self.units, pairwise(turns), strict=True))


@dataclass(slots=True, eq=False)
class Active:
    """An unfinished job as the policy sees it now; the loop keeps it up to date.

    `left` is the believed time to the end on the GPUs asked for, `service` the GPU-seconds
    attained. `level` and what follows is its standing among the others, see `las`.
    """

    job: Submission
    number: int  # by submission, then by the order of the file: the last tie-break
    total: float  # seconds it is believed to need on the GPUs asked for
    belief: Work | None = None  # what a malleable job is believed to be
    spread: float = 0.0  # standard deviation of the logarithm of what is believed
    restart: float = 0.0  # seconds that it takes to get to work after every start
    config: Config | None = None  # what it holds now
    nodes: Nodes = COUNTED
    held: int = 0  # GPUs it holds now
    executed: float = 0.0  # seconds spent running, restarts included
    service: float = 0.0
    waited: float = 0.0
    done: float = 0.0  # work done; for a rigid job, seconds
    starts: int = 0
    started: float = math.inf  # when it first ran
    level: int = 0
    entered: float = 0.0  # when it came to this level
    turn: int = 0  # counts up whenever a job changes its standing; stopped jobs count down
    settled: bool = False  # ran at this level when the last decision was made
    forgiven: float = 0.0  # executed seconds that no longer count, since its last promotion
    starved: float = 0.0  # seconds waited after its first start, since its last promotion
    team_usage: float = 0.0  # GPU-seconds its team has held, decayed as the policy asks
    declined: bool = False
    promise: Promise | None = None  # by which its deadline is kept, see `joint`
    memory: Any = field(default=None, repr=False)  # what the policy has worked out of it, until another one decides
    synced: float = 0.0  # the present, on the cluster's clock
    ready: float = 0.0  # when it gets to work after its last start
    token: int = field(default=0, repr=False)

    @property
    def running(self) -> bool:
        return self.config is not None

    @property
    def age(self) -> float:
        """Return the seconds since it was submitted."""
        return self.synced - self.job.submit

    @property
    def deadline_left(self) -> float:
        """Return the seconds until its deadline."""
        return math.inf if self.job.deadline is None else self.job.deadline - self.synced

    @property
    def left(self) -> float:
        """Return the seconds it is believed to need still; negative when it overran its forecast."""
        if self.belief is None:
            return self.total - self.done
        return self.belief.seconds(self.done, self.job.config)

    def come_to(self, level: int) -> None:
        """Stand at another level, not settled there yet; at a better one it starts afresh."""
        if level < self.level:
            self.forgiven, self.starved = self.executed, 0.0
        self.level, self.entered, self.settled = level, self.synced, False


@runtime_checkable
class Policy(Protocol):
    """What decides who runs; `interval` makes it decide in rounds instead of at every event."""

    def allocate(self, active: Sequence[Active], cluster: Cluster) -> Mapping[str, Config]:
        """Return what each job shall hold from now on; who is absent waits."""
        ...


def capacity(cluster: Cluster) -> dict[str, int]:
    """Return the number of each device; one that is not counted is without limit."""
    return {device.name: device.count if device.count is not None else 1 << 60 for device in cluster.devices}


def less(cluster: Cluster, taken: Mapping[str, int]) -> Cluster:
    """Return a cluster without some units of some types."""
    there = capacity(cluster)
    devices = (replace(one, count=max(there[one.name] - taken.get(one.name, 0), 0)) for one in cluster.devices)
    return replace(cluster, devices=tuple(devices))


def interval_of(policy: Policy) -> float | None:
    """Return the seconds between two decisions, or None for one at every event."""
    interval: float | None = getattr(policy, "interval", None)
    if interval is not None and not 1e-3 <= interval < math.inf:
        raise UsageError(f"a policy decides every so many seconds, 0.001 or more, not {interval}")
    return interval
