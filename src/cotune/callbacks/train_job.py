"""The ETA of a training that nobody but Kubeflow started: a callback counts down by itself, and tells its TrainJob.

    left = pace x (1 - share)                pace: seconds for the whole, the mean over blocks of equal progress
    sd^2 = s^2 (1 / blocks + 1 / blocks to come) + d^2                             left x exp(+-1.28 sd)

s is the scatter of the blocks, d how far their second half is from the first, in logarithms; each is drawn to what is
usual while little was seen. Under cotune the run tells it (`project/run.py`), since that also knows the plan; outside a
TrainJob nobody does. Only the standard library is used: this runs in the script's own Python.
"""

from __future__ import annotations

import math
import statistics
import time
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import SupportsFloat

from cotune.callbacks import is_heard
from cotune.worker.kubeflow import TrainJobStatus

_WARM_UP = 0.2  # of what was done, which also pays for caching
_BLOCKS = 12
_USUAL, _USUAL_WEIGHT = 0.06, 3.0  # scatter and drift while little was seen, as `predict/countdown.py` has them
_Z90 = 1.2815515655446004  # deviations from the median to the 90th percentile
_MOST_MARKS = 512


@dataclass
class TrainJobCountdown:
    """Tells the TrainJob of this process how far its training is, and what is left."""

    status: TrainJobStatus
    _began: float = field(default_factory=time.monotonic)
    _marks: list[tuple[float, float]] = field(default_factory=list)  # share done, seconds

    @classmethod
    def here(cls, *, leads: bool) -> TrainJobCountdown | None:
        """Return one where this process leads a training inside a TrainJob without cotune around it."""
        status = TrainJobStatus.of_environment() if leads and not is_heard() else None
        return None if status is None else cls(status)

    def see(self, share: float, metrics: Mapping[str, SupportsFloat] | None = None) -> None:
        """Take in the share of all steps that are done, and what was evaluated there, if anything was."""
        if not self._marks or share > self._marks[-1][0]:
            self._marks.append((share, time.monotonic() - self._began))
            if len(self._marks) > _MOST_MARKS:
                self._marks = [self._marks[0], *self._marks[1::2]]
        self.status.tell(share, remaining(self._marks), {name: float(one) for name, one in (metrics or {}).items()})

    def end(self) -> None:
        """Tell that the training has ended."""
        self.status.end({})


def remaining(marks: list[tuple[float, float]]) -> tuple[float, float, float] | None:
    """Return the seconds left after marks (share done, seconds): their 10th, 50th and 90th percentile, where known."""
    if len(marks) < 3:
        return None
    shares = [share for share, _ in marks]
    first = shares[0] + _WARM_UP * (shares[-1] - shares[0])
    count = min(_BLOCKS, len(shares) - bisect_left(shares, first))
    edges = [first + (shares[-1] - first) * part / count for part in range(count + 1)]
    at = [_at(marks, shares, edge) for edge in edges]
    width = (shares[-1] - first) / count
    paces = [(later - earlier) / width for earlier, later in pairwise(at)]
    pace, more = statistics.fmean(paces), max(1.0 - shares[-1], 0.0)
    if pace <= 0:
        return None
    usual = _USUAL_WEIGHT * _USUAL**2
    scatter = (sum((one / pace - 1) ** 2 for one in paces) + usual) / (count - 1 + _USUAL_WEIGHT)
    drift = (_drift(paces) ** 2 + usual) / (1 + _USUAL_WEIGHT)
    sd = math.sqrt(scatter * (1 / count + 1 / max(more / width, 0.5)) + drift)
    usual_left, factor = pace * more, math.exp(_Z90 * sd)
    return usual_left / factor, usual_left, usual_left * factor


def _at(marks: list[tuple[float, float]], shares: list[float], share: float) -> float:
    """Return the seconds at a share, on the line between the marks around it."""
    place = min(max(bisect_left(shares, share), 1), len(marks) - 1)
    (before, early), (after, late) = marks[place - 1], marks[place]
    return early + (late - early) * (share - before) / (after - before)


def _drift(paces: list[float]) -> float:
    """Return ln(pace of the second half / pace of the first), none where there is one block."""
    half = len(paces) // 2
    if half == 0:
        return 0.0
    before, after = statistics.fmean(paces[:half]), statistics.fmean(paces[half:])
    return math.log(after / before) if before > 0 and after > 0 else 0.0
