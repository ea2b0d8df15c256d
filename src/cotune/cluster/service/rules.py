"""What an operator may change while a service runs: the policy, and what each team may have at a time.

The rules stand in the store, every change of them with who made it; the latest holds, for whoever serves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Self

from sqlalchemy import Connection, func, select

from cotune import registry
from cotune.cluster.quotas import WithinQuotas, knowing_types
from cotune.cluster.service.states import FINAL
from cotune.errors import OverBudget, UsageError
from cotune.store.schema import queue, service_rules
from cotune.types import Cluster


class QuotaFull(OverBudget):
    """A job more than its team may have at a time."""


@dataclass(frozen=True, slots=True)
class TeamQuota:
    """What a team may have at a time; without limit where nothing is said."""

    workers: int | None = None  # that its running jobs hold
    jobs: int | None = None  # that have not ended

    def __post_init__(self) -> None:
        for name, most in asdict(self).items():
            if most is not None and most < 0:
                raise UsageError(f"a team has at most 0 {name} or more, not {most}")


NO_LIMIT = TeamQuota()


@dataclass(frozen=True, slots=True)
class ServiceRules:
    """Who decides, and within which limits."""

    policy: str = "joint"
    quotas: Mapping[str, TeamQuota] = field(default_factory=dict)

    def of_team(self, team: str) -> TeamQuota:
        """Return what a team may have."""
        return self.quotas.get(team, NO_LIMIT)

    def changed(self, policy: str | None = None, quotas: Mapping[str, Mapping[str, int | None]] | None = None) -> Self:
        """Return the rules with another policy, or with some limits of some teams set or (None) taken away."""
        if policy is not None:
            registry.create("policy", policy)  # or say which there are
        quotas = quotas or {}
        after = dict(self.quotas) | {team: replace(self.of_team(team), **limits) for team, limits in quotas.items()}
        kept = {team: quota for team, quota in sorted(after.items()) if quota != NO_LIMIT}
        return replace(self, policy=policy or self.policy, quotas=kept)

    def decider(self, cluster: Cluster) -> WithinQuotas:
        """Return the policy under the teams' quotas, for the types of device of a cluster."""
        limits = {team: quota.workers for team, quota in self.quotas.items() if quota.workers is not None}
        return WithinQuotas(knowing_types(registry.create("policy", self.policy), cluster), limits)

    def document(self) -> dict[str, Any]:
        """Return the rules as plain JSON."""
        return {"policy": self.policy, "quotas": {team: asdict(quota) for team, quota in self.quotas.items()}}

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Self:
        """Return rules from their document."""
        return cls(document["policy"], {team: TeamQuota(**quota) for team, quota in document["quotas"].items()})


def stored_rules(connection: Connection) -> ServiceRules:
    """Return the rules that hold now."""
    latest = select(service_rules.c.rules).order_by(service_rules.c.number.desc()).limit(1)
    found = connection.scalar(latest)
    return ServiceRules() if found is None else ServiceRules.of(found)


def require_room(connection: Connection, team: str) -> None:
    """Refuse another job of a team that has as many as it may."""
    most = stored_rules(connection).of_team(team).jobs
    if most is None:
        return
    if connection.dialect.name == "postgresql":  # of two that come at once the second counts the first
        connection.execute(select(func.pg_advisory_xact_lock(func.hashtext(queue.name))))
    final = [state.value for state in FINAL]
    there = select(func.count()).select_from(queue).where(queue.c.team == team, queue.c.state.not_in(final))
    count = connection.scalar(there) or 0
    if count >= most:
        name = f"team {team}" if team else "jobs without a team"
        raise QuotaFull(f"{name}: {count} of {most} open jobs are there; wait for one to end, or cancel one")
