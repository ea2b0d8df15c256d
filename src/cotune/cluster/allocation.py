"""What jobs with deadlines hold from now on: what is due, who gets on before that, and what is left over.

First everybody holds what is due by its promise. Then those who wait look for room, the cheapest first, and those who
have a promise get on early, whoever is due next first: that keeps the time just ahead free for newcomers in a hurry.
At last idle GPUs make jobs faster where that wastes little, and serve those without a deadline.
"""

from __future__ import annotations

import math
from operator import mul

from cotune.cluster.candidates import Candidates, Ladder
from cotune.cluster.ledger import Ledger
from cotune.cluster.policy import Active, Promise
from cotune.cluster.promises import TIGHT, begin, held_at, start_seconds, steps_down
from cotune.types import Config

_AGAIN = 0.05  # of the time it can still wait: how long a job waits to be tried again that found no room


class Allocation:
    """Who is given what at one moment, and what is still free."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._free = dict(ledger.there)
        self._given: dict[Active, tuple[Ladder, int]] = {}

    def configs(self) -> dict[str, Config]:
        """Return what everybody shall hold; who needs the most nodes comes first, and chooses them first."""
        self._ledger.revise()
        self._give_due()
        self._find_room()
        self._get_on()
        self._use_idle()
        given = sorted(self._given.items(), key=lambda entry: -entry[1][0].units[entry[1][1]])
        return {job.job.name: ladder.configs[row] for job, (ladder, row) in given}

    def _give_due(self) -> None:
        """Give what was promised to those whose promises have begun."""
        due: list[tuple[Active, Promise, int]] = []
        for job in self._ledger.urgent:
            promise, now = job.promise, job.synced
            if promise is None or (promise.ends[0] > now + TIGHT and not promise.units[0]):
                continue  # the usual case, quickly: it has not begun
            if held_at(promise, now):
                promise = self._ledger.revised(job, promise, extend=True)
                due.append((job, promise, held_at(promise, now)))
        if sum(units for *_, units in due) > sum(self._free.values()):  # some overran what was set aside for them
            due.sort(key=lambda one: (not one[1].firm, self._ledger.price(one[0]), one[0].number))
        for job, promise, units in due:
            ladder = self._ledger.ladder(job, promise)
            if units and (units <= self._free[ladder.device] or not job.restart):
                self._give(job, ladder, ladder.row(min(units, self._free[ladder.device])))

    def _find_room(self) -> None:
        """Try those who wait, the cheapest first, if something is free for them now."""
        if not any(self._free.values()):
            return
        waiting = [
            job
            for job in self._ledger.urgent
            if job.promise is None and job.deadline_left > 0 and self._worth_trying(job)
        ]
        for _, _, job in sorted((self._ledger.price(job), job.number, job) for job in waiting):
            promise = self._ledger.offer(job)
            if promise is not None:
                job.promise = promise._replace(firm=False)
                self._ledger.room(promise.device).take(promise)
            else:
                self._ledger.candidates(job).tried = job.synced

    def _worth_trying(self, job: Active) -> bool:
        """Return whether a job could start now, and was not tried in vain a moment ago."""
        known = self._ledger.candidates(job)
        wait = _AGAIN * max(job.deadline_left - known.quickest, 0.0)
        return job.synced >= known.tried + wait and any(
            ladder.units[0] <= self._free[ladder.device] for ladder in known.ladders
        )

    def _get_on(self) -> None:
        """Let those who have a promise get on before it begins, whoever is due next first; the late come last.

        Where a start takes time those who run stay before that: as a job gets on it is due later, and two would take
        turns for ever. On nodes they do not, since who stays where it is leaves nobody else whole nodes.
        """
        if not any(self._free.values()):
            return
        given = self._given
        counted = all(device.per_node is None for device in self._ledger.cluster.devices)
        line = [
            (not (counted and job.restart and job.running), begin(job), job.number, job)
            for job in self._ledger.urgent
            if job not in given and (job.promise is not None or job.deadline_left <= 0)  # late: it had a firm one
        ]
        left = sum(self._free.values())
        for *_, job in sorted(line):
            if not left:
                return
            ladder, row = self._base(job)
            row = min(row, ladder.row(self._free[ladder.device]))
            if row >= 0:
                self._give(job, ladder, row)
                left -= ladder.units[row]

    def _base(self, job: Active) -> tuple[Ladder, int]:
        """Return in what a job gets on: as it is, as long as nothing cheaper is in time."""
        known: Candidates | None = job.memory
        if (
            known is not None
            and known.base is not None
            and known.config is job.config
            and job.synced < known.base_until
        ):
            return known.base
        known = self._ledger.candidates(job)
        ladder, row = known.base = self._ledger.cheapest(job)
        goes_on = row == ladder.held and not job.spread
        known.base_until = job.synced + steps_down(job, ladder, 0.0) if goes_on else -math.inf
        return ladder, row

    def _use_idle(self) -> None:
        """Let jobs go faster where that wastes little, those without a deadline at the end."""
        if not any(self._free.values()):
            return
        for job in sorted(
            (job for job in self._ledger.urgent if job in self._given), key=lambda one: (one.deadline_left, one.number)
        ):
            # a start now would come too late for a promise that is about to begin
            if not (job.restart and job.promise and begin(job) < job.synced + job.restart):
                self._go_faster(job)
        for job in self._ledger.patient:
            self._go_faster(job)

    def _go_faster(self, job: Active) -> None:
        """Give a job the fastest config in reach that wastes little."""
        now = self._given.get(job)
        best: tuple[float, int, Ladder, int] | None = None
        for ladder in self._ledger.candidates(job).ladders if now is None else (now[0],):
            held = 0 if now is None else ladder.units[now[1]]
            reach = ladder.row(self._free[ladder.device] + held)
            if reach < 0 or ladder.units[reach] <= held:
                continue
            lasts = [seconds + start_seconds(job, ladder, row) for row, seconds in enumerate(ladder.likely)]
            enough = (1.0 + self._ledger.terms.slack) * min(map(mul, ladder.units, lasts))
            for row in range(reach + 1):
                found = lasts[row], ladder.units[row], ladder, row
                thrifty = ladder.units[row] * lasts[row] <= enough or (now is None and row == 0)
                best = found if thrifty and (best is None or found[:2] < best[:2]) else best
        if best is None:
            return
        seconds, _, ladder, row = best
        if now is None or seconds < (ladder.likely[now[1]] + start_seconds(job, ladder, now[1])) * (1 - 1e-9):
            self._give(job, ladder, row)

    def _give(self, job: Active, ladder: Ladder, row: int) -> None:
        if row < 0:
            return
        before = self._given.get(job)
        self._free[ladder.device] -= ladder.units[row] - (before[0].units[before[1]] if before else 0)
        self._given[job] = ladder, row
