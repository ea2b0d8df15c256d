"""The cluster loop: wait for something to happen, decide, act. One function for all clocks.

A `World` is where jobs really run. In a simulation its clock jumps from event to event;
on a cluster `wait` blocks. The loop keeps no time of its own, and policies never see the
world, so what was simulated can be run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Protocol

from cotune.cluster.node_packing import Placer
from cotune.cluster.ordered import Ordered
from cotune.cluster.ordered_queue import OrderedQueue
from cotune.cluster.policy import Active, Policy, interval_of
from cotune.cluster.round import Round
from cotune.errors import EngineError
from cotune.types import Cluster

Admit = Callable[[Active, Sequence[Active], Cluster], bool]
Scheduler = OrderedQueue | Round
_PATIENCE = 2_000_000  # decisions


@dataclass(frozen=True, slots=True)
class Moment:
    """What happened at one time: all of it, before anything is decided."""

    arrived: list[Active]
    ended: list[Active]
    struck: Sequence[Active] = ()  # whose nodes failed


@dataclass(frozen=True, slots=True)
class InForce:
    """The policy and the cluster in force: on a live cluster both may change, and it may be smaller at times.

    Who arrives is judged by `whole`, of which `cluster` is what jobs may have at this moment.
    """

    policy: Policy
    cluster: Cluster
    whole: Cluster


class World(Protocol):
    """Where jobs arrive, run and end."""

    def now(self) -> float:
        """Return the time, in seconds."""
        ...

    def wait(self, until: float) -> Moment | None:
        """Return the next things to happen, nothing at `until`, or None when nothing ever will."""
        ...

    def start(self, active: Active) -> None:
        """Start a job as its `config` and `nodes` say."""
        ...

    def stop(self, active: Active) -> None:
        """Stop a job; its work is kept."""
        ...

    def decline(self, active: Active) -> None:
        """Send a job away that has just arrived."""
        ...

    def sync(self, active: Active) -> None:
        """Bring a job's times and work up to the present."""
        ...


@dataclass(frozen=True, slots=True)
class Changes:
    """Who stopped and who started at a time, and what deciding took; None where nothing was decided: nodes failed."""

    at: float
    stops: Sequence[Active]
    starts: Sequence[Active]
    latency: float | None


def drive(
    policy: Policy,
    cluster: Cluster,
    world: World,
    placer: Placer,
    watch: Callable[[Changes], None] | None = None,
    *,
    in_force: Callable[[], InForce] | None = None,
) -> Iterator[Active]:
    """Run the jobs of a world under a policy until nothing more can happen; yield each job as it leaves.

    Where policy and cluster may change, `in_force` is asked for them before every decision.
    """
    scheduler = _scheduler(policy, cluster, world, placer, may_change=in_force is not None)
    interval = interval_of(policy)
    admit: Admit | None = getattr(policy, "admit", None)
    waits: bool = getattr(policy, "waits", False)  # whoever is not admitted may still find room later
    fruitless = 0
    stirred = False
    while moment := world.wait(_next_decision(scheduler, interval, world.now(), stirred)):
        if in_force is not None and isinstance(scheduler, Round):
            now_on = in_force()
            if now_on.policy is not policy:
                policy, interval = now_on.policy, interval_of(now_on.policy)
                admit, waits = getattr(policy, "admit", None), getattr(policy, "waits", False)
            scheduler.go_by(now_on.policy, now_on.cluster)
            cluster = now_on.whole
        for active in moment.ended:
            scheduler.end(active)
            placer.release(active)
            yield active
        if moment.struck:
            _strike(moment.struck, scheduler, world, placer, watch)
        for active in moment.arrived:
            scheduler.arrive(active)
            if admit and not admit(active, scheduler.everybody(world.now()), cluster) and not waits:
                scheduler.end(active)
                world.decline(active)
                yield active
        for active in scheduler.given_up(world.now()):
            scheduler.end(active)
            placer.release(active)
            world.stop(active)
            world.decline(active)
            yield active
        stirred = interval is not None and world.now() % interval != 0
        if stirred:
            continue
        before = perf_counter()
        stops, starts = scheduler.decide(world.now())
        latency = perf_counter() - before
        _carry_out(stops, starts, world, placer)
        if watch:
            watch(Changes(world.now(), stops, starts, latency))
        fruitless = 0 if moment.arrived or moment.ended else fruitless + 1
        if fruitless > _PATIENCE:
            raise EngineError(
                f"no job ended or arrived during {_PATIENCE} decisions of {type(policy).__name__}: "
                "it moves jobs about without getting on; restarts may take longer than the time between two stops"
            )


def _carry_out(stops: Sequence[Active], starts: Sequence[Active], world: World, placer: Placer) -> None:
    for active in stops:
        placer.release(active)
        world.stop(active)
    for active in starts:
        placer.take(active)
        world.start(active)


def _strike(
    struck: Sequence[Active],
    scheduler: Scheduler,
    world: World,
    placer: Placer,
    watch: Callable[[Changes], None] | None,
) -> None:
    """Let those wait whose nodes failed."""
    assert isinstance(scheduler, Round), "an ordered queue is for clusters that are always there"
    for active in struck:
        placer.release(active)
        world.stop(active)
        scheduler.strike(active)
    if watch:
        watch(Changes(world.now(), struck, (), None))


def _next_decision(scheduler: Scheduler, interval: float | None, now: float, stirred: bool) -> float:
    """Return when to decide next; `stirred`: something happened since the last round."""
    change = scheduler.next_change()
    if interval is None:
        return change
    if stirred or not scheduler.rests:
        change = now if scheduler.busy else math.inf
    rounds = max(math.ceil(change / interval), math.floor(now / interval) + 1) if change < math.inf else math.inf
    return rounds * interval


def _scheduler(policy: Policy, cluster: Cluster, world: World, placer: Placer, *, may_change: bool) -> Scheduler:
    simple = len(cluster.devices) == 1 and not placer.refuses and not may_change
    if simple and isinstance(policy, Ordered) and policy.steady:
        return OrderedQueue(policy, cluster.devices[0], world.sync)
    return Round(policy, cluster, world.sync, placer)
