"""LB-BSP: batches in proportion to speed, so that unequal workers finish a step together.

Worker i takes a_i + c_i x_i seconds for x_i examples. With the X examples of a step fixed, all
finish at the same time T when

    T = (X + sum a_i / c_i) / sum 1 / c_i        x_i = (T - a_i) / c_i

A share outside its bounds is set to the bound, its worker taken out, and the rest solved again;
shares are rounded by largest remainder, so that they add up to X exactly. The gradient of a step
is weighted by x_i / X, so it is the one of a single worker with the whole batch.

Speeds are predicted from recent steps (the median of the last three looks), and shares change
only when the straggler effect (max t - min t) / mean t passes a threshold.

Reference: Chen et al., Semi-dynamic load balancing (LB-BSP), SoCC 2020; its poster, SoCC 2018.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean, median

THRESHOLD = 0.05
_RECENT = 3


@dataclass(frozen=True, slots=True)
class Speed:
    """Seconds of a worker for a batch: `fixed` + `each` x examples; it takes at least `least`, at most `most`."""

    fixed: float
    each: float
    least: int = 1
    most: float = math.inf

    def __post_init__(self) -> None:
        if not (self.fixed >= 0 and self.each > 0 and 0 <= self.least <= self.most):
            raise ValueError(f"no speed of a worker: {self}")

    def seconds(self, examples: float) -> float:
        return self.fixed + self.each * examples


def shares(total: int, speeds: Sequence[Speed]) -> list[int]:
    """Return how many of `total` examples each worker takes, so that all finish together."""
    if not sum(speed.least for speed in speeds) <= total <= sum(speed.most for speed in speeds):
        raise ValueError(f"{total} examples do not fit the bounds of the workers: {list(speeds)}")
    return _rounded(_together(float(total), speeds), total, speeds)


def _together(total: float, speeds: Sequence[Speed]) -> list[float]:
    """Return the shares as real numbers."""
    exact = [0.0] * len(speeds)
    free = set(range(len(speeds)))
    while free:
        left = total - sum(exact[i] for i in range(len(speeds)) if i not in free)
        rate = sum(1 / speeds[i].each for i in free)
        end = (left + sum(speeds[i].fixed / speeds[i].each for i in free)) / rate
        wanted = {i: (end - speeds[i].fixed) / speeds[i].each for i in free}
        low = {i for i in free if wanted[i] < speeds[i].least}
        high = {i for i in free if wanted[i] > speeds[i].most}
        exact = [wanted.get(i, exact[i]) for i in range(len(speeds))]
        if not low and not high:
            break
        # Clamping one side moves the other: fix the side that is further out, then look again.
        under = sum(speeds[i].least - wanted[i] for i in low)
        over = sum(wanted[i] - speeds[i].most for i in high)
        for i in low if under >= over else high:
            exact[i] = float(speeds[i].least) if under >= over else speeds[i].most
            free.discard(i)
    return exact


def _rounded(exact: Sequence[float], total: int, speeds: Sequence[Speed]) -> list[int]:
    """Return whole shares of the same sum: the largest remainders are rounded up."""
    whole = [math.floor(share + 1e-9) for share in exact]
    order = sorted(range(len(exact)), key=lambda i: (whole[i] - exact[i], i))
    left = total - sum(whole)
    while left:  # more than one round only where a bound keeps a share from growing
        for i in order:
            if left and whole[i] + 1 <= speeds[i].most:
                whole[i] += 1
                left -= 1
    return whole


def straggling(seconds: Sequence[float]) -> float:
    """Return the straggler effect: how far the times of a step lie apart, in parts of their mean."""
    return (max(seconds) - min(seconds)) / mean(seconds)


class Balancer:
    """The shares of some workers as they are now, from how long recent steps took each of them."""

    def __init__(self, total: int, workers: int, *, most: float = math.inf, threshold: float = THRESHOLD) -> None:
        self.total = total
        self.shares = [total // workers + (rank < total % workers) for rank in range(workers)]
        self.changes = 0
        self._most = most
        self._threshold = threshold
        self._seen: list[deque[tuple[int, float]]] = [deque(maxlen=_RECENT) for _ in range(workers)]
        self._fixed = [0.0] * workers

    def look(self, seconds: Sequence[float]) -> bool:
        """Take in how long a step with the present shares took each worker; return whether shares have changed."""
        for rank, took in enumerate(seconds):
            self._note(rank, took)
        expected = [self._speed(rank).seconds(share) for rank, share in enumerate(self.shares)]
        if straggling(expected) <= self._threshold:
            return False
        better = shares(self.total, [self._speed(rank) for rank in range(len(self.shares))])
        changed = better != self.shares
        self.changes += changed
        self.shares[:] = better  # whoever holds the list sees the change
        return changed

    def _note(self, rank: int, took: float) -> None:
        """Remember a time; two batches of different size tell the fixed part of it."""
        share, seen = self.shares[rank], self._seen[rank]
        if seen and seen[-1][0] != share:
            before, then = seen[-1][0], median(taken for size, taken in seen if size == seen[-1][0])
            each = (took - then) / (share - before)
            # Only a believable slope: not negative, nor more than the whole time.
            if each > 0:
                self._fixed[rank] = min(max(took - each * share, 0.0), 0.5 * took)
            seen.clear()
        seen.append((share, took))

    def _speed(self, rank: int) -> Speed:
        share, took = self.shares[rank], median(taken for _, taken in self._seen[rank])
        fixed = min(self._fixed[rank], 0.5 * took)
        return Speed(fixed, max((took - fixed) / max(share, 1), 1e-12), most=self._most)
