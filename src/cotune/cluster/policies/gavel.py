"""Max-min fairness over device types (Gavel): how much of its time should each job spend on each type?

    maximise z    such that   z <= sum_t thr[j,t] X[j,t] / (w[j] * thr[j] in an equal share)
                              sum_t X[j,t] <= 1,   sum_j gpus[j] X[j,t] <= capacity[t],   0 <= X

thr is the speed of a job on a type, w its weight. Each round runs the jobs that have had
least of what X promises them, X / time received, as long as they fit.

Reference: Narayanan et al., Heterogeneity-aware cluster scheduling policies (Gavel), OSDI 2020.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cotune.bounds import Interval
from cotune.cluster.ordered import asked_on
from cotune.cluster.policy import COUNTED, Active, capacity
from cotune.types import Cluster, Config, Floats, Mask

_ONE_AT_A_TIME = threading.Lock()
_STDOUT = 1


@dataclass(frozen=True)
class Gavel:
    """Max-min fair shares of time on each device type, by a linear programme, in rounds."""

    interval: Interval | None = 360.0

    def allocate(self, active: Sequence[Active], cluster: Cluster) -> Mapping[str, Config]:
        there = capacity(cluster)
        if not active or not any(there.values()):
            return {}
        kinds = list(there)
        asked = [[asked_on(job, kind) for kind in kinds] for job in active]
        share = fair_shares(
            np.array([[_speed(job, config) for config in row] for job, row in zip(active, asked, strict=True)]),
            np.array([job.job.gpus for job in active], dtype=np.float64),
            np.array([job.job.weight for job in active]),
            np.array([there[kind] for kind in kinds], dtype=np.float64),
        )
        received = np.array([job.executed / max(job.age, 1.0) for job in active])
        urgency = share / (received[:, None] + 1e-3)
        given: dict[str, Config] = {}
        for place in np.argsort(-urgency, axis=None, kind="stable").tolist():
            if not any(there.values()):
                break
            row, column = divmod(place, len(kinds))
            job, config = active[row].job, asked[row][column]
            fits = config is not None and there[config.device] >= job.gpus
            if config is not None and fits and share[row, column] > 1e-9 and job.name not in given:
                given[job.name] = config
                there[config.device] -= job.gpus
        for waiting, row_asked in zip(active, asked, strict=True):  # what the shares leave idle
            if not any(there.values()):
                break
            idle = max(row_asked, key=lambda one: (one is not None, 0 if one is None else there[one.device]))
            if idle is not None and waiting.job.name not in given and there[idle.device] >= waiting.job.gpus:
                given[waiting.job.name] = idle
                there[idle.device] -= waiting.job.gpus
        return given


def _speed(active: Active, config: Config | None) -> float:
    """Return the believed speed of a job in a config; 0 where there is none."""
    if config is None:
        return 0.0
    return 1.0 if active.belief is None else active.belief.rate(config, COUNTED, active.done)


def fair_shares(speeds: Floats, gpus: Floats, weights: Floats, there: Floats) -> Floats:
    """Return the share of its time that each job (rows) should spend on each type (columns)."""
    if speeds.shape[1] == 1:
        return _of_one_kind(speeds[:, 0] > 0, gpus, weights, float(there[0]))[:, None]
    return _by_programme(speeds, gpus, weights, there)


def _of_one_kind(runs: Mask, gpus: Floats, weights: Floats, there: float) -> Floats:
    """Return the same on one type of device, where nothing is left to choose: shares as the weights are, up to all.

    What that leaves goes to those who need the fewest GPUs for their weight, as the programme's touch of speed has it.
    """
    wanted = np.where(runs, weights, 0.0)
    needs = float(gpus @ wanted)
    if not needs:
        return wanted
    shares = wanted * min(1.0 / float(wanted.max()), there / needs)
    left = there - float(gpus @ shares)
    for row in np.argsort(gpus * weights, kind="stable").tolist() if left > 1e-9 and (shares[runs] < 1.0).any() else ():
        more = min(1.0 - shares[row], left / gpus[row]) if runs[row] else 0.0
        shares[row] += more
        left -= more * gpus[row]
    return shares


def _by_programme(speeds: Floats, gpus: Floats, weights: Floats, there: Floats) -> Floats:
    from scipy.optimize import linprog
    from scipy.sparse import coo_array

    jobs, kinds = speeds.shape
    equal = (speeds * (there / there.sum())[None, :]).sum(axis=1)
    scaled = speeds / (weights * np.where(equal > 0, equal, 1.0))[:, None]
    cell = np.arange(jobs * kinds)
    row, column = np.divmod(cell, kinds)
    last = jobs * kinds
    rows = np.concatenate([row, np.arange(jobs), jobs + row, 2 * jobs + column])
    columns = np.concatenate([cell, np.full(jobs, last), cell, cell])
    values = np.concatenate([-scaled.ravel(), np.ones(jobs), np.ones(last), gpus[row]])
    limits = np.concatenate([np.zeros(jobs), np.ones(jobs), there])
    matrix = coo_array((values, (rows, columns)), shape=(2 * jobs + kinds, last + 1)).tocsr()
    # A touch of total speed makes use of what max-min leaves undecided.
    objective = np.concatenate([-1e-4 * scaled.ravel() / jobs, [-1.0]])
    with quietly():
        found = linprog(objective, A_ub=matrix, b_ub=limits, bounds=(0, None), method="highs-ipm")
    if not found.success:
        raise RuntimeError(f"the linear programme of gavel failed: {found.message}")
    shares: Floats = found.x[:last].reshape(jobs, kinds)
    return shares


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    """Let nothing that a library's native code prints reach standard output.

    HiGHS writes debug lines of its own there, which would stand in the middle of a JSON document.
    """
    with _ONE_AT_A_TIME:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
        before, nothing = os.dup(_STDOUT), os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, _STDOUT)
        try:
            yield
        finally:
            os.dup2(before, _STDOUT)
            os.close(before)
            os.close(nothing)
