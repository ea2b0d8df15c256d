"""The cheapest placement, proven: bisection over the seconds of the slowest stage.

For a time tau every stage takes the fewest units that are fast enough, k(tau); with P(tau)
the least price per second of all plans whose stages take at most tau,

    cost(plan) = tau(plan) x price(plan),      P never rises with tau.

So every plan with lo <= tau(plan) <= hi costs at least lo x P(hi), and the plan found at hi
settles all times down to its own bottleneck. It also costs at least what its stages work,
W(hi) = least over plans of the sum of price x k x e(k): where units share all there is to do,
cost does not depend on tau, and only this tells. Intervals of tau are cut, those whose bound
exceeds the best cost known are dropped, and the rest shrink to the values that e(k) really
takes: there are finitely many. The least bound still open proves how far the best plan can
be from the optimum at any moment, so a time limit costs the proof, never the plan.

Where limits bind, P(hi) is bounded by multipliers (`_multipliers.py`), stages that no useful
plan of an interval can have are left out of its parts, and what the multipliers leave open
is settled by labels (`_labels.py`) once an interval is too narrow for cutting to help.
"""

from __future__ import annotations

import heapq
import random
import time
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from cotune.bounds import Count, Positive
from cotune.placement.counting import Around, Counting
from cotune.placement.labels import Graphs, beam, graphs, settle
from cotune.placement.multipliers import Market, ascend, used_by
from cotune.placement.paths import Edges, cheapest
from cotune.placement.problems import SLACK, TIE, Cheapest, Objective, Placement, Problem, Run
from cotune.placement.provisioning import provide
from cotune.types import Floats, Ints, Mask

_AT_ONCE = 400_000  # edges x times in one batch of numpy calls
_FIRST_ROUNDS, _FIRST_RADIUS = 20, 0.5  # for the multipliers of the slowest time, of which nothing is known
_RADIUS = 0.1  # for those of parts of an interval, in prices: they begin where the interval's ended
_BEAM, _WIDEST = 20, 320  # labels per cut when a better plan is looked for; twice as many after each failure
_PROBES = 2  # times per round where one is looked for
_NEAR = 1.02  # times the bound: where such a plan is looked for first, as few stages are near enough
_WORTH = 2e-3  # of the price must be to be gained
_FEW = 250  # labels per cut when a proof is tried; twice as many after each failure
_SHARE = 0.5  # of the gap of an interval that its width makes up: with less, cutting does not close it
_EASY = 3e-3  # a gap so small is closed by labels at once
_LABOUR = 2.0  # seconds for labels, per second for bounds and better plans


@dataclass(frozen=True, slots=True)
class ProvenPlacement:
    """The best plan found (None where there is none), whether that is proven, and the least value there could be."""

    placement: Placement | None
    optimal: bool
    bound: float  # of the value, per example
    searched: int  # values of tau
    seconds: float


@dataclass(frozen=True, slots=True)
class Exact:
    """Find the cheapest placement and prove it."""

    time_limit: Positive = 10.0
    rows: Count = 24
    rounds: Count = 6

    def place(self, problem: Problem, rng: random.Random) -> Placement | None:  # noqa: ARG002  # nothing is left to chance
        return self.solve(problem).placement

    def solve(
        self, problem: Problem, objective: Objective | None = None, *, incumbent: Placement | None = None
    ) -> ProvenPlacement:
        """Return the best plan (the cheapest by default) that reaches the throughput, or one known that is as good."""
        return _Bisection(problem, self, Cheapest() if objective is None else objective, incumbent).run()


@dataclass(slots=True, eq=False)
class _Interval:
    """Times lo..hi of the slowest stage, and what is known of the plans that are so fast."""

    bound: float
    lo: float
    hi: float
    price: float  # the least of any of them
    work: float  # the least that their stages cost while they are busy
    multipliers: Floats
    through: Floats  # per edge: the least price of any of them that has it
    critical: Mask  # types that labels found to matter
    width: int  # labels per cut for the next proof

    def __lt__(self, other: _Interval) -> bool:
        return self.bound < other.bound


class _Piece(NamedTuple):
    """A part of an interval: from lo to a time that is looked at."""

    lo: float
    hi: float
    row: int
    of: _Interval


class _Moment(NamedTuple):
    """The stages at one time: the fewest units that each takes, and its seconds with these."""

    edges: Edges
    units: Floats
    seconds: Floats


class _Bisection:
    """One solve: the open intervals and the best plan so far."""

    def __init__(self, problem: Problem, settings: Exact, objective: Objective, incumbent: Placement | None) -> None:
        self.problem = problem
        self.objective = objective
        self.settings = settings
        self.started = time.monotonic()
        self.deadline = self.started + settings.time_limit
        self.market = Market(problem.prices, problem.limits, problem.free)
        self.counting = problem.stages.within(problem.slowest)
        self.best = incumbent
        self.open: list[_Interval] = []
        self.searched = 0
        self.beam = _BEAM
        self.budget = float(problem.prices @ problem.limits) if np.isfinite(problem.limits).all() else np.inf

    def run(self) -> ProvenPlacement:
        edges, free, types = self.counting.edges, self.problem.free, len(self.problem.types)
        lo = float(cheapest(edges, self.counting.fastest[:, None], free=free, join=np.maximum).least[0])
        hi = self.problem.slowest
        if lo <= hi:
            nothing, none = np.zeros(types), np.zeros(types, dtype=np.bool_)
            whole = _Interval(0.0, lo, hi, 0.0, 0.0, nothing, np.zeros(len(edges)), none, _FEW)
            around = self.counting.around(np.array([hi]))
            pieces = [_Piece(lo, float(around.below[0]), 0, whole)]
            self._look(self.counting, np.ones(len(edges), dtype=np.bool_), around, pieces, first=True)
        while self.open and time.monotonic() < self.deadline:
            self._round()
        return self._solution()

    def _round(self) -> None:
        """Cut the most promising intervals, all in one batch of numpy calls."""
        taken: list[_Interval] = []
        while self.open and len(taken) < max(1, self.settings.rows // 2):
            interval = heapq.heappop(self.open)
            if not self._hopeless(interval.bound, interval.lo, interval.hi):
                taken.append(interval)
        if not taken:
            return
        useful = np.logical_or.reduce([interval.through <= self._cutoff(interval.lo) for interval in taken])
        if not useful.any():
            return
        counting = self.counting.only(useful)
        cuts = max(2, min(self.settings.rows, _AT_ONCE // len(counting.edges)) // len(taken))
        shares = np.arange(1, cuts + 1) / cuts
        points = np.array([interval.lo * (interval.hi / interval.lo) ** shares for interval in taken])
        points[:, -1] = [interval.hi for interval in taken]
        around = counting.around(points.ravel())
        pieces: list[_Piece] = []
        for place, interval in enumerate(taken):
            lo = interval.lo
            for row in range(place * cuts, (place + 1) * cuts):
                if lo <= around.below[row]:
                    pieces.append(_Piece(lo, float(around.below[row]), row, interval))
                lo = max(lo, float(around.above[row]))
        if pieces:
            self._look(counting, useful, around, pieces)

    def _look(
        self, counting: Counting, useful: Mask, around: Around, pieces: list[_Piece], *, first: bool = False
    ) -> None:
        """Bound the prices at the upper ends of pieces, look for better plans, and settle what can be settled."""
        begun = time.monotonic()
        self.searched += len(pieces)
        looked = [piece.row for piece in pieces]
        edges, units, seconds = counting.edges, around.units[:, looked], around.seconds[:, looked]
        moments = [_Moment(edges, units[:, row], seconds[:, row]) for row in range(len(pieces))]
        ascent = ascend(
            self.market,
            edges,
            units,
            cutoffs=np.array([self._cutoff(piece.lo) for piece in pieces]),
            start=np.stack([piece.of.multipliers for piece in pieces]),
            radius=_FIRST_RADIUS if first else _RADIUS,
            rounds=_FIRST_ROUNDS if first else self.settings.rounds,
            deadline=self.deadline,
        )
        before = [self._offer(moment, path) for moment, path in zip(moments, ascent.path, strict=True)]
        work = self._work(edges, around.work[:, looked])
        left: list[tuple[int, _Interval]] = []
        for row, piece in reversed(list(enumerate(pieces))):
            price, busy = max(piece.of.price, float(ascent.bound[row])), max(piece.of.work, float(work[row]))
            own = replace(
                piece.of, lo=piece.lo, hi=piece.hi, price=price, work=busy, multipliers=ascent.multipliers[row]
            )
            if self._hopeless(self._least(own), own.lo, own.hi):
                continue
            if ascent.price[row] <= price * (1 + SLACK) and self._leanest(moments[row], own):
                own.hi = min(own.hi, before[row])
                self._push(own)
            else:
                left.append((row, own))
        if left:
            left.sort(key=lambda one: self._least(one[1]))
            rows, intervals = [row for row, _ in left], [interval for _, interval in left]
            known = graphs(self.market, edges, units[:, rows], ascent.multipliers[rows])
            self._narrow(known, intervals, useful)
            self._probe(known, intervals, [moments[row] for row in rows])
            now = time.monotonic()
            self._prove(known, intervals, [moments[row] for row in rows], now + _LABOUR * (now - begun))

    def _narrow(self, known: Graphs, intervals: list[_Interval], useful: Mask) -> None:
        """Note what every plan with an edge costs at least, so that some edges are left out from now on."""
        for place, interval in enumerate(intervals):
            through = np.full_like(interval.through, np.inf)
            through[useful] = np.maximum(interval.through[useful], known.through[:, place])
            interval.through = through

    def _probe(self, known: Graphs, intervals: list[_Interval], moments: list[_Moment]) -> None:
        """Look for better plans where the cost seems least: the sooner they are found, the more is pruned."""
        before = self.best
        values = np.array([self._bound(interval.hi, interval.price) for interval in intervals])
        for place in np.argsort(values)[:_PROBES].tolist():
            interval = intervals[place]
            cutoff = self._cutoff(interval.hi)
            if interval.price > cutoff * (1 - _WORTH):
                break
            # Any plan at all is looked for among all edges.
            for limit in (min(_NEAR * interval.price, cutoff), cutoff):
                self._offer(moments[place], beam(known.at(place, limit), width=self.beam, deadline=self.deadline))
                if self.best is not None:
                    break
        self.beam = _BEAM if self.best is not before else min(2 * self.beam, _WIDEST)

    def _prove(self, known: Graphs, intervals: list[_Interval], moments: list[_Moment], allowed: float) -> None:
        """Settle intervals by labels, those with the least bounds first, or leave them to be cut."""
        for place, interval in enumerate(intervals):
            if self._hopeless(self._least(interval), interval.lo, interval.hi):
                continue
            if self._too_wide(interval) or time.monotonic() > min(allowed, self.deadline):
                self._push(interval)
                continue
            graph = known.at(place, self._cutoff(interval.lo))
            critical = interval.critical if interval.critical.any() else self.market.heaviest(interval.multipliers)
            found = settle(graph, critical, width=interval.width, deadline=self.deadline)
            interval.price = max(interval.price, found.bound)
            if found.proven:
                interval.hi = min(interval.hi, self._offer(moments[place], found.path))
            else:
                interval.critical, interval.width = found.critical, 2 * interval.width
            self._push(interval)

    def _too_wide(self, interval: _Interval) -> bool:
        """Return whether the gap of an interval is mostly its width, so that cutting closes it better than labels."""
        cutoff = self._cutoff(interval.lo)
        if np.isinf(cutoff):
            return False
        gap, width = cutoff - interval.price, cutoff - self._cutoff(interval.hi)
        return width > _SHARE * gap and gap > _EASY * cutoff

    def _leanest(self, moment: _Moment, interval: _Interval) -> bool:
        """Where the cheapest plan at hi may be the best of all, offer that of its price with the fewest units.

        Return whether no other plan of that price matters.
        """
        if not self.objective.ties or self._bound(interval.hi, interval.price) > self._value() * (1 + TIE):
            return True
        edges, units, multipliers = moment.edges, moment.units[:, None], interval.multipliers[None]
        if not multipliers.any():
            weights = self.market.weights(edges, units, multipliers)
            path = cheapest(edges, weights, free=self.problem.free).leanest(0, moment.units)
            if (used_by(edges, path[:, None], units) <= self.problem.limits).all():
                self._offer(moment, path)
                return True
        graph = graphs(self.market, edges, units, multipliers).at(0, interval.price * (1 + TIE))
        found = settle(graph, interval.multipliers > 0, width=interval.width, deadline=self.deadline)
        self._offer(moment, found.path)
        return found.proven

    def _offer(self, moment: _Moment, path: Ints) -> float:
        """Keep a plan if it is better; return the greatest time that it does not settle (no plan settles all)."""
        if not len(path):
            return -np.inf
        slowest = float(moment.seconds[path].max())
        kinds = moment.edges.kind[path]
        price = float(self.problem.prices[kinds] @ moment.units[path])
        if self._bound(slowest, price) <= self._value() * (1 + TIE):
            stages = [moment.edges[edge] for edge in path.tolist()]
            runs: list[Run] = [(*edge, int(count)) for edge, count in zip(stages, moment.units[path], strict=True)]
            self._keep(self.problem.placement(runs))
            self._keep(provide(self.problem, stages))
        return float(np.nextafter(slowest, 0.0))

    def _keep(self, plan: Placement | None) -> None:
        if plan is not None and self.objective.better(plan, self.best):
            self.best = plan

    def _push(self, interval: _Interval) -> None:
        interval.bound = self._least(interval)
        if interval.lo <= interval.hi and np.isfinite(interval.bound) and interval.bound <= self._value() * (1 + TIE):
            heapq.heappush(self.open, interval)

    def _bound(self, lo: float, price: float) -> float:
        return self.objective.bound(lo / self.problem.batch, lo / self.problem.batch * price)

    def _least(self, interval: _Interval) -> float:
        """Return the least value of any plan of an interval."""
        lo, batch = interval.lo, self.problem.batch
        return self.objective.bound(lo / batch, max(lo * interval.price, interval.work) / batch)

    def _work(self, edges: Edges, work: Floats) -> Floats:
        """Return for each time what the stages of any plan that is so fast cost at least while they are busy."""
        weights = self.market.weights(edges, work, np.zeros((work.shape[1], len(self.problem.types))))
        return cheapest(edges, weights, free=self.problem.free).least

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
        units = self.counting.around(np.array([hi])).units
        fewest = cheapest(self.counting.edges, units, free=self.problem.free).least[0]
        slower = lo / self.problem.batch >= self.best.seconds / self.best.batch * (1 - TIE)
        return bool(fewest > self.best.units or (fewest == self.best.units and slower))

    def _solution(self) -> ProvenPlacement:
        value = self._value()
        bounds = [value, *(interval.bound for interval in self.open)]
        optimal = min(bounds) >= value * (1 - TIE)
        return ProvenPlacement(self.best, optimal, min(bounds), self.searched, time.monotonic() - self.started)
