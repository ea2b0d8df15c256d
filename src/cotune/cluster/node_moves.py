"""Making room on whole nodes: which small jobs to move so that a large one need not stand on parts of several.

Small jobs that come and go leave holes on many nodes. A job that needs whole nodes is then torn apart although enough
GPUs are free. Jobs that hold a part of one node, and to whom a restart does no harm, are moved into holes of other
nodes, as few GPUs as possible.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cotune.cluster.policy import Active
from cotune.types import Ints


@dataclass(frozen=True, slots=True)
class Tenant:
    """A job on a node: how many GPUs it holds there, and whether it may be moved elsewhere."""

    active: Active
    gpus: int
    movable: bool


def emptied(free: Ints, per_node: int, gpus: int, tenants: Mapping[int, Sequence[Tenant]]) -> list[Active] | None:
    """Return whom to move so that a job finds whole nodes, or one that holds it; None if that cannot be done."""
    nodes, part = (gpus // per_node, 0) if gpus >= per_node else (1, gpus)
    asked = part or per_node
    moves: list[tuple[int, int, list[Tenant]]] = []
    for node in range(len(free)):
        leaving = _fewest(int(asked - free[node]), tenants.get(node, ()))
        if leaving is not None:
            moves.append((sum(one.gpus for one in leaving), node, leaving))
    moves = sorted(moves, key=lambda move: move[:2])[:nodes]
    if len(moves) < nodes:
        return None
    holes = np.array(free)
    for moved, node, _ in moves:
        holes[node] += moved - asked
    moving = sorted((one for *_, leaving in moves for one in leaving), key=lambda one: -one.gpus)
    for one in moving:
        fitting = np.flatnonzero(holes >= one.gpus)
        if not len(fitting):
            return None
        holes[fitting[np.argmin(holes[fitting])]] -= one.gpus
    return [one.active for one in moving]


def _fewest(missing: int, tenants: Sequence[Tenant]) -> list[Tenant] | None:
    """Return the smallest movable tenants that hold as many GPUs as are missing, or None if they do not."""
    leaving: list[Tenant] = []
    for one in sorted((one for one in tenants if one.movable), key=lambda one: (one.gpus, one.active.number)):
        if missing <= 0:
            break
        leaving.append(one)
        missing -= one.gpus
    return leaving if missing <= 0 else None
