"""Why a job waits: what blocks it, who is ahead, when it will start, and what would start it now.

All of it comes from asking the policy again. Policies are pure, so the state at that moment
can be put to them with one thing changed: fewer GPUs for the job, or more in the cluster.
The start is found by playing on without further arrivals, with the unfinished run times
drawn around what is believed; what happened before stays as it was.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from cotune.cluster.ordered import Ordered
from cotune.cluster.policy import Active, Policy, Submission, capacity
from cotune.cluster.simulate.metrics import percentile
from cotune.cluster.simulate.outcome import Outcome, SimulationSetting, simulate
from cotune.cluster.simulate.world import mistaken
from cotune.errors import NotFound, UsageError, suggestion
from cotune.types import Cluster, Floats

ASSUMED_SPREAD = 0.3  # how far off run times are taken to be when nobody says
_FUTURES = 20
Play = Callable[[Sequence[Submission], float], Outcome]  # jobs, until


@dataclass(frozen=True, slots=True)
class Explanation:
    """Where a job stands at a moment; one that was stopped for others waits as well."""

    job: str
    at: float
    state: str  # not submitted, waiting, running, ended
    gpus: int
    free: int = 0
    blocked_by: str = ""
    ahead: tuple[str, ...] = ()  # waiting jobs that go before it
    holding: tuple[tuple[str, int, float], ...] = ()  # running jobs: GPUs, believed seconds left
    start_p50: float | None = None
    start_p90: float | None = None
    spread: float = 0.0
    change: str = ""
    started: float | None = None  # when it first ran
    stopped: float | None = None  # when others took its place; then `start_` is when it goes on


def explain(setting: SimulationSetting, name: str, at: float, policy: Policy, noise: float) -> Explanation:
    """Return where a job stands at a time, and why."""
    if setting.failures is not None:
        raise UsageError("--why knows GPUs that do not fail: leave out --failures")
    known = {job.name: job for job in setting.jobs}
    if name not in known:
        raise NotFound(f"no job {name!r} in the trace{suggestion(name, known)}")
    believed = mistaken(noise, len(setting.jobs), setting.seed)

    def believe(job: Submission, number: int) -> Active:
        return replace(believed(known[job.name], number), job=job)

    def play(jobs: Sequence[Submission], until: float) -> Outcome:
        return simulate(
            jobs,
            setting.cluster,
            policy,
            placement=setting.placement,
            restart=setting.restart,
            believe=believe,
            keep_spells=True,
            until=until,
        )

    job, cluster = known[name], setting.cluster
    if job.submit > at:
        return Explanation(name, at, "not submitted", job.gpus, blocked_by=f"it is submitted at {job.submit:g} s")
    moment = play([other for other in setting.jobs if other.submit <= at], at)
    active = next((one for one in moment.present if one.job.name == name), None)
    row = next(place for place, one in enumerate(moment.jobs) if one.name == name)
    free = sum(capacity(cluster).values()) - sum(one.held for one in moment.present)
    if active is None:
        ended = f"it ended at {moment.end[row]:g} s" if np.isfinite(moment.end[row]) else "it was declined"
        return Explanation(name, at, "ended", job.gpus, free, blocked_by=ended)
    began = active.started
    if active.running:
        return Explanation(name, at, "running", job.gpus, free, start_p50=began, start_p90=began, started=began)
    spread = noise or ASSUMED_SPREAD
    starts = _starts(row, at, moment, play, spread)
    holding = sorted((one.job.name, one.held, max(one.left, 0.0)) for one in moment.present if one.running)
    return Explanation(
        job=name,
        at=at,
        state="waiting",
        gpus=job.gpus,
        free=free,
        blocked_by=blocker(job.gpus, free),
        ahead=tuple(one.job.name for one in _ahead(active, moment.present, policy)),
        holding=tuple(sorted(holding, key=lambda held: held[2])),
        start_p50=percentile(starts, 0.5),
        start_p90=percentile(starts, 0.9),
        spread=spread,
        change=_change(active, moment.present, cluster, policy),
        started=began if active.starts else None,
        stopped=max((spell.end for spell in moment.spells if spell.number == row), default=None),
    )


def blocker(gpus: int, free: int) -> str:
    """Return what keeps a job of so many GPUs waiting."""
    missing = gpus - free
    if missing > 0:
        return f"it needs {gpus} GPUs and {free} are free: {missing} too few"
    return f"{free} GPUs are free and it needs {gpus}, but jobs ahead of it come first"


def _ahead(active: Active, present: Sequence[Active], policy: Policy) -> list[Active]:
    rank: Callable[[Active], tuple[float, ...]]
    rank = policy.rank if isinstance(policy, Ordered) else lambda one: (one.number,)
    return sorted((one for one in present if not one.running and rank(one) < rank(active)), key=rank)


def _starts(row: int, at: float, moment: Outcome, play: Play, spread: float) -> Floats:
    """Return when the job starts next in each of some futures without further arrivals."""
    rng = np.random.default_rng(0)
    present = {one.job.name: one for one in moment.present}
    starts = []
    for _ in range(_FUTURES):
        factors = np.exp(spread * rng.standard_normal(len(moment.jobs)))
        future = [
            replace(job, seconds=_redrawn(present[job.name], float(factor))) if job.name in present else job
            for job, factor in zip(moment.jobs, factors, strict=True)
        ]
        played = play(future, np.inf)
        begun = (spell.start for spell in played.spells if spell.number == row and spell.start >= at)
        starts.append(min(begun, default=np.inf))
    return np.array(starts)


def _redrawn(active: Active, factor: float) -> float:
    if active.job.work is not None:
        return active.job.seconds
    return active.done + max(active.job.seconds - active.done, 1e-6) * factor


def _change(active: Active, present: Sequence[Active], cluster: Cluster, policy: Policy) -> str:
    """Return the least change that would start the job now: fewer GPUs for it, or more in the cluster."""
    for gpus in range(active.job.gpus - 1, 0, -1):
        if _would_start(_asking(active, gpus), active, present, cluster, policy):
            return f"asking for {gpus} instead of {active.job.gpus} GPUs would start it now"
    device = cluster.devices[0]
    low, high = 0, sum(one.job.gpus for one in present)
    while high - low > 1:
        more = (low + high) // 2
        larger = replace(cluster, devices=(replace(device, count=(device.count or 0) + more), *cluster.devices[1:]))
        low, high = (low, more) if _would_start(active, active, present, larger, policy) else (more, high)
    return f"{high} more {device.name} would start it now"


def _asking(active: Active, gpus: int) -> Active:
    changed = copy.copy(active)
    changed.job = replace(active.job, gpus=gpus, wants=None)
    return changed


def _would_start(changed: Active, active: Active, present: Sequence[Active], cluster: Cluster, policy: Policy) -> bool:
    asked = [changed if one is active else one for one in present]
    return changed.job.name in policy.allocate(asked, cluster)
