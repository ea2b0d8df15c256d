"""Accelerate: a config file for `accelerate launch`.

Its launcher starts several processes only for GPUs (for CPUs it leaves that to MPI), so
workers on CPUs are asked for the same way, with `use_cpu` set.
"""

from __future__ import annotations

import shlex

from cotune.interop.export import PORT, LaunchOrder, comment, dump, exports, going_on, torchrun_words

USE = "the command in the first lines of {file}"
ON_EACH_NODE = "--machine_rank RANK_OF_NODE --main_process_ip FIRST_NODE"
_PRECISIONS = ("no", "fp16", "bf16", "fp8")


def write(order: LaunchOrder) -> str:
    """Return the config, with the command that takes it as a comment."""
    several = order.config.workers > 1
    precision = str(dict(order.config.axes).get("precision", "no"))
    config = {
        "compute_environment": "LOCAL_MACHINE",
        "distributed_type": "MULTI_GPU" if several else "NO",
        "num_machines": order.nodes,
        "num_processes": order.config.workers,
        "machine_rank": 0,
        **({"main_process_ip": "HEAD"} if order.nodes > 1 else {}),
        "main_process_port": PORT,
        "rdzv_backend": "static",
        "same_network": True,
        "use_cpu": not order.gpus,
        "mixed_precision": precision if precision in _PRECISIONS else "no",
    }
    _, job = torchrun_words(order)
    words = [word.replace("--no-python", "--no_python") for word in job[:1]] + job[1:]
    lines = [f"cd {shlex.quote(order.folder)}", *exports(order), *going_on(order)]
    launch = f"accelerate launch --config_file THIS_FILE{_machines(order)} {shlex.join(words)}"
    shown = "\n".join([*lines, launch]).split("\n")  # a quoted value may have several lines, each a comment
    return order.head + comment(*shown, indent="  ") + dump(config)


def _machines(order: LaunchOrder) -> str:
    return f" {ON_EACH_NODE}" if order.nodes > 1 else ""
