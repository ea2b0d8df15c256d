"""Which nodes a job's GPUs come from, apart from the question who runs: a placer that counts, and one with nodes.

The rules by which nodes are chosen are in `node_rules`. Small jobs that come and go leave holes on many nodes, so that
a job that needs whole nodes is torn apart although enough GPUs are free. Jobs that hold a part of one node, and to whom
a restart does no harm, are then moved into holes of other nodes, as few GPUs as possible (`emptied`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cotune.cluster.node_rules import RULES, WITHIN_RACKS, Taking, within_racks
from cotune.cluster.policy import Active, Nodes
from cotune.errors import UsageError, suggestion
from cotune.types import Cluster, Config, Device, Ints

Wanted = tuple[Active, Config]
Patient = Callable[[Active], bool]
Placeable = tuple[Sequence[Wanted], Sequence[Wanted]]  # who starts, and who is moved to other nodes


@dataclass(frozen=True, slots=True)
class Tenant:
    """A job on a node: how many GPUs it holds there, and whether it may be moved elsewhere."""

    active: Active
    gpus: int
    movable: bool


class Count:
    """GPUs without nodes: everybody fits, and nobody holds any."""

    refuses = False  # whether a job may have to wait although enough GPUs are free

    def placeable(
        self,
        wanted: Sequence[Wanted],
        leaving: Sequence[Active],  # noqa: ARG002  # all fit
        patient: Patient,  # noqa: ARG002  # there are no nodes
    ) -> Placeable:
        return wanted, ()

    def take(self, active: Active) -> None:
        """Do nothing: there are no nodes."""

    def release(self, active: Active) -> None:
        """Do nothing: there are no nodes."""

    def held(self, active: Active) -> Taking:  # noqa: ARG002  # there are no nodes
        return []


class OnNodes:
    """Nodes with some free GPUs each, filled by a rule."""

    def __init__(self, rule: str, cluster: Cluster, sizes: Ints | None = None) -> None:
        self._rule = RULES[rule]
        self._racks = {device.name: _racks(device) for device in cluster.devices if rule in WITHIN_RACKS}
        self.refuses = rule == "skew"
        self.free = {device.name: _nodes(device.count, device.per_node) for device in cluster.devices}
        self._sizes_of = {name: free.copy() for name, free in self.free.items()}
        self._per_node = {device.name: device.per_node or 1 for device in cluster.devices}
        self._sizes = np.array([1]) if sizes is None else sizes
        self._taken: dict[int, tuple[str, Taking]] = {}
        self._holding: dict[int, Active] = {}
        self._closed: dict[tuple[str, int], int] = {}  # nodes that are down, and their GPUs that are not held

    def sizes(self, device: str) -> list[int]:
        """Return how many GPUs each node of a device has."""
        return [int(size) for size in self._sizes_of[device]]

    def placeable(self, wanted: Sequence[Wanted], leaving: Sequence[Active], patient: Patient) -> Placeable:
        """Return those of the wanted starts for which there will be nodes once others have left, and who is moved.

        Patient jobs that hold a part of a node are moved where another would stand on more nodes than could hold it.
        Where that does not help a patient job that did not run rather waits.
        """
        ran = {active.number for active in leaving}
        waits = {active.number for active, _ in wanted if active.number not in ran and patient(active)}
        if not self.refuses and not (wanted and any(map(patient, self._holding.values()))) and not waits:
            return wanted, ()
        trial = {name: free.copy() for name, free in self.free.items()}
        for active in leaving:
            device, held = self._taken[active.number]
            _give_back(trial[device], held)
        tenants = self._tenants(ran, patient)
        placed: list[Wanted] = []
        moved: list[Wanted] = []
        for active, config in wanted:
            free = trial[config.device]
            taking: Taking | None = self._fill(free, active, config)
            if taking and self._torn(taking, config) and config.device in tenants:
                _give_back(free, taking)
                taking = self._whole(active, config, free, tenants[config.device], moved)
                if taking is None and active.number not in waits:
                    taking = self._fill(free, active, config)
            if taking:
                placed.append((active, config))
        return placed, moved

    def _whole(
        self, active: Active, config: Config, free: Ints, tenants: dict[int, list[Tenant]], moved: list[Wanted]
    ) -> Taking | None:
        """Return whole nodes for a job, once some small ones are moved to other nodes; None if that cannot be done."""
        leaving = emptied(free, self._per_node[config.device], config.units, tenants)
        if leaving is None:
            return None
        for one in leaving:
            ((node, _),) = taken = self._taken[one.number][1]
            _give_back(free, taken)
            tenants[node] = [tenant for tenant in tenants[node] if tenant.active is not one]
        taking = self._fill(free, active, config)
        for one in leaving:
            assert one.config is not None
            self._fill(free, one, one.config)
            moved.append((one, one.config))
        return taking

    def _tenants(self, ran: set[int], patient: Patient) -> dict[str, dict[int, list[Tenant]]]:
        """Return who holds what on each node and stays there, and who of them may be moved: small, patient ones."""
        found: dict[str, dict[int, list[Tenant]]] = {}
        for number, (device, taking) in self._taken.items():
            active = self._holding[number]
            movable = len(taking) == 1 and taking[0][1] < self._per_node[device] and patient(active)
            for node, gpus in taking if number not in ran else ():
                found.setdefault(device, {}).setdefault(node, []).append(Tenant(active, gpus, movable))
        return found

    def _torn(self, taking: Taking, config: Config) -> bool:
        """Return whether a job would stand on more nodes than could hold it."""
        return len(taking) > -(-config.units // self._per_node[config.device])

    def take(self, active: Active) -> None:
        """Give a job its nodes."""
        config = active.config
        assert config is not None
        taking = self._fill(self.free[config.device], active, config)
        assert taking is not None
        self._taken[active.number] = config.device, taking
        self._holding[active.number] = active
        racks = self._racks.get(config.device)
        across = 1 if racks is None else len(np.unique(racks[[node for node, _ in taking]]))
        active.nodes = Nodes(tuple(gpus for _, gpus in taking), across)

    def release(self, active: Active) -> None:
        """Take a job's nodes back."""
        if active.number in self._taken:
            device, taking = self._taken.pop(active.number)
            del self._holding[active.number]
            for node, gpus in taking:
                if (device, node) in self._closed:
                    self._closed[device, node] += gpus
                else:
                    self.free[device][node] += gpus

    def close(self, device: str, node: int) -> list[Active]:
        """Give nobody this node any more; return who stands on it."""
        self._closed[device, node] = int(self.free[device][node])
        self.free[device][node] = 0
        return [
            self._holding[number]
            for number, (kind, taking) in self._taken.items()
            if kind == device and any(at == node for at, _ in taking)
        ]

    def open(self, device: str, node: int) -> None:
        """Give this node again; what is still held of it comes back when it is released."""
        self.free[device][node] = self._closed.pop((device, node))

    def held(self, active: Active) -> Taking:
        """Return the nodes a job holds, and how many GPUs on each."""
        return self._taken[active.number][1] if active.number in self._taken else []

    def _fill(self, free: Ints, active: Active, config: Config) -> Taking | None:
        gpus, racks = config.units, self._racks.get(config.device)
        if racks is None:
            taking = self._rule(free, gpus, active.job.skewed, self._sizes)
        else:
            taking = within_racks(self._rule, free, gpus, racks, self._sizes)
        for node, gpus in taking or ():
            free[node] -= gpus
        return taking


def _give_back(free: Ints, taking: Taking) -> None:
    for node, gpus in taking:
        free[node] += gpus


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


Placer = Count | OnNodes


def placer(rule: str | None, cluster: Cluster, sizes: Ints | None = None) -> Placer:
    """Return a placer by name; without a name it counts, unless the cluster has nodes."""
    nodes = all(device.per_node for device in cluster.devices)
    if rule == "count" or (rule is None and not nodes):
        return Count()
    if rule is not None and rule not in RULES:
        raise UsageError(f"no placement named {rule!r}; there are count, {', '.join(RULES)}{suggestion(rule, RULES)}")
    if not nodes:
        raise UsageError(f"placement {rule} needs nodes: a cluster 13x8 (nodes x GPUs), or per_node in its file")
    return OnNodes(rule or "consolidate", cluster, sizes)


def _nodes(count: int | None, per_node: int | None) -> Ints:
    total, size = count or 0, per_node or 1
    sizes = [size] * (total // size) + ([total % size] if total % size else [])
    return np.array(sizes, dtype=np.int64)


def _racks(device: Device) -> Ints | None:
    """Return the rack of each node, or None where all stand together."""
    nodes = len(_nodes(device.count, device.per_node))
    if device.nodes_per_rack is None or nodes <= device.nodes_per_rack:
        return None
    return np.arange(nodes) // device.nodes_per_rack
