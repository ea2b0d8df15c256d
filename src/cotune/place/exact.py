"""The cheapest placement, proven: bisection over the seconds of the slowest stage.

For a time tau every stage takes the fewest units that are fast enough, k(tau); with P(tau)
the least price per second of all plans whose stages take at most tau,

    cost(plan) = tau(plan) x price(plan),      P never rises with tau.

So every plan with lo <= tau(plan) <= hi costs at least lo x P(hi), and the plan found at hi
settles all times down to its own bottleneck. Intervals of tau are cut, those whose bound
exceeds the best cost known are dropped, and the rest shrink to the values that e(k) really
takes: there are finitely many. The least bound still open proves how far the best plan can
be from the optimum at any moment, so a time limit costs the proof, never the plan.
"""

from __future__ import annotations

import heapq
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from cotune.place._limits import Dual, Market, dual, labels, used_by, weigh
from cotune.place._paths import Edge, Paths, cheapest
from cotune.place.objectives import Cheapest, Objective
from cotune.place.problems import SLACK, TIE, Placement, Problem, Run
from cotune.place.stage_times import Around, packed
from cotune.types import Floats

_BEAM = 40  # labels per position when a better plan is looked for
_NEAR = 1.2
_FEW = 250  # labels per position when a proof is tried; single times that need more get more


@dataclass(frozen=True, slots=True)
class Solution:
    """The best plan found (None where there is none), whether that is proven, and the least value there could be."""

    placement: Placement | None
    optimal: bool
    bound: float  # of the value, per example
    searched: int  # values of tau
    seconds: float


@dataclass(frozen=True, slots=True)
class Exact:
    """Find the cheapest placement and prove it."""

    time_limit: float = 10.0
    rows: int = 16
    width: int = 4_000
    rounds: int = 12

    def place(self, problem: Problem, rng: random.Random) -> Placement | None:  # noqa: ARG002  # nothing is left to chance
        return self.solve(problem).placement

    def solve(
        self, problem: Problem, objective: Objective | None = None, *, incumbent: Placement | None = None
    ) -> Solution:
        """Return the best plan (the cheapest by default) that reaches the throughput, or one known that is as good."""
        return _Bisection(problem, self, Cheapest() if objective is None else objective, incumbent).run()


@dataclass(slots=True, order=True)
class _Interval:
    """Times lo..hi of the slowest stage, and the least price of any plan that fast."""

    bound: float
    lo: float = field(compare=False)
    hi: float = field(compare=False)
    price: float = field(compare=False)
    multipliers: Floats = field(compare=False)


class _Batch(NamedTuple):
    """Some times at once: the units they take, and the cheapest paths."""

    around: Around
    paths: Paths


class _Piece(NamedTuple):
    """A part of an interval: from lo to a row of a batch, with the multipliers to start from."""

    lo: float
    row: int
    multipliers: Floats


class _Bisection:
    """One solve: the open intervals and the best plan so far."""

    def __init__(self, problem: Problem, settings: Exact, objective: Objective, incumbent: Placement | None) -> None:
        self.problem = problem
        self.objective = objective
        self.settings = settings
        self.market = Market(problem.prices, problem.limits, problem.depth, problem.free)
        self.counting = problem.stages.within(problem.slowest)
        self.started = time.monotonic()
        self.deadline = self.started + settings.time_limit
        self.best = incumbent
        self.open: list[_Interval] = []
        self.searched = 0
        self.budget = float(problem.prices @ problem.limits) if np.isfinite(problem.limits).all() else np.inf
        self.width = _FEW
        self.unproven: list[float] = []  # bounds of intervals that labels could not settle
        stages = problem.depth * (problem.depth + 1) // 2 * len(problem.types)
        self.rows = int(np.clip(400_000 // max(stages, 1), 2, settings.rows))

    def run(self) -> Solution:
        stages, depth, free = self.problem.stages, self.problem.depth, self.problem.free
        lo = float(cheapest(stages.fastest()[None], depth, free=free, join=np.maximum).least[0])
        hi = self.problem.slowest
        if lo <= hi:
            self._settle([_Piece(lo, 0, np.zeros(len(self.problem.types)))], self._evaluate(np.array([hi])))
        while self.open and time.monotonic() < self.deadline:
            self._round()
        return self._solution()

    def _round(self) -> None:
        """Cut the most promising intervals, all in one batch of numpy calls."""
        taken: list[_Interval] = []
        while self.open and len(taken) < self.rows:
            interval = heapq.heappop(self.open)
            if not self._hopeless(interval.bound, interval.lo, interval.hi):
                taken.append(interval)
        if not taken:
            return
        cuts = max(1, self.rows // len(taken))
        shares = np.arange(1, cuts + 1) / (cuts + 1)
        points = np.array([interval.lo * (interval.hi / interval.lo) ** shares for interval in taken])
        batch = self._evaluate(points.ravel())
        pieces: list[_Piece] = []
        for place, interval in enumerate(taken):
            lo = interval.lo
            for row in range(place * cuts, (place + 1) * cuts):
                pieces.append(_Piece(lo, row, interval.multipliers))
                lo = max(lo, float(batch.around.above[row]))
            if lo <= interval.hi:
                self._push(lo, interval.hi, interval.price, interval.multipliers)
        self._settle(pieces, batch)

    def _evaluate(self, taus: Floats) -> _Batch:
        """Return the cheapest plans for some times, limits aside."""
        around = self.counting.around(taus)
        self.searched += len(taus)
        weights = weigh(around.units, self.problem.prices)
        return _Batch(around, cheapest(weights, self.problem.depth, free=self.problem.free))

    def _settle(self, pieces: list[_Piece], batch: _Batch) -> None:
        """Take the plans found at the upper ends of intervals, and keep open what they do not settle."""
        short: list[_Piece] = []
        for piece in reversed(pieces):
            hi, price = float(batch.around.below[piece.row]), float(batch.paths.least[piece.row])
            if hi < piece.lo or np.isinf(price) or self._hopeless(self._bound(piece.lo, price), piece.lo, hi):
                continue
            units = batch.around.units[piece.row]
            edges = batch.paths.path(piece.row)
            if np.any(used_by(edges, units) > self.problem.limits):
                short.append(piece)
                continue
            own = self._offer(edges, units)
            if self.objective.ties and self.objective.bound(own / self.problem.batch, price) <= self._value() * (
                1 + TIE
            ):
                own = min(own, self._offer(batch.paths.leanest(piece.row, units), units))
            self._push(piece.lo, min(hi, own), price, piece.multipliers)
        if short:
            self._within_limits(short, batch)

    def _within_limits(self, pieces: list[_Piece], batch: _Batch) -> None:
        """Settle intervals whose cheapest plan takes more units than there are."""
        units = batch.around.units[[piece.row for piece in pieces]]
        cutoffs = np.array([self._cutoff(piece.lo) for piece in pieces])
        start = np.stack([piece.multipliers for piece in pieces])
        bounds = dual(self.market, units, cutoffs, start, self.settings.rounds)
        for own, relaxed in zip(units, bounds, strict=True):
            if relaxed.edges:
                self._offer(relaxed.edges, own)
        self._probe(pieces, batch, bounds)
        for piece, own, relaxed in zip(pieces, units, bounds, strict=True):
            lo, hi = piece.lo, float(batch.around.below[piece.row])
            price = max(float(batch.paths.least[piece.row]), relaxed.bound)
            if relaxed.price <= relaxed.bound * (1 + SLACK):
                self._push(lo, min(hi, self._offer(relaxed.edges, own)), price, relaxed.multipliers)
            elif time.monotonic() > self.deadline:
                self._push(lo, hi, price, relaxed.multipliers)
            elif not self._hopeless(self._bound(lo, price), lo, hi):
                self._by_labels(lo, hi, price, own, relaxed.multipliers)

    def _probe(self, pieces: list[_Piece], batch: _Batch, bounds: list[Dual]) -> None:
        """Look for a better plan where the cost seems least: the sooner it is found, the more is pruned."""
        tops = [float(batch.around.below[piece.row]) for piece in pieces]
        place = int(np.argmin([hi * relaxed.bound for hi, relaxed in zip(tops, bounds, strict=True)]))
        units, multipliers = batch.around.units[pieces[place].row], bounds[place].multipliers
        bound, cutoff = bounds[place].bound, self._cutoff(tops[place])
        # A plan near the bound is found among few edges; any plan at all is looked for among all of them.
        for limit in (min(_NEAR * bound, cutoff), cutoff):
            found = labels(self.market, units, limit, multipliers, width=_BEAM, deadline=self.deadline, beam=True)
            if found.edges:
                self._offer(found.edges, units)
            if self.best is not None:
                return

    def _by_labels(self, lo: float, hi: float, price: float, units: Floats, multipliers: Floats) -> None:
        """Settle an interval by labels if they are few enough, or leave it to be cut."""
        found = labels(self.market, units, self._cutoff(lo), multipliers, width=self.width, deadline=self.deadline)
        if found.proven:
            faster = self._offer(found.edges, units) if found.edges else -np.inf
            self._push(lo, min(hi, faster), max(price, found.price), multipliers)
        elif hi > lo * (1 + SLACK):
            self._push(lo, hi, price, multipliers)
        elif self.width < self.settings.width and time.monotonic() < self.deadline:
            self.width *= 4
            self._by_labels(lo, hi, price, units, multipliers)
        else:
            self.unproven.append(self._bound(lo, price))  # a single time that labels cannot settle: a hole in the proof

    def _offer(self, edges: Sequence[Edge], units: Floats) -> float:
        """Keep a plan if it is better; return the greatest time that it does not settle."""
        runs: list[Run] = [(kind, first, last, int(units[kind, packed(first, last)])) for kind, first, last in edges]
        plan = self.problem.placement(runs)
        if self.objective.better(plan, self.best):
            self.best = plan
        return float(np.nextafter(plan.seconds, 0.0))

    def _push(self, lo: float, hi: float, price: float, multipliers: Floats) -> None:
        bound = self._bound(lo, price)
        if lo <= hi and np.isfinite(bound) and (self.best is None or bound <= self._value() * (1 + TIE)):
            heapq.heappush(self.open, _Interval(bound, lo, hi, price, multipliers))

    def _bound(self, lo: float, price: float) -> float:
        return self.objective.bound(lo / self.problem.batch, price)

    def _value(self) -> float:
        return np.inf if self.best is None else self.objective.value(self.best)

    def _cutoff(self, lo: float) -> float:
        return min(self.objective.cutoff(lo / self.problem.batch, self.best), self.budget * (1 + TIE))

    def _hopeless(self, bound: float, lo: float, hi: float) -> bool:
        """Return whether an interval holds no better plan: worse, or as good but with more units or slower."""
        value = self._value()
        if self.best is None or bound < value * (1 - TIE):
            return bool(np.isinf(bound))
        if bound > value * (1 + TIE) or not self.objective.ties:
            return True
        fewest = cheapest(self.counting.around(np.array([hi])).units, self.problem.depth, free=self.problem.free).least[
            0
        ]
        slower = lo / self.problem.batch >= self.best.seconds / self.best.batch * (1 - TIE)
        return bool(fewest > self.best.units or (fewest == self.best.units and slower))

    def _solution(self) -> Solution:
        value = self._value()
        bounds = [value, *(interval.bound for interval in self.open), *self.unproven]
        optimal = min(bounds) >= value * (1 - TIE)
        return Solution(self.best, optimal, min(bounds), self.searched, time.monotonic() - self.started)
