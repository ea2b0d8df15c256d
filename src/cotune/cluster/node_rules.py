"""Rules by which nodes are chosen for a job's GPUs.

count          GPUs are only counted; the default of a plain number
consolidate    as few nodes as possible, the fullest that fit first
emptiest       the node with the most free GPUs first (Pollux's baselines)
spread         one GPU at a time on the emptiest node
skew           skewed jobs on as few nodes as could hold them or not at all, others anywhere (Tiresias)
even           the same number on each of as few nodes as possible (Optimus)
fragmentation  where the rest stays most useful to jobs of the usual sizes (FGD)

Where nodes stand in racks, all but spread and skew keep a job within one rack if one has room: the rack in
which it needs the fewest nodes, the fullest of those. If none has, it gets as few racks as possible.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np

from cotune.types import Floats, Ints

Taking = list[tuple[int, int]]  # node, GPUs
Rule = Callable[[Ints, int, bool, Ints], Taking | None]  # free, GPUs, skewed, usual sizes


def within_racks(rule: Rule, free: Ints, gpus: int, racks: Ints, sizes: Ints) -> Taking:
    """Return what a rule takes in one rack, or in as few as possible: whole ones, and the rest in the fullest."""
    room = np.bincount(racks, free).astype(np.int64)
    taking: Taking = []
    while gpus > room.max():
        rack = int(np.argmax(room))
        taking += [(int(node), int(free[node])) for node in np.flatnonzero((racks == rack) & (free > 0))]
        gpus -= int(room[rack])
        room[rack] = 0
    tries = []
    for one in np.flatnonzero(room >= gpus).tolist():
        members = np.flatnonzero(racks == one)
        found = rule(free[members], gpus, False, sizes)
        if found is not None:
            tries.append((len(found), int(room[one]), [(int(members[node]), count) for node, count in found]))
    return taking + min(tries)[2]


def _fill_in_order(free: Ints, gpus: int, order: Ints) -> Taking:
    taking: Taking = []
    for node in order:
        if gpus == 0:
            break
        if here := min(int(free[node]), gpus):
            taking.append((int(node), here))
            gpus -= here
    return taking


def _consolidate(free: Ints, gpus: int, skewed: bool, sizes: Ints) -> Taking:  # noqa: ARG001  # as every rule is asked
    taking: Taking = []
    while gpus:
        room = np.where(free >= gpus, free, np.iinfo(np.int64).max)
        for node, here in taking:
            room[node] = np.iinfo(np.int64).max if free[node] - here < gpus else free[node] - here
        best = int(np.argmin(room))
        if room[best] == np.iinfo(np.int64).max:
            taken = {node for node, _ in taking}
            best = next(int(node) for node in np.argsort(-free, kind="stable") if int(node) not in taken)
        here = min(int(free[best]), gpus)
        taking.append((best, here))
        gpus -= here
    return taking


def _emptiest(free: Ints, gpus: int, skewed: bool, sizes: Ints) -> Taking:  # noqa: ARG001  # as every rule is asked
    return _fill_in_order(free, gpus, _largest(free, gpus))


def _largest(free: Ints, count: int) -> Ints:
    """Return the nodes with the most free GPUs, so many at most, without sorting all nodes."""
    count = min(count, len(free))
    emptiest = np.flatnonzero(free == free.max())
    if len(emptiest) >= count:
        return emptiest[:count]
    least = np.partition(free, len(free) - count)[len(free) - count]
    above = np.flatnonzero(free > least)
    level = np.flatnonzero(free == least)[: count - len(above)]
    nodes = np.concatenate([above, level])
    return nodes[np.lexsort((nodes, -free[nodes]))]


def _spread(free: Ints, gpus: int, skewed: bool, sizes: Ints) -> Taking:  # noqa: ARG001  # as every rule is asked
    left = free.copy()
    taken: Counter[int] = Counter()
    for _ in range(gpus):
        node = int(np.argmax(left))
        left[node] -= 1
        taken[node] += 1
    return sorted(taken.items())


def _skew(free: Ints, gpus: int, skewed: bool, sizes: Ints) -> Taking | None:
    if not skewed:
        return _fill_in_order(free, gpus, np.argsort(free, kind="stable"))
    fewest = -(-gpus // max(int(free.max(initial=1)), int(sizes.max(initial=1))))
    taking = _consolidate(free, gpus, skewed, sizes)
    return taking if len(taking) <= fewest else None


def _even(free: Ints, gpus: int, skewed: bool, sizes: Ints) -> Taking:
    order = _largest(free, gpus)
    room = np.cumsum(free[order])
    for nodes in range(int(np.searchsorted(room, gpus)) + 1, len(order) + 1):
        share, extra = divmod(gpus, nodes)
        wanted = share + (np.arange(nodes) < extra)
        if (free[order[:nodes]] >= wanted).all():
            return list(zip(order[:nodes].tolist(), wanted.tolist(), strict=True))
    return _emptiest(free, gpus, skewed, sizes)


def _fragmentation(free: Ints, gpus: int, skewed: bool, sizes: Ints) -> Taking:  # noqa: ARG001  # as every rule is asked
    taking: Taking = []
    left = free.copy()
    while gpus:
        here = np.minimum(left, gpus)
        harm = wasted(left - here, sizes) - wasted(left, sizes) + np.where(here < gpus, 1e6 * (gpus - here), 0.0)
        node = int(np.argmin(np.where(here > 0, harm, np.inf)))
        taking.append((node, int(here[node])))
        gpus -= int(here[node])
        left[node] -= int(here[node])
    return taking


def wasted(free: Ints, sizes: Ints) -> Floats:
    """Return the free GPUs of each node that a job of a usual size, drawn at random, cannot use."""
    share, counts = np.unique(sizes, return_counts=True)
    left = np.where(free[:, None] < share[None, :], free[:, None], free[:, None] % share[None, :])
    return np.asarray(left @ (counts / counts.sum()), dtype=np.float64)


WITHIN_RACKS = ("consolidate", "emptiest", "even", "fragmentation")
RULES: dict[str, Rule] = {
    "consolidate": _consolidate,
    "emptiest": _emptiest,
    "spread": _spread,
    "skew": _skew,
    "even": _even,
    "fragmentation": _fragmentation,
}
