"""What a caller asks of the queue: only jobs of its team, in folders that were opened, within its scope.

Another team's job is not found rather than refused, so that nobody learns that it is there.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cotune.cluster.api.requests import NewJob
from cotune.cluster.api.tokens import AccessScope, Caller
from cotune.cluster.service.documents import (
    cluster_document,
    event_document,
    job_document,
    leader_document,
    status_document,
)
from cotune.cluster.service.documents import why_document as whole_why
from cotune.cluster.service.forecasts import cluster_of, foresee
from cotune.cluster.service.job_files import last_lines
from cotune.cluster.service.queue import Queue
from cotune.cluster.service.queued import QueuedJob
from cotune.cluster.service.snapshot import JobSnapshot, adopt_samples
from cotune.cluster.service.states import State
from cotune.cluster.service.usage import occupancy_over_time
from cotune.errors import CotuneError, NotFound, UsageError
from cotune.jobfile.settings import FILE_NAME, Settings

ANOTHERS = "another team's job"


class Forbidden(CotuneError):
    """Something that the caller's token does not allow."""


@dataclass(frozen=True)
class QueueAccess:
    """The queue for one caller at a time, and the folders in which submitted jobs may stand."""

    queue: Queue
    roots: tuple[Path, ...]

    def listed(self, caller: Caller, states: Sequence[State] | None, team: str | None, last: int) -> dict[str, Any]:
        """Return the newest jobs, those of the caller's team if it has one."""
        if caller.team and team not in (None, caller.team):
            return {"jobs": []}
        now = self.queue.now()
        found = self.queue.listed(states=states, team=caller.team or team, last=last)
        return {"jobs": [job_document(job, now) for job in found]}

    def status(self, caller: Caller, id: str) -> dict[str, Any]:
        return {"job": status_document(self.job(caller, id), self.queue.now())}

    def why(self, caller: Caller, id: str) -> dict[str, Any]:
        """Return why a job stands where it does; others' jobs are counted, not named."""
        document = whole_why(self.queue, self.job(caller, id))
        return document | {"ahead": self._without_names(caller, document["ahead"])}

    def logs(self, caller: Caller, id: str, rank: int, last: int) -> dict[str, Any]:
        """Return what happened to a job, and the last lines that it wrote."""
        job = self.job(caller, id)
        events = [event_document(event) for event in self.queue.events(job.id)]
        return {"job": job.id, "events": events, "lines": last_lines(job, rank, last) if last else []}

    def rules(self, caller: Caller) -> dict[str, Any]:
        """Return what the service goes by; a caller of a team sees that team's quota alone."""
        rules = self.queue.rules().document()
        own = {team: quota for team, quota in rules["quotas"].items() if caller.team in ("", team)}
        return {**rules, "quotas": own}

    def change_rules(self, caller: Caller, policy: str | None, change: Mapping[str, Any]) -> dict[str, Any]:
        """Change what the service goes by; a token of one team has no say in it."""
        if caller.team:
            raise Forbidden(f"this token is of team {caller.team}; the rules are for all teams")
        self.queue.change_rules(policy, change.get("quotas"), by=caller.name)
        return self.rules(caller)

    def submit(self, caller: Caller, given: NewJob) -> dict[str, Any]:
        """Submit a job for the caller; return its id."""
        snapshot, settings = self._snapshot(caller, given)
        adopt_samples(self.queue.store, settings)
        id = self.queue.submit(snapshot, held=given.held)
        return {"job": id, "name": snapshot.name, "state": State.QUEUED.value, "held": given.held}

    def foresee(self, caller: Caller, given: NewJob) -> dict[str, Any]:
        """Return what would become of a job; others' jobs are not named."""
        snapshot, settings = self._snapshot(caller, given)
        adopt_samples(self.queue.store, settings)
        seen = foresee(self.queue, snapshot, settings)
        return seen | {"moved": self._without_names(caller, seen["moved"])}

    def _snapshot(self, caller: Caller, given: NewJob) -> tuple[JobSnapshot, Settings]:
        """Return a job as the caller may submit it, and what its file says."""
        if (given.text is None) == (given.path is None):
            raise UsageError("a job is submitted by its `text`, or by the `path` of its file on the service's machine")
        if given.path is not None:
            file = self._inside(given.path)
            file = self._inside(str(file / FILE_NAME)) if file.is_dir() else file
            snapshot, settings = JobSnapshot.take(file, given.asked)
        else:
            folder = self._inside(given.folder or ".")
            snapshot, settings = JobSnapshot.written(given.text or "", folder, str(folder / FILE_NAME), given.asked)
        if caller.team and snapshot.team not in ("", caller.team):
            raise Forbidden(f"this token submits jobs of team {caller.team}, not of {snapshot.team}")
        asked = {**snapshot.asked, "team": caller.team} if caller.team else snapshot.asked
        user, team = caller.name or snapshot.user, caller.team or snapshot.team
        return replace(snapshot, asked=asked, team=team, user=user), settings

    def ask(self, caller: Caller, id: str, ask: Callable[[str, str], QueuedJob]) -> dict[str, Any]:
        """Return a job after something (cancel, hold, release) was asked of it in the caller's name."""
        return {"job": job_document(ask(self.job(caller, id).id, caller.name), self.queue.now())}

    def service(self, caller: Caller) -> dict[str, Any]:
        """Return who works the queue off and how many jobs there are of each state, over all teams."""
        counts = {state.value: count for state, count in self.queue.counts().items()}
        leader = self.queue.leader()
        cluster = self._seen_by(caller, cluster_document(leader))
        you = {"name": caller.name, "scope": caller.scope.value, "team": caller.team}
        return {"service": leader_document(leader), "counts": counts, "cluster": cluster, "you": you}

    def occupancy(self, _: Caller, seconds: float) -> dict[str, Any]:
        """Return how much of the cluster was in use; whose it was is not told."""
        leader = self.queue.leader()
        return occupancy_over_time(self.queue.store, cluster_of(leader.about if leader else {}), seconds)

    def _seen_by(self, caller: Caller, cluster: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return who holds what of the cluster, with the ids of those jobs alone that the caller may see."""
        parts = [part for kind in cluster for part in (kind["measuring"], *(node["jobs"] for node in kind["nodes"]))]
        held = [one for part in parts for one in part]
        own = self._seen(caller, {one["job"] for one in held})
        for one in held:
            one["job"] = one["job"] if one["job"] in own else None
        return list(cluster)

    def events(self, caller: Caller, after: int, most: int) -> tuple[int, list[dict[str, Any]]]:
        """Return the number of the last event that was looked at, and those of them that the caller may see."""
        found = self.queue.events(after=after, most=most)
        own = self._seen(caller, {event.job for event in found})
        return found[-1].number if found else after, [event_document(event) for event in found if event.job in own]

    def _seen(self, caller: Caller, ids: Collection[str]) -> Collection[str]:
        """Return those of some jobs that the caller may see."""
        return {job.id for job in self.queue.listed(team=caller.team, ids=ids)} if caller.team and ids else ids

    def _without_names(self, caller: Caller, jobs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return what is told of some jobs without the names of those that the caller may not see."""
        own = self._seen(caller, [one["id"] for one in jobs])
        return [one if one["id"] in own else {**one, "id": None, "name": ANOTHERS} for one in jobs]

    def job(self, caller: Caller, id: str) -> QueuedJob:
        """Return a job by its whole id, if the caller may see it."""
        found = self.queue.jobs(ids=[id], team=caller.team or None)
        if not found:
            raise NotFound("no such job; /api/v1/jobs lists those that you may see")
        return found[0]

    def _inside(self, path: str) -> Path:
        """Return a path with all links followed; it has to lie in one of the folders that were opened."""
        try:
            whole = (self.roots[0] / path).resolve()
        except (OSError, RuntimeError, ValueError):
            whole = Path("/")
        if not any(whole.is_relative_to(root) for root in self.roots):
            raise Forbidden("this service takes jobs from its own folders alone (cotune serve --folder DIR)")
        return whole


def require(caller: Caller, scope: AccessScope) -> Caller:
    """Return the caller if its token has a scope."""
    if not caller.may(scope):
        raise Forbidden(f"this needs a token with the scope {scope}, yours has {caller.scope}")
    return caller
