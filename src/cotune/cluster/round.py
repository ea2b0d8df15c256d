"""Deciding by asking the policy about everybody: for policies that are more than an order.

The answer is compared with what runs: a job keeps what it holds if it is given the same
again, stops if it is given nothing, and is restarted if it is given something else.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping

from cotune.cluster.node_packing import Placer
from cotune.cluster.policy import Active, Policy, capacity
from cotune.types import Cluster, Config


class Round:
    """Who is there, under any policy."""

    rests = False  # a round may change its mind although nothing happened

    def __init__(self, policy: Policy, cluster: Cluster, sync: Callable[[Active], None], placer: Placer) -> None:
        self._cluster = cluster
        self._sync = sync
        self._placer = placer
        self._active: dict[str, Active] = {}
        self._turn = 0
        self._ask(policy)
        self._usage: dict[str, float] = {}
        self._used_at = 0.0
        self._at = -math.inf  # when all were brought up to the present last

    @property
    def busy(self) -> bool:
        return bool(self._active)

    def go_by(self, policy: Policy, cluster: Cluster) -> None:
        """Decide by a policy for a cluster from now on; under another policy nobody has a level or a promise yet."""
        self._cluster = cluster
        if policy is self._policy:
            return
        self._ask(policy)
        for active in self._active.values():
            active.level, active.settled, active.promise, active.memory = 0, active.running, None, None

    def _ask(self, policy: Policy) -> None:
        """Note whom to ask, and which of the questions it answers that not every policy does."""
        self._policy = policy
        self._level_of: Callable[[Active], int] | None = getattr(policy, "level_of", None)
        self._level_lasts: Callable[[Active], float] | None = getattr(policy, "level_lasts", None)
        self._gives_up: Callable[[Active], bool] | None = getattr(policy, "gives_up", None)
        self._patient: Callable[[Active], bool] = getattr(policy, "patient", lambda _: False)
        self._half_life: float | None = getattr(policy, "half_life", None)

    def everybody(self, now: float) -> list[Active]:
        """Return all who are there at a time, in order of arrival."""
        if now != self._at:
            self._at = now
            for active in self._active.values():
                self._sync(active)
        return list(self._active.values())

    def arrive(self, active: Active) -> None:
        active.turn = self._next_turn()
        self._active[active.job.name] = active

    def end(self, active: Active) -> None:
        self._count(active.synced)
        del self._active[active.job.name]

    def strike(self, active: Active) -> None:
        """Let a job wait whose nodes failed."""
        self._count(active.synced)
        active.config, active.held, active.settled = None, 0, False
        active.turn = self._next_turn()

    def given_up(self, now: float) -> list[Active]:
        """Return those for whom the policy can do nothing more."""
        return [] if self._gives_up is None else [active for active in self.everybody(now) if self._gives_up(active)]

    def next_change(self) -> float:
        """Return when the policy wants to be asked again although nothing happens."""
        lasts = self._level_lasts
        if lasts is None:
            return math.inf
        soonest = math.inf
        for active in self._active.values():
            at = active.synced + lasts(active)
            soonest = at if at < soonest else soonest
        return soonest

    def decide(self, now: float) -> tuple[list[Active], list[Active]]:
        """Return who stops and who starts; a job whose config changes is in both."""
        self._count(now)
        everybody = self.everybody(now)
        if self._level_of is not None:
            for active in everybody:
                self._relevel(active, self._level_of(active))
        if self._half_life is not None:
            for active in everybody:
                active.team_usage = self._usage.get(active.job.team, 0.0)
        given = self._policy.allocate(everybody, self._cluster)
        self._check(given)
        stops = [
            active
            for active in everybody
            if active.config is not None and _differ(given.get(active.job.name), active.config)
        ]
        stops.sort(key=lambda active: (active.level, active.turn))
        wanted = [
            (self._active[name], config) for name, config in given.items() if _differ(self._active[name].config, config)
        ]
        for active in reversed(stops):
            if active.settled:  # one that has just come to its level stays at the end of it
                active.turn = -self._next_turn()
            active.config, active.held, active.settled = None, 0, False
        starts = []
        placed, moved = self._placer.placeable(wanted, stops, self._patient)
        stops += [active for active, _ in moved]
        for active, config in (*placed, *moved):
            active.config, active.held, active.settled = config, config.units, True
            active.starts += 1
            active.started = min(active.started, active.synced)
            active.turn = self._next_turn()
            starts.append(active)
        for active in everybody:
            if active.config is not None and not active.settled:
                active.settled, active.turn = True, self._next_turn()
        return stops, starts

    def _count(self, now: float) -> None:
        """Add what each team held since the last time, and let older use fade."""
        passed, self._used_at = now - self._used_at, now
        if self._half_life is None or passed <= 0:
            return
        fade = 0.5 ** (passed / self._half_life)
        self._usage = {team: usage * fade for team, usage in self._usage.items()}
        for active in self._active.values():
            if active.held:
                self._usage[active.job.team] = self._usage.get(active.job.team, 0.0) + active.held * passed

    def _next_turn(self) -> int:
        self._turn += 1
        return self._turn

    def _relevel(self, active: Active, level: int) -> None:
        if level != active.level:
            active.come_to(level)
            active.turn = self._next_turn()

    def _check(self, given: Mapping[str, Config]) -> None:
        used: Counter[str] = Counter()
        for name, config in given.items():
            active = self._active[name]
            used[config.device] += active.held if config is active.config else config.units
        there = capacity(self._cluster)
        for device, held in used.items():
            if held > there.get(device, 0):
                raise ValueError(
                    f"{type(self._policy).__name__} gave away {held} {device}, there are {there.get(device, 0)}"
                )


def _differ(one: Config | None, other: Config | None) -> bool:
    """Return whether two configs differ; to be the same object is the usual case, and the quick one."""
    return one is not other and one != other
