"""One trace under one policy: simulate, and keep for each job what became of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from cotune.schedule import Active, Policy, Submission
from cotune.schedule._loop import Decision, drive
from cotune.schedule._placement import placer
from cotune.simulate.world import Believe, Simulated, exactly
from cotune.types import Cluster, Floats


@dataclass(frozen=True, slots=True)
class Spell:
    """A stretch of time for which a job held the same GPUs."""

    number: int
    start: float
    end: float
    gpus: int
    nodes: tuple[int, ...] = ()


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
    declined: Floats  # 1 where a deadline policy did not admit the job
    latency: Floats  # seconds that each decision took
    spells: Sequence[Spell] = ()
    present: Sequence[Active] = ()  # who was still there when it stopped

    @property
    def finished(self) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        return np.isfinite(self.end)


@dataclass
class _Record:
    """Columns being filled while a simulation runs."""

    jobs: int
    restart: float
    keep_spells: bool
    columns: dict[str, Floats] = field(init=False)
    latency: list[float] = field(default_factory=list)
    spells: list[Spell] = field(default_factory=list)
    open: dict[int, tuple[float, int, tuple[int, ...]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        names = ("service", "waited", "starts", "lost", "declined")
        self.columns = {name: np.zeros(self.jobs) for name in names}
        self.columns |= {name: np.full(self.jobs, np.inf) for name in ("start", "end")}

    def watch(self, decision: Decision) -> None:
        self.latency.append(decision.latency)
        if self.keep_spells:
            for active in decision.stops:
                self._close(active.number, decision.at)
            for active in decision.starts:
                self.open[active.number] = (decision.at, active.held, active.nodes)

    def ended(self, active: Active, at: float) -> None:
        self.left(active)
        if active.declined:
            self.columns["declined"][active.number] = 1.0
            return
        self.columns["end"][active.number] = at
        if self.keep_spells:
            self._close(active.number, at)

    def left(self, active: Active) -> None:
        row, columns = active.number, self.columns
        columns["start"][row] = active.started
        columns["service"][row] = active.service
        columns["waited"][row] = active.waited
        columns["starts"][row] = active.starts
        columns["lost"][row] = self.restart * active.starts * active.job.gpus

    def _close(self, number: int, at: float) -> None:
        start, gpus, nodes = self.open.pop(number)
        self.spells.append(Spell(number, start, at, gpus, nodes))


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
) -> Outcome:
    """Run a trace under a policy and return what became of it."""
    ordered = sorted(jobs, key=lambda job: job.submit)  # stable: ties stay in the order of the file
    sizes = np.array([job.gpus for job in ordered] or [1], dtype=np.int64)
    world = Simulated(ordered, believe, restart, until)
    record = _Record(len(ordered), restart, keep_spells)
    for active in drive(policy, cluster, world, placer(placement, cluster, sizes), record.watch):
        record.ended(active, world.now())
    for active in world.present.values():
        world.sync(active)
        record.left(active)
    columns = record.columns
    return Outcome(
        ordered,
        cluster,
        latency=np.array(record.latency),
        spells=tuple(record.spells),
        present=tuple(world.present.values()),
        **columns,
    )
