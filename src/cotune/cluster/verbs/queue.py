"""`cotune queue`: list the submitted jobs, their states and when they will end."""

from __future__ import annotations

from typing import Annotated

import typer

from cotune.cli.options import Json, StoreUrl
from cotune.cli.output import emit_json, say, table
from cotune.cluster.service.documents import cluster_document, job_document, leader_document
from cotune.cluster.service.states import FINAL, State
from cotune.cluster.verbs._queue import cluster_lines, eta_words, open_queue
from cotune.errors import UsageError, suggestion
from cotune.units import counted, duration


def queue(
    all_jobs: Annotated[bool, typer.Option("--all", "-a", help="List ended jobs too (--json always does).")] = False,
    state: Annotated[str | None, typer.Option("--state", help="Only this state: queued, running, met, ...")] = None,
    team: Annotated[str | None, typer.Option("--team", help="Only this team's.")] = None,
    last: Annotated[int | None, typer.Option("--last", min=1, help="Only so many, the newest.")] = None,
    store: StoreUrl = None,
    json: Json = False,
) -> None:
    """List the jobs of the queue in the order they were submitted."""
    known = [one.value for one in State]
    if state is not None and state not in known:
        raise UsageError(f"no state {state!r}; there are {', '.join(known)}{suggestion(state, known)}")
    wanted = [State(state)] if state is not None else None if all_jobs or json else [*(set(State) - FINAL)]
    with open_queue(store) as opened:
        now = opened.now()
        documents = [job_document(job, now) for job in opened.listed(states=wanted, team=team, last=last)]
        leader, counts = opened.leader(), opened.counts()
    if json:
        by_state = {one.value: count for one, count in counts.items()}
        served = {"service": leader_document(leader), "cluster": cluster_document(leader)}
        emit_json("queue", {"jobs": documents, "counts": by_state, **served})
        return
    columns = ("id", "name", "state", "team", "priority", "workers", "deadline", "ends in", "reason")
    table(
        columns,
        [
            (
                one["id"],
                one["name"],
                one["state"] + (" (held)" if one["held"] else ""),
                one["team"],
                one["priority"],
                one["workers"] or "",
                duration(one["deadline"]) if one["deadline"] else "",
                eta_words(one),
                one["reason"].partition("\n")[0][:80],
            )
            for one in documents
        ],
    )
    ended = sum(count for one, count in counts.items() if one in FINAL)
    serving = f"served by {leader.about.get('host')} with {leader.about.get('policy')}" if leader else ""
    up = serving if leader and leader.is_alive else "no service runs: cotune serve --store URL"
    say(f"{counted(sum(counts.values()) - ended, 'job')} open, {ended} ended; {up}")
    for line in cluster_lines(cluster_document(leader), {one["id"]: one["name"] for one in documents}):
        say(line)
