"""What one worker asks of a Ray cluster, by the name of its device.

cpu               cores alone
t4                the custom resource `t4` if nodes offer one (with a GPU where they have it),
                  else a GPU of nodes whose accelerator_type is T4
gpu               any GPU
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cotune.errors import UsageError, suggestion

Resources = Mapping[str, float]
_TYPE = "accelerator_type:"
_A_TRACE = 0.001  # Ray's way to ask for a node of a type without taking anything of it
_PLAIN = ("CPU", "GPU", "memory", "object_store_memory")


def bundle(device: str, cpus: float, nodes: Sequence[Resources]) -> dict[str, float]:
    """Return the resources of one worker; a device that no node offers is an error."""
    cores = {"CPU": cpus}
    if device == "cpu":
        return cores
    if device.lower() == "gpu" and any("GPU" in node for node in nodes):
        return {**cores, "GPU": 1}
    offering = [node for node in nodes if node.get(device, 0) >= 1]
    if offering and device not in _PLAIN:
        gpu = {"GPU": 1.0} if all("GPU" in node for node in offering) else {}
        return {**cores, **gpu, device: 1}
    of_type = {name for node in nodes for name in node if name.lower() == _TYPE + device.lower()}
    if of_type:
        return {**cores, "GPU": 1, min(of_type): _A_TRACE}
    there = offered(nodes)
    raise UsageError(f"no Ray node offers device {device!r}; there are {', '.join(there)}{suggestion(device, there)}")


def offered(nodes: Sequence[Resources]) -> list[str]:
    """Return the names of the devices that nodes offer."""
    names = {name for node in nodes for name in node}
    types = {name.removeprefix(_TYPE).lower() for name in names if name.startswith(_TYPE)}
    custom = {name for name in names if name not in _PLAIN and ":" not in name and not name.startswith("_")}
    return ["cpu", *(["gpu"] if "GPU" in names else []), *sorted(types | custom)]


def fitting(asked: Resources, nodes: Sequence[Resources]) -> int:
    """Return how many workers of this kind the nodes can hold when nothing else runs on them."""
    return sum(int(min(node.get(name, 0) / amount for name, amount in asked.items())) for node in nodes)
