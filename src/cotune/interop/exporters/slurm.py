"""Slurm: a batch script with one task per worker, which srun starts and torchrun's variables introduce.

    RANK, WORLD_SIZE    SLURM_PROCID, SLURM_NTASKS        MASTER_ADDR   the first node of the job
    LOCAL_RANK          SLURM_LOCALID                     MASTER_PORT   from the job's number

The limit is the forecast's upper end and half as much again. Partition, account and how
to ask for a device are those of the slurm engine, where the job file has it. A job that
is preempted goes back into the queue and on from its checkpoint.
"""

from __future__ import annotations

import shlex

from cotune.interop.export import LaunchOrder, exports, going_on
from cotune.run.engines.slurm import Slurm
from cotune.run.slurm.batch import resources, sbatch_lines, time_limit

USE = "sbatch {file}"
_PORTS = 'MASTER_PORT="$((20000 + SLURM_JOB_ID % 10000))"'
_HEAD = 'MASTER_ADDR="$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)"'
_EACH = (
    'export RANK="$SLURM_PROCID" LOCAL_RANK="$SLURM_LOCALID" WORLD_SIZE="$SLURM_NTASKS" GROUP_RANK="$SLURM_NODEID"; '
    'exec "$@"'
)


def write(order: LaunchOrder) -> str:
    """Return the batch script."""
    asked = Slurm(**(order.settings or {}))
    cpus = asked.cpus_for(order.config.device)
    where = {"--partition": asked.partition, "--account": asked.account}
    options = [
        f"--job-name={order.label}",
        f"--nodes={order.nodes}",
        f"--ntasks-per-node={order.per_node}",
        f"--ntasks={order.config.workers}",
        *resources(order.config.device, cpus, asked.devices),
        *(f"{name}={value}" for name, value in where.items() if value),
        *time_limit(order.limit),
        f"--chdir={order.folder}",
        "--output=%x-%j.log",
        "--open-mode=append",
        "--requeue",
        *asked.options,
    ]
    each = ["srun", "--kill-on-bad-exit=1", "--mpi=none", "sh", "-c", _EACH, "sh", *order.command]
    return "\n".join(
        [
            "#!/bin/sh",
            *sbatch_lines(options),
            order.head.rstrip(),
            *exports(order),
            *going_on(order),
            f"export {_HEAD}",
            f"export {_PORTS} LOCAL_WORLD_SIZE={order.per_node} GROUP_WORLD_SIZE={order.nodes}",
            f'export OMP_NUM_THREADS="${{OMP_NUM_THREADS:-{cpus}}}"',
            shlex.join(each),
            "",
        ]
    )
