"""SkyPilot: a task whose nodes run torchrun; its optimiser then finds the cloud.

A budget becomes the hourly price at which it lasts for the forecast's upper end. How long
the task takes on other machines is told by `cotune.interop.skypilot.time_estimator`.
"""

from __future__ import annotations

import shlex
from typing import Any

from cotune.errors import UsageError
from cotune.interop.export import PORT, LaunchOrder, dump, torchrun_words

USE = "sky launch {file}"


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
        "resources": {**wanted, **hourly},
        "workdir": order.folder,
        **({"envs": dict(order.env)} if order.env else {}),
        **({"secrets": dict.fromkeys(order.secrets)} if order.secrets else {}),
        "run": f'head="$(echo "$SKYPILOT_NODE_IPS" | head -n 1)"\n{command}\n',
    }
    return order.head + dump(task)


def _kind(order: LaunchOrder) -> str:
    """Return the device as SkyPilot's catalogues spell it."""
    name = order.config.device
    if name == "gpu":
        raise UsageError("SkyPilot must know which GPU: name the device as its catalogues do, such as A100 or L4")
    return name.upper() if name.islower() else name
