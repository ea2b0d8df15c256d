"""How the units of a pipeline find each other: ranks, groups and lines.

Ranks count through the stages: the units of stage 0 first. The stage's units share a gloo group; a
unit has one line to every unit of the neighbouring stages with which it shares rows, and one to every
table server if it looks rows up and there are servers. Lines to
units of the same node go through shared memory. Who is who comes from torchrun's variables, and
what the stages are from COTUNE_PLACEMENT, so any engine that sets both can run a pipeline.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Collection
from typing import Any

import torch
import torch.distributed as dist

from cotune.errors import UsageError
from cotune.placement.pipeline.channels import Channel
from cotune.placement.pipeline.placed import BatchShare, Placed, shared
from cotune.placement.pipeline.unit import PipelineRank, StageNeighbour

_CONNECT_SECONDS = 60.0
_ANY_PORT = 9
_RANK = b"rank %06d"


def join(placed: Placed) -> PipelineRank | int:
    """Meet all other processes and return where this one sits, or which of the table servers it is."""
    rank = int(os.environ.get("RANK", "0"))
    groups: list[Any] = [None]
    if placed.processes > 1:
        dist.init_process_group("gloo", rank=rank, world_size=placed.processes)
        groups = [dist.new_group(list(placed.ranks(each)), backend="gloo") for each in range(len(placed.stages))]
    if (server := placed.server(rank)) is not None:
        return server
    stage, unit = placed.stage_and_unit(rank)
    device = _device(placed.stages[stage].device)
    return PipelineRank(stage, unit, placed.stages[stage].workers, device, groups[stage], placed.table_servers)


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
    placed: Placed, position: PipelineRank | None, rows: int, slots: int
) -> tuple[list[StageNeighbour], list[StageNeighbour]]:
    """Return the lines to the stage before and to the stage after; `rows` is what passes at a time.

    A table server, which has no position, has none; it is here as all processes tell all where they are.
    """
    if len(placed.stages) == 1:
        return [], []
    if position is None:
        _lines(placed, [], [], torch.device("cpu"), slots)
        return [], []
    calls = [
        (share, placed.ranks(position.stage + 1)[share.unit])
        for share in _shares(placed, position, position.stage + 1, rows)
    ]
    awaited = {
        placed.ranks(position.stage - 1)[share.unit]: share
        for share in _shares(placed, position, position.stage - 1, rows)
    }
    lines = _lines(placed, [other for _, other in calls], awaited, position.device, slots)
    before = [StageNeighbour(lines[other], share) for other, share in awaited.items()]
    after = [StageNeighbour(lines[other], share) for share, other in calls]
    return before, after


def connect_servers(placed: Placed, *, asks: bool, device: torch.device, slots: int) -> list[list[Channel]]:
    """Return a table server's lines to the units of each stage, or in one list a unit's to all servers if it `asks`."""
    if not placed.table_servers:
        return [[]]
    rank, servers = dist.get_rank(), range(placed.units, placed.processes)
    asking = [other for other, each in enumerate(gathered(asks)) if each]
    if rank in servers:
        lines = _lines(placed, [], asking, device, slots)
        return [
            [lines[other] for other in placed.ranks(stage) if other in lines] for stage in range(len(placed.stages))
        ]
    lines = _lines(placed, servers if asks else [], [], device, slots)
    return [[lines[server] for server in servers if server in lines]]


def _lines(
    placed: Placed, called: Collection[int], awaited: Collection[int], device: torch.device, slots: int
) -> dict[int, Channel]:
    """Return lines to the ranks that this process calls and to those that call it; all processes come here at once."""
    with socket.create_server((_own_address(), 0), backlog=placed.processes) as door:
        addresses = gathered((_node(), *door.getsockname()[:2]))
        sockets = {other: _called(addresses[other][1:], dist.get_rank()) for other in called}
        door.settimeout(_CONNECT_SECONDS)
        sockets |= dict(_answered(door) for _ in awaited)
    return {
        other: Channel(connected, device, _peer(placed, other), slots=slots if addresses[other][0] == _node() else 0)
        for other, connected in sockets.items()
    }


def _peer(placed: Placed, rank: int) -> str:
    if (server := placed.server(rank)) is not None:
        return f"table server {server}"
    stage, unit = placed.stage_and_unit(rank)
    return f"unit {unit} of stage {stage}"


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


def _shares(placed: Placed, position: PipelineRank, stage: int, rows: int) -> list[BatchShare]:
    if not 0 <= stage < len(placed.stages):
        return []
    return shared(rows, position.units, position.unit, placed.stages[stage].workers)


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
