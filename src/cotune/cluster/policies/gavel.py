"""Max-min fairness over device types (Gavel): how much of its time should each job spend on each type?

    maximise z    such that   z <= sum_t thr[j,t] X[j,t] / (w[j] * thr[j] in an equal share)
                              sum_t X[j,t] <= 1,   sum_j gpus[j] X[j,t] <= capacity[t],   0 <= X

thr is the speed of a job on a type, w its weight. Each round runs the jobs that have had
least of what X promises them, X / time received, as long as they fit.

Reference: Narayanan et al., Heterogeneity-aware cluster scheduling policies (Gavel), OSDI 2020.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cotune.bounds import Interval
from cotune.cluster.ordered import asked_on
from cotune.cluster.policy import COUNTED, Active, capacity
from cotune.cluster.solver import quietly
from cotune.types import Cluster, Config, Floats


@dataclass(frozen=True)
class Gavel:
    """Max-min fair shares of time on each device type, by a linear programme, in rounds."""

    interval: Interval | None = 360.0

    def allocate(self, active: Sequence[Active], cluster: Cluster) -> Mapping[str, Config]:
        there = capacity(cluster)
        if not active or not any(there.values()):
            return {}
        kinds = list(there)
        share = fair_shares(
            np.array([[speed(job, kind) for kind in kinds] for job in active]),
            np.array([job.job.gpus for job in active], dtype=np.float64),
            np.array([job.job.weight for job in active]),
            np.array([there[kind] for kind in kinds], dtype=np.float64),
        )
        received = np.array([job.executed / max(job.age, 1.0) for job in active])
        urgency = share / (received[:, None] + 1e-3)
        given: dict[str, Config] = {}
        for place in np.argsort(-urgency, axis=None, kind="stable"):
            row, column = divmod(int(place), len(kinds))
            job, kind = active[row].job, kinds[column]
            if share[row, column] > 1e-9 and job.name not in given and there[kind] >= job.gpus:
                config = asked_on(active[row], kind)
                assert config is not None  # its speed there is not 0
                given[job.name] = config
                there[kind] -= job.gpus
        for waiting in active:  # what the shares leave idle
            kind = max(kinds, key=lambda kind: (speed(waiting, kind) > 0, there[kind]))
            idle = asked_on(waiting, kind)
            if waiting.job.name not in given and there[kind] >= waiting.job.gpus and idle is not None:
                given[waiting.job.name] = idle
                there[kind] -= waiting.job.gpus
        return given


def speed(active: Active, kind: str) -> float:
    """Return the believed speed of a job on a kind of device, on as many as it asked for; 0 where it cannot run."""
    config = asked_on(active, kind)
    if config is None:
        return 0.0
    return 1.0 if active.belief is None else active.belief.rate(config, COUNTED, active.done)


def fair_shares(speeds: Floats, gpus: Floats, weights: Floats, there: Floats) -> Floats:
    """Return the share of its time that each job (rows) should spend on each type (columns)."""
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
