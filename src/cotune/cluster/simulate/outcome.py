"""One trace under one policy: simulate, and keep for each job what became of it."""

from __future__ import annotations

import gc
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from cotune.cluster.loop import Changes, InForce, drive
from cotune.cluster.node_packing import Placer, placer
from cotune.cluster.policy import Active, Policy, Submission, capacity
from cotune.cluster.simulate.failures import Failures, outages
from cotune.cluster.simulate.world import Believe, Simulated, exactly, mistaken
from cotune.errors import UsageError
from cotune.types import Cluster, Floats, Mask

_RECORDS = 100_000  # made between two looks of the collector; Python's own 700 take a sixth of the time


@dataclass(frozen=True, slots=True)
class Spell:
    """A stretch of time for which a job held the same GPUs."""

    number: int
    start: float
    end: float
    gpus: int
    nodes: tuple[tuple[int, int], ...] = ()  # node and GPUs on it
    device: str = "gpu"


@dataclass(frozen=True)
class Outcome:
    """What became of each job (rows in order of submission) and of the cluster."""

    jobs: Sequence[Submission]
    cluster: Cluster
    start: Floats  # first start; infinite where it never ran
    end: Floats  # infinite where it never ended
    service: Floats  # GPU-seconds held
    waited: Floats
    starts: Floats
    lost: Floats  # GPU-seconds spent on restarts
    cost: Floats  # money, where devices have prices
    declined: Floats  # 1 where a deadline policy did not admit the job
    latency: Floats  # seconds that each decision took
    idle_while_waiting: float = 0.0  # GPU-seconds
    spells: Sequence[Spell] = ()
    present: Sequence[Active] = ()  # who was still there when it stopped
    failures: Mapping[str, float] | None = None  # of nodes, where some could fail

    @property
    def finished(self) -> Mask:
        return np.isfinite(self.end)

    @cached_property
    def submit(self) -> Floats:
        return np.array([job.submit for job in self.jobs])

    @property
    def completion(self) -> Floats:
        """Return the seconds from submission to the end of the jobs that ended."""
        return (self.end - self.submit)[self.finished]

    @property
    def limits(self) -> Floats:
        """Return the deadline of each job, NaN where it has none."""
        return np.array([np.nan if job.deadline is None else job.deadline for job in self.jobs])


@dataclass
class _Record:
    """Columns being filled while a simulation runs."""

    jobs: int
    cluster: Cluster
    keep_spells: bool
    placer: Placer
    columns: dict[str, Floats] = field(init=False)
    latency: list[float] = field(default_factory=list)
    spells: list[Spell] = field(default_factory=list)
    idle_while_waiting: float = 0.0
    _open: dict[int, Spell] = field(default_factory=dict)
    _free: int = field(init=False)
    _waiting: bool = False
    _at: float = 0.0

    def __post_init__(self) -> None:
        names = ("service", "waited", "starts", "lost", "declined", "cost")
        self.columns = {name: np.zeros(self.jobs) for name in names}
        self.columns |= {name: np.full(self.jobs, np.inf) for name in ("start", "end")}
        self._free = sum(capacity(self.cluster).values())
        self._prices = {device.name: (device.price_per_hour or 0.0) / 3600.0 for device in self.cluster.devices}

    def watch(self, changes: Changes, present: int) -> None:
        """Note what was decided; called after the decision was carried out."""
        if changes.latency is not None:
            self.latency.append(changes.latency)
        if self._waiting:
            self.idle_while_waiting += self._free * (changes.at - self._at)
        for active in changes.stops:
            self._close(active.number, changes.at)
        for active in changes.starts:
            config = active.config
            assert config is not None
            nodes = tuple(self.placer.held(active)) if self.keep_spells else ()
            self._open[active.number] = Spell(active.number, changes.at, math.inf, active.held, nodes, config.device)
            self._free -= active.held
            self.columns["lost"][active.number] += active.restart * active.held
        self._at, self._waiting = changes.at, present > len(self._open)

    def left(self, active: Active, at: float) -> None:
        """Note a job that ended or was declined, or is still there at the end."""
        row, columns = active.number, self.columns
        self._close(row, at)
        columns["start"][row] = active.started
        columns["service"][row] = active.service
        columns["waited"][row] = active.waited
        columns["starts"][row] = active.starts
        columns["declined"][row] = active.declined

    def _close(self, number: int, at: float) -> None:
        spell = self._open.pop(number, None)
        if spell is None:
            return
        self._free += int(spell.gpus)
        self.columns["cost"][number] += spell.gpus * (at - spell.start) * self._prices[spell.device]
        if self.keep_spells:
            self.spells.append(replace(spell, end=at))


def simulate(
    jobs: Sequence[Submission],
    cluster: Cluster,
    policy: Policy,
    *,
    placement: str | None = None,
    restart: float = 0.0,
    believe: Believe = exactly,
    keep_spells: bool = False,
    until: float = math.inf,
    failures: Failures | None = None,
    seed: int = 0,
) -> Outcome:
    """Run a trace under a policy and return what became of it; `seed` is of the failures."""
    ordered = sorted(jobs, key=lambda job: job.submit)  # stable: ties stay in the order of the file
    sizes = np.array([job.gpus for job in ordered] or [1], dtype=np.int64)
    places = placer(placement, cluster, sizes)
    out = outages(failures, cluster, places, seed)
    world = Simulated(ordered, believe, restart, until, out)
    record = _Record(len(ordered), cluster, keep_spells, places)
    in_force = None if out is None else lambda: InForce(policy, out.there(), cluster)

    def watch(changes: Changes) -> None:
        record.watch(changes, len(world.present))

    with collecting_rarely():
        for active in drive(policy, cluster, world, places, watch, in_force=in_force):
            record.left(active, world.now())
            if not active.declined:
                record.columns["end"][active.number] = world.now()
    for active in world.present.values():
        world.sync(active)
        record.left(active, world.now())
    return Outcome(
        ordered,
        cluster,
        latency=np.array(record.latency),
        idle_while_waiting=record.idle_while_waiting,
        spells=tuple(record.spells),
        present=tuple(world.present.values()),
        failures=None if out is None else out.document(),
        **record.columns,
    )


@contextmanager
def collecting_rarely() -> Iterator[None]:
    """Have Python's collector of cycles look less often; what is not part of one is freed at once anyway."""
    before = gc.get_threshold()
    gc.set_threshold(max(before[0], _RECORDS) if before[0] else 0, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


@dataclass(frozen=True)
class SimulationSetting:
    """Jobs on a cluster, to be played under one policy after the other."""

    jobs: Sequence[Submission]
    cluster: Cluster
    placement: str | None = None
    restart: float = 0.0
    failures: Failures | None = None
    seed: int = 0

    def play(self, policy: Policy, noise: float = 0.0) -> Outcome:
        """Return what becomes of the jobs under a policy whose forecasts are off by so much."""
        if len(self.cluster.devices) > 1 and getattr(policy, "one_kind", False):
            kinds = ", ".join(device.name for device in self.cluster.devices)
            name = type(policy).__name__.lower()
            raise UsageError(f"{name} knows one kind of device, the cluster has {kinds}; gavel and joint know several")
        return simulate(
            self.jobs,
            self.cluster,
            policy,
            placement=self.placement,
            restart=self.restart,
            believe=mistaken(noise, len(self.jobs), self.seed),
            failures=self.failures,
            seed=self.seed,
        )
