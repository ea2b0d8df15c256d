"""How the units of a pipeline find each other: ranks, groups and lines.

Ranks count through the stages: the units of stage 0 first. The stage's units share a gloo group; a
unit has one line to every unit of the neighbouring stages with which it shares rows. Lines to
units of the same node go through shared memory. Who is who comes from torchrun's variables, and
what the stages are from COTUNE_PLACEMENT, so any engine that sets both can run a pipeline.
"""

from __future__ import annotations

import os
import socket
from typing import Any

import torch
import torch.distributed as dist

from cotune.errors import UsageError
from cotune.placement.pipeline.channels import Channel
from cotune.placement.pipeline.order import BatchShare, shared
from cotune.placement.pipeline.placed import Placed
from cotune.placement.pipeline.unit import PipelineRank, StageNeighbour

_CONNECT_SECONDS = 60.0
_ANY_PORT = 9
_RANK = b"rank %06d"


def join(placed: Placed) -> PipelineRank:
    """Meet all other units and return where this one sits."""
    rank = int(os.environ.get("RANK", "0"))
    stage, unit = placed.seat(rank)
    device = _device(placed.stages[stage].device)
    if placed.units == 1:
        return PipelineRank(stage, unit, 1, device)
    dist.init_process_group("gloo", rank=rank, world_size=placed.units)
    groups = [dist.new_group(list(placed.ranks(each)), backend="gloo") for each in range(len(placed.stages))]
    return PipelineRank(stage, unit, placed.stages[stage].workers, device, groups[stage])


def _device(name: str) -> torch.device:
    if name == "cpu":
        return torch.device("cpu")
    try:
        there = torch.get_device_module(name).device_count()
    except (RuntimeError, AttributeError):
        there = 0
    if not there:
        raise UsageError(f"a stage asks for {name!r}, of which torch sees none here")
    device = torch.device(name, int(os.environ.get("LOCAL_RANK", "0")) % there)
    torch.get_device_module(name).set_device(device)
    return device


def connect(
    placed: Placed, seat: PipelineRank, rows: int, slots: int
) -> tuple[list[StageNeighbour], list[StageNeighbour]]:
    """Return the lines to the stage before and to the stage after; `rows` is what passes at a time."""
    if len(placed.stages) == 1:
        return [], []
    with socket.create_server((_own_address(), 0), backlog=placed.units) as door:
        addresses: list[tuple[str, str, int]] = [("", "", 0)] * placed.units
        host, port = door.getsockname()[:2]
        dist.all_gather_object(addresses, (_node(), host, port))
        calls = [
            (share, placed.ranks(seat.stage + 1)[share.unit])
            for share in _neighbours(placed, seat, seat.stage + 1, rows)
        ]
        sockets = {other: _called(addresses[other][1:], placed.ranks(seat.stage)[seat.unit]) for _, other in calls}
        awaited = {
            placed.ranks(seat.stage - 1)[share.unit]: share for share in _neighbours(placed, seat, seat.stage - 1, rows)
        }
        door.settimeout(_CONNECT_SECONDS)
        answered = dict(_answered(door) for _ in awaited)

        def line(other: int, connected: socket.socket) -> Channel:
            stage, unit = placed.seat(other)
            near = addresses[other][0] == _node()
            return Channel(connected, seat.device, f"unit {unit} of stage {stage}", slots=slots if near else 0)

        before = [StageNeighbour(line(other, answered[other]), share) for other, share in awaited.items()]
        after = [StageNeighbour(line(other, sockets[other]), share) for share, other in calls]
    return before, after


def gathered(value: Any) -> list[Any]:
    """Return what every rank gives, on every rank."""
    if not dist.is_initialized():
        return [value]
    values: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(values, value)
    return values


def from_first(value: Any) -> Any:
    """Return rank 0's value on every rank."""
    return gathered(value)[0]


def _neighbours(placed: Placed, seat: PipelineRank, stage: int, rows: int) -> list[BatchShare]:
    if not 0 <= stage < len(placed.stages):
        return []
    return shared(rows, seat.units, seat.unit, placed.stages[stage].workers)


def _own_address() -> str:
    """Return the address at which this node is reached from where the ranks meet."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as trial:
        trial.connect((os.environ.get("MASTER_ADDR", "127.0.0.1"), _ANY_PORT))  # sends nothing: it asks for the route
        return str(trial.getsockname()[0])


def _node() -> str:
    """Return the node of this process; two emulated nodes of one machine differ."""
    return f"{socket.gethostname()}/{os.environ.get('GROUP_RANK', '0')}"


def _called(address: tuple[str, int], rank: int) -> socket.socket:
    connected = socket.create_connection(address, timeout=_CONNECT_SECONDS)
    connected.settimeout(None)
    connected.sendall(_RANK % rank)
    return connected


def _answered(door: socket.socket) -> tuple[int, socket.socket]:
    connected, _ = door.accept()
    connected.settimeout(None)
    said = connected.recv(len(_RANK % 0), socket.MSG_WAITALL)
    return int(said.split()[-1]), connected
