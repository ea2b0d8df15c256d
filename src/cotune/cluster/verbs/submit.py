"""`cotune submit`: queue a job file to be measured, planned and run by the service."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cotune.cli.flags import GoalFlags, records_as_flags
from cotune.cli.help import GOAL, flag
from cotune.cli.options import Json, Name, StoreUrl
from cotune.cli.output import emit_json, say
from cotune.cluster.service.forecasts import foresee
from cotune.cluster.service.queue import Queue
from cotune.cluster.service.snapshot import JobSnapshot, adopt_samples
from cotune.cluster.verbs._queue import open_queue
from cotune.errors import Infeasible
from cotune.units import counted, duration


@records_as_flags
def submit(
    *,
    file: Annotated[Path, typer.Argument(help="The job file, or a folder with a cotune.yaml.")],
    goal: GoalFlags,
    team: Annotated[str | None, flag(GOAL, "--team", help="Whose job it is.")] = None,
    priority: Annotated[int | None, flag(GOAL, "--priority", help="Higher goes first (0).")] = None,
    name: Name = None,
    hold: Annotated[bool, typer.Option("--hold", help="Keep it from starting until cotune release.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only tell when it would start and end, and who would be moved.")
    ] = False,
    store: StoreUrl = None,
    json: Json = False,
) -> None:
    """Submit a job. Its deadline counts from now. Needs no running service.

    cotune submit cotune.yaml --deadline 2h
    cotune submit cotune.yaml --dry-run
    """
    snapshot = JobSnapshot.take(file, goal.asked() | {"team": team, "priority": priority, "name": name})
    with open_queue(store, may_make=True) as queue:
        adopt_samples(queue.store, snapshot)
        if dry_run:
            _foresee(queue, snapshot, json)
            return
        id = queue.submit(snapshot, held=hold)
        leader = queue.leader()
    if json:
        emit_json("submit", {"job": id, "name": snapshot.name, "state": "queued", "held": hold})
        return
    say(f"submitted {snapshot.name} as {id}{' (held)' if hold else ''}")
    if leader is None or not leader.is_alive:
        say("no service runs on this store yet: cotune serve --store URL works the queue off")


def _foresee(queue: Queue, snapshot: JobSnapshot, json: bool) -> None:
    """Tell what would become of a job; leave with the exit code of a declined one if it would be."""
    seen = foresee(queue, snapshot)
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
