"""`cotune rules`: what a service goes by, and how it is changed while it runs."""

from __future__ import annotations

from getpass import getuser
from typing import Annotated

import typer

from cotune.cli.options import Json, StoreUrl
from cotune.cli.output import emit_json, say, table
from cotune.cluster.verbs._queue import open_queue
from cotune.errors import UsageError

_NONE = ("none", "")


def rules(
    policy: Annotated[str | None, typer.Option("--policy", help="Who runs on what from now on: las, srtf, ...")] = None,
    max_workers: Annotated[
        list[str] | None, typer.Option("--max-workers", help="TEAM=N: workers that a team's jobs may hold; N or none.")
    ] = None,
    max_jobs: Annotated[
        list[str] | None, typer.Option("--max-jobs", help="TEAM=N: jobs of a team that may be open; N or none.")
    ] = None,
    store: StoreUrl = None,
    json: Json = False,
) -> None:
    """Show the policy and the teams' quotas of the service on a store, or change them; jobs go on meanwhile.

    cotune rules --store team.db
    cotune rules --policy las --max-workers vision=8 --max-jobs vision=50
    cotune rules --max-workers vision=none
    """
    quotas: dict[str, dict[str, int | None]] = {}
    for limit, given in (("workers", max_workers), ("jobs", max_jobs)):
        for team, most in map(_limit, given or ()):
            quotas.setdefault(team, {})[limit] = most
    with open_queue(store, may_make=bool(policy or quotas)) as queue:
        found = queue.change_rules(policy, quotas, by=getuser()) if policy or quotas else queue.rules()
    if json:
        emit_json("rules", found.document())
        return
    say(f"policy  {found.policy}")
    rows = [
        (team or "(none)", *("" if most is None else most for most in (quota.workers, quota.jobs)))
        for team, quota in found.quotas.items()
    ]
    if rows:
        table(("team", "workers", "jobs"), rows)


def _limit(text: str) -> tuple[str, int | None]:
    team, equals, most = text.rpartition("=")
    if not equals or not (most.isdecimal() or most in _NONE):
        raise UsageError(f"cannot read the limit {text!r}; write TEAM=N, or TEAM=none to take it away")
    return team, None if most in _NONE else int(most)
