"""A cluster as people write it: `104` GPUs, `13x8` nodes x GPUs, or a YAML file of devices.

A device of the file may say how fast it is: `speed: 0.4` is 0.4 times as fast as what the trace was recorded on.
"""

from __future__ import annotations

import re
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from cotune.errors import InvalidFile, NotFound, UsageError
from cotune.safety import yaml_text
from cotune.types import Cluster, Device

_NODES = re.compile(r"(\d+)\s*[x×]\s*(\d+)")


class _DeviceFile(BaseModel):
    model_config = ConfigDict(extra="forbid")
    count: int = Field(gt=0)
    per_node: int | None = Field(default=None, gt=0)
    nodes_per_rack: int | None = Field(default=None, gt=0)
    price_per_hour: float | None = Field(default=None, ge=0)
    speed: float = Field(default=1.0, gt=0, lt=1e6)


class _ClusterFile(BaseModel):
    model_config = ConfigDict(extra="forbid")
    devices: dict[str, _DeviceFile] = Field(min_length=1)
    currency: str = "USD"


def parse_cluster(spec: str) -> Cluster:
    """Return the cluster that a word or a file describes."""
    if spec.isdigit() and int(spec):
        return Cluster((Device("gpu", int(spec)),))
    if (nodes := _NODES.fullmatch(spec.strip())) and int(nodes[1]) and int(nodes[2]):
        return Cluster((Device("gpu", int(nodes[1]) * int(nodes[2]), per_node=int(nodes[2])),))
    found = _file(spec)
    devices = tuple(
        Device(name, device.count, device.price_per_hour, device.per_node, nodes_per_rack=device.nodes_per_rack)
        for name, device in found.devices.items()
    )
    return Cluster(devices, found.currency)


def parse_speeds(spec: str) -> dict[str, float]:
    """Return how fast each device is, against what the trace was recorded on; nothing where no file says so."""
    if spec.isdigit() or _NODES.fullmatch(spec.strip()):
        return {}
    speeds = {name: device.speed for name, device in _file(spec).devices.items()}
    return speeds if set(speeds.values()) != {1.0} else {}


def _file(spec: str) -> _ClusterFile:
    path = Path(spec)
    if not path.is_file() and path.suffix in (".yaml", ".yml"):
        raise NotFound(f"no cluster file at {path}")
    if not path.is_file():
        raise UsageError(f"cannot read the cluster {spec!r}; write 104 (GPUs), 13x8 (nodes x GPUs) or name a YAML file")
    try:
        found = _ClusterFile.model_validate(yaml_text.read(path.read_text(encoding="utf-8")))
    except ValueError as error:
        reason = error.errors()[0] if isinstance(error, ValidationError) else None
        where = ".".join(map(str, reason["loc"])) + ": " + reason["msg"] if reason else str(error).partition("\n")[0]
        raise InvalidFile(f"{path} is not a cluster: {where}") from None
    for name, device in found.devices.items():
        if device.nodes_per_rack and not device.per_node:
            raise InvalidFile(f"{path} is not a cluster: devices.{name}: nodes_per_rack needs per_node, GPUs on a node")
    return found
