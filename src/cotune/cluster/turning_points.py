"""When things change for one job: its promise begins, or another size becomes the one to run in.

    steps down    when one size below would still be in time, x seconds from now:   b - x * b / s + restart = left - x
    steps up      when all that was promised is needed to the end:                  spare - x * (1 - p / s) = 0

with b, p and s the seconds to the end one size below, in what was promised and in what the job runs in.
"""

from __future__ import annotations

import math

from cotune.cluster.policy import Active, Promise
from cotune.cluster.promises import MOMENT, Standing
from cotune.cluster.prospects import Ladder


def steps_down(active: Active, ladder: Ladder, slack: float) -> float:
    """Return the seconds until a job that goes on as it is would be in time one step below, which wastes less."""
    row = ladder.held
    if row <= 0 or ladder.cost(row) <= (1.0 + slack) * ladder.cost(row - 1):
        return math.inf
    below = ladder.sure[row - 1]
    short = below + active.restart - (active.deadline_left - MOMENT)
    return short / (below / ladder.sure[row] - 1.0) if short > 0 and below > ladder.sure[row] > 0 else math.inf


def steps_up(active: Active, promise: Promise, ladder: Ladder) -> float:
    """Return the seconds until a job that goes on in less than it was promised needs it all; 0 if that is unknown."""
    row = ladder.row(promise.units[-1])
    if len(promise.units) != 2 or promise.units[0] or not 0 <= ladder.held < row:
        return 0.0
    spare = promise.ends[1] - active.restart - ladder.sure[row] - active.synced
    waits = max(active.ready - active.synced, 0.0)
    if spare <= waits:
        return spare
    return waits + (spare - waits) / (1.0 - ladder.sure[row] / ladder.sure[ladder.held])


def begin(job: Active) -> float:
    """Return when the promise of a job begins; never for one that is late."""
    promise = job.promise
    if promise is None or promise.ends[-1] <= job.synced:
        return math.inf
    return promise.ends[0] if promise.units[0] == 0 else job.synced


def standing(job: Active, ladder: Ladder) -> Standing:
    """Return where a job stands on the configs of a device."""
    return Standing(job.restart, ladder.held, start_seconds(job, ladder, ladder.held))


def start_seconds(job: Active, ladder: Ladder, row: int) -> float:
    """Return the seconds until a job is at work in a config."""
    return max(job.ready - job.synced, 0.0) if row == ladder.held >= 0 else job.restart
