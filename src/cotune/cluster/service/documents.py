"""Jobs of the queue as JSON, in the words that the verbs and the HTTP API share; seconds count from now."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from cotune.cluster.service.leadership import Leader
from cotune.cluster.service.queue import Queue
from cotune.cluster.service.queued import ListedJob, QueuedJob, QueueEvent
from cotune.cluster.service.states import State
from cotune.units import counted

_LAST_EVENTS = 20


def job_document(job: ListedJob, now: float) -> dict[str, Any]:
    """Return a job as `cotune queue` lists it; `eta` is in seconds from now, and null where it is not known.

    Nobody knows when a job ends that is held.
    """
    unknown = job.eta is None or job.status.held
    low, mid, high = (None, None, None) if unknown else (max(at - now, 0.0) for at in job.eta or ())
    return {
        "id": job.id,
        "name": job.name,
        "state": job.state.value,
        "team": job.team,
        "priority": job.priority,
        "workers": job.workers,
        "deadline": job.deadline,
        "deadline_at": None if job.deadline is None else moment(job.submitted + job.deadline),
        "eta": {"low": low, "mid": mid, "high": high, "unit": "s"},
        "reason": job.reason,
        "held": job.status.held,
        "target": job.target,
        "submitted": moment(job.submitted),
        "changed": moment(job.changed),
        "fence": job.status.fence,
        "restarts": job.status.restarts,
        "user": job.user,
    }


def status_document(job: QueuedJob, now: float) -> dict[str, Any]:
    """Return all that is known of one job: the list's line, its file, and its forecast beside what was measured."""
    belief, result = job.belief or {}, job.result or {}
    return {
        **job_document(job, now),
        "file": job.file.source,
        "folder": job.file.folder,
        "asked": dict(job.file.asked),
        "forecast": belief.get("forecast"),
        "result": result or None,
    }


def event_document(event: QueueEvent) -> dict[str, Any]:
    """Return an event; whoever follows asks for those after its `number`."""
    return {
        "number": event.number,
        "job": event.job,
        "at": moment(event.at),
        "state": event.state.value,
        "fence": event.fence,
        "words": event.words,
    }


def leader_document(leader: Leader | None) -> dict[str, Any] | None:
    """Return who works the queue off."""
    if leader is None:
        return None
    about = {name: said for name, said in leader.about.items() if name not in ("cluster", "occupancy")}
    return {"holder": leader.holder, "term": leader.term, "alive": leader.is_alive, **about}


def cluster_document(leader: Leader | None) -> list[dict[str, Any]]:
    """Return who holds what of each type of device and on each node, as the service that leads said last."""
    return list(leader.about.get("occupancy", ())) if leader is not None and leader.is_alive else []


def why_document(queue: Queue, job: QueuedJob) -> dict[str, Any]:
    """Return why a job stands where it does: its reason, who is before it, who serves, and what happened last."""
    now, leader = queue.now(), queue.leader()
    ahead = [] if job.is_final else _ahead(queue, job)
    events = queue.events(job.id)[-_LAST_EVENTS:]
    return {
        "job": job_document(job, now),
        "state": job.state.value,
        "reason": job.reason,
        "since": moment(job.changed),
        "words": why_words(job, ahead, leader),
        "ahead": [{"id": one.id, "name": one.name, "state": one.state.value, "workers": one.workers} for one in ahead],
        "service": leader_document(leader),
        "nearest": (job.result or {}).get("nearest"),
        "events": [event_document(event) for event in events],
    }


def why_words(job: QueuedJob, ahead: Sequence[QueuedJob], leader: Leader | None) -> str:
    """Return why a job stands where it does, in a sentence."""
    if job.is_final:
        return f"{job.name} is {job.state}: {job.reason}"
    if job.status.held and job.state in (State.QUEUED, State.WAITING):
        return f"{job.name} is held until `cotune release {job.id}`"
    if leader is None or not leader.is_alive:
        return f"{job.name} is {job.state} and no service runs on this store: cotune serve --store URL starts one"
    running = [one for one in ahead if one.state is State.RUNNING]
    if job.state is State.QUEUED:
        first = len(ahead) - len(running)
        return f"{job.name} is queued behind {first} that come first to be measured and planned ({job.reason})"
    if job.state is State.WAITING:
        taken = sum(one.workers for one in running)
        measured = sum(one.state is State.PROFILING for one in ahead)
        beside = f", and {counted(measured, 'job')} measured on workers set aside" if measured else ""
        held = f"{counted(len(running), 'job')} on {counted(taken, 'worker')}"
        return f"{job.name} waits for workers: there are {held}{beside}{_scarce(job, leader)} ({job.reason})"
    return f"{job.name} is {job.state}: {job.reason}"


def _scarce(job: QueuedJob, leader: Leader) -> str:
    """Return how much is held of the type of device that a job waits for, where types have names."""
    wanted = {stage["device"] for stage in (job.belief or {}).get("wants", {}).get("stages", ())}
    own = [one for one in cluster_document(leader) if one["device"] in wanted]
    return "".join(
        f"; of {one['units']} {one['device']} {one['held']} are held" + (f", {one['lost']} lost" if one["lost"] else "")
        for one in own
    )


def moment(at: float) -> str:
    """Return a time as ISO 8601, in UTC."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")


def _ahead(queue: Queue, job: QueuedJob) -> list[QueuedJob]:
    """Return the others that have workers, or that come before a job that has none."""
    open_states = [State.QUEUED, State.PROFILING, State.WAITING, State.RUNNING, State.STOPPING]
    others = [one for one in queue.jobs(states=open_states) if one.id != job.id]
    busy = (State.RUNNING, State.PROFILING)
    first = [one for one in others if (-one.priority, one.number) < (-job.priority, job.number)]
    return [one for one in others if one.state in busy] + [
        one for one in first if one.state not in busy and not one.status.held
    ]
