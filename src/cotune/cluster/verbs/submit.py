"""`cotune submit`: queue job files to be measured, planned and run by the service."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from cotune.cli.flags import GoalFlags, records_as_flags
from cotune.cli.help import GOAL, SPACE, flag, rare_flag
from cotune.cli.options import Json, Name, StoreUrl
from cotune.cli.output import emit_json, note, say, table
from cotune.cluster.service.documents import status_document
from cotune.cluster.service.forecasts import foresee
from cotune.cluster.service.queue import Queue
from cotune.cluster.service.queued import ListedJob, QueuedJob, QueueEvent
from cotune.cluster.service.snapshot import JobSnapshot, adopt_samples
from cotune.cluster.service.watch import exit_code, is_served, serve_and_watch, watch
from cotune.cluster.verbs._queue import open_queue
from cotune.errors import CotuneError, Infeasible, Interrupted, UsageError
from cotune.jobfile.settings import as_job_file
from cotune.units import counted, duration, number

_ENTRY = ("name", "state", "held", "eta", "reason", "result")


@records_as_flags
def submit(
    *,
    files: Annotated[list[Path], typer.Argument(help="Job files, or folders with a cotune.yaml.", metavar="FILE")],
    goal: GoalFlags,
    team: Annotated[str | None, rare_flag(GOAL, "--team", help="Whose job it is.")] = None,
    priority: Annotated[int | None, rare_flag(GOAL, "--priority", help="Higher goes first (0).")] = None,
    name: Name = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait for the jobs to end; serve them if no service runs.")
    ] = False,
    slots: Annotated[
        int | None, flag(SPACE, "--slots", help="Workers of the service that --wait starts (default: cores).", min=1)
    ] = None,
    hold: Annotated[bool, rare_flag("Options", "--hold", help="Keep them from starting until cotune release.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say when it would start and end.")] = False,
    store: StoreUrl = None,
    json: Json = False,
) -> None:
    """Submit jobs. Their deadlines count from now. Needs no running service.

    cotune submit cotune.yaml --deadline 2h
    cotune submit vision text --wait --slots 8
    """
    _check_flags(files, name, wait=wait, slots=slots, hold=hold, dry_run=dry_run)
    asked = as_job_file(asdict(goal)) | {"team": team, "priority": priority, "name": name}
    taken = [JobSnapshot.take(file, asked) for file in files]
    snapshots = [snapshot for snapshot, _ in taken]
    with open_queue(store, may_make=True) as queue:
        for _, settings in taken:
            adopt_samples(queue.store, settings)
        if dry_run:
            _foresee(foresee(queue, *taken[0]), json)
            return
        before = queue.last_event()
        ids = _submitted(queue, snapshots, held=hold)
        if not json:
            _say_submitted(queue, dict(zip(ids, snapshots, strict=True)), held=hold, wait=wait)
        if wait:
            _wait(queue, store, ids, before, slots)
        jobs, now = queue.jobs(ids=ids), queue.now()
    _print(jobs, now, ended=wait, json=json)
    if wait:
        raise typer.Exit(exit_code(job.state for job in jobs))


def _check_flags(
    files: Sequence[Path], name: str | None, *, wait: bool, slots: int | None, hold: bool, dry_run: bool
) -> None:
    if len(files) > 1 and (name is not None or dry_run):
        raise UsageError(f"{'--dry-run' if dry_run else '--name'} is for one job; these are {len(files)}")
    if wait and (hold or dry_run):
        raise UsageError(f"--wait and {'--hold' if hold else '--dry-run'} do not go together: nothing would end")
    if slots is not None and not wait:
        raise UsageError("--slots is for the service that --wait starts; give --wait too")


def _submitted(queue: Queue, snapshots: Sequence[JobSnapshot], *, held: bool) -> list[str]:
    """Submit all jobs, or none where one of them is refused."""
    ids: list[str] = []
    try:
        for snapshot in snapshots:
            ids.append(queue.submit(snapshot, held=held))
    except CotuneError:
        for id in ids:
            queue.cancel(id)
        raise
    return ids


def _say_submitted(queue: Queue, jobs: Mapping[str, JobSnapshot], *, held: bool, wait: bool) -> None:
    for id, snapshot in jobs.items():
        say(f"submitted {snapshot.name} as {id}{' (held)' if held else ''}")
    leader = queue.leader()
    if not wait and (leader is None or not leader.is_alive):
        say("no service runs on this store yet: `cotune serve` starts one, and `cotune submit --wait` one for its jobs")


def _wait(queue: Queue, store: str | None, ids: Sequence[str], before: int, slots: int | None) -> None:
    """Wait for jobs to end, by the service that leads their store or by one that ends with the last job."""
    names, begun = {job.id: job.name for job in queue.listed(ids=ids)}, queue.now()

    def show(event: QueueEvent) -> None:
        note(f"[{max(event.at - begun, 0.0):.1f} s] {names[event.job]}: {event.state} ({event.words})")

    leader = queue.leader()
    if leader is not None and leader.is_alive:
        if slots is not None:
            note("a service with slots of its own leads this store: --slots has no effect")
        try:
            watch(queue, ids, before, show, lambda: not is_served(queue))
        except KeyboardInterrupt:
            raise Interrupted(f"the service continues with the jobs; `cotune wait {ids[0]}` waits again") from None
        before = queue.last_event()
    if _remaining(queue, ids):
        serve_and_watch(store, slots, ids, before, show)
    if remaining := _remaining(queue, ids):
        raise Interrupted(
            f"{counted(len(remaining), 'job')} not ended, with checkpoints kept: `cotune serve --drain` resumes, "
            f"`cotune cancel {remaining[0].id}` gives up {remaining[0].name}"
        )


def _remaining(queue: Queue, ids: Sequence[str]) -> list[ListedJob]:
    return [job for job in queue.listed(ids=ids) if not job.is_final]


def _print(jobs: Sequence[QueuedJob], now: float, *, ended: bool, json: bool) -> None:
    if json:
        entries = [_entry(job, now) for job in jobs]
        emit_json("submit", entries[0] if len(entries) == 1 else {"jobs": entries})
    elif ended:
        columns = ("job", "workers", "batch", "starts", "waited", "ran", "cost", "outcome")
        table(columns, [_row(job) for job in jobs])


def _entry(job: QueuedJob, now: float) -> dict[str, Any]:
    document = status_document(job, now)
    return {"job": job.id} | {name: document[name] for name in _ENTRY}


def _row(job: QueuedJob) -> tuple[object, ...]:
    result, outcome = job.result or {}, f"{job.state}: {job.reason}"
    if "starts" not in result:  # it never ran
        return job.name, "", "", 0, "", "", "", outcome
    config, cost = result["config"] or {}, result["cost"]
    return (
        job.name,
        config.get("workers", ""),
        config.get("batch_size", ""),
        result["starts"],
        duration(result["waited_seconds"]),
        duration(result["trained_seconds"]),
        f"{number(cost['value'], 3)} {cost['unit']}",
        outcome,
    )


def _foresee(seen: Mapping[str, Any], json: bool) -> None:
    """Show what would become of a job; leave with the exit code of a declined one if it would be."""
    if json:
        emit_json("submit.dry_run", seen)
    elif not seen["admitted"]:
        say(f"it would be declined: {seen['reason']}")
    else:
        for what in ("start", "end"):
            low, mid, high = (seen[what][side] for side in ("low", "mid", "high"))
            say(f"{what:<6}in {duration(mid)} ({duration(low)}..{duration(high or mid)})")
        for moved in seen["moved"]:
            span = f"{duration(moved['low'])}..{duration(moved['high'])}" if moved["high"] is not None else ""
            say(f"moves {moved['name']} ({moved['id']}): it would end {duration(moved['later'])} later ({span})")
        if seen["unmeasured"]:
            say(f"not counted: {counted(seen['unmeasured'], 'job')} before it, not measured yet")
    if not seen["admitted"]:
        raise typer.Exit(Infeasible.exit_code)
