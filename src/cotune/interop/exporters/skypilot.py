"""SkyPilot: a task whose nodes run torchrun; its optimiser then finds the cloud.

A budget becomes the hourly price at which it lasts for the forecast's upper end. On spot machines the checkpoint is
kept in a bucket, from which a recovered job goes on.
"""

from __future__ import annotations

import shlex
from typing import Any

from cotune.errors import UsageError
from cotune.interop.export import PORT, LaunchOrder, comment, dump, going_on, torchrun_words

USE = "sky launch {file}"
_FIRST = 'head="$(echo "$SKYPILOT_NODE_IPS" | head -n 1)"'
_BUCKET = "/checkpoint"
_RECOVERED = {"use_spot": True, "job_recovery": {"strategy": "EAGER_NEXT_REGION", "max_restarts_on_errors": 3}}
_MANAGED = (
    "sky jobs launch THIS_FILE  recovers from preemption (sky launch does not)",
    f"{_BUCKET} is a bucket that outlives the machines: give it a name that nobody else has",
)


def write(order: LaunchOrder) -> str:
    """Return the task's YAML."""
    torchrun, job = torchrun_words(order)
    nodes = [
        '--nnodes="$SKYPILOT_NUM_NODES"',
        '--node-rank="$SKYPILOT_NODE_RANK"',
        '--master-addr="$head"',
        f"--master-port={PORT}",
    ]
    command = " ".join([shlex.join([*torchrun, f"--nproc-per-node={order.per_node}"]), *nodes, shlex.join(job)])
    wanted = {"accelerators": f"{_kind(order)}:{order.per_node}"} if order.gpus else {"cpus": f"{order.per_node}+"}
    hourly = {"max_hourly_cost": order.max_hourly_cost} if order.max_hourly_cost else {}
    task: dict[str, Any] = {
        "name": order.label,
        "num_nodes": order.nodes,
        "resources": {**wanted, **hourly, **(_RECOVERED if order.spot else {})},
        "workdir": order.folder,
        **({"file_mounts": {_BUCKET: {"name": f"{order.label}-checkpoints", "mode": "MOUNT"}}} if order.spot else {}),
        **({"envs": dict(order.env)} if order.env else {}),
        **({"secrets": dict.fromkeys(order.secrets)} if order.secrets else {}),
        "run": "\n".join([*going_on(order, _BUCKET if order.spot else "$HOME"), _FIRST, command, ""]),
    }
    return order.head + (comment(*_MANAGED) if order.spot else "") + dump(task)


def _kind(order: LaunchOrder) -> str:
    """Return the device as SkyPilot's catalogues spell it."""
    name = order.config.device
    if name == "gpu":
        raise UsageError("SkyPilot must know which GPU: name the device as its catalogues do, such as A100 or L4")
    return name.upper() if name.islower() else name
