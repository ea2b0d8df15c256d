"""The batch script of a launch: one task per worker, each hosted by `_slurm_task`.

    #SBATCH --ntasks=4 --cpus-per-task=1 --time=12 ...
    srun python -m cotune.run.slurm.task FOLDER

Workers on several kinds of device are a heterogeneous job: one component for each stage, all in one step, so that
ranks count through them. Its last line leaves a mark in the folder: nothing of the launch runs any more.
"""

from __future__ import annotations

import math
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from cotune.errors import UsageError
from cotune.run.launch import Launch
from cotune.safety.printable import is_printable

FINISHED_MARK = "slurm.exit"
LOG = "slurm.log"
GROUP = "slurm.group.json"
SCRIPT = "slurm.sh"
JOB = "slurm.job"  # the number that Slurm gave it
_LABEL_LETTERS = 100


def batch_script(launch: Launch, folder: Path, fence: int, components: Sequence[Sequence[str]]) -> str:
    """Return the script that Slurm runs on the first node of the job, which knows by its fence which start it is.

    `components` are the options of each kind of device, one after another.
    """
    workers = launch.config.workers
    task = shlex.join([sys.executable, "-P", "-m", "cotune.run.slurm.task", str(folder), str(fence), str(workers)])
    log, mark = folder / LOG, shlex.quote(str(folder / FINISHED_MARK))
    named = [f"--job-name={_label(launch.job.name)}", f"--output={_literal(log)}"]
    lines = sbatch_lines([*named, *components[0]])
    for component in components[1:]:
        lines += ["#SBATCH hetjob", *sbatch_lines(component)]
    groups = f" --het-group=0-{len(components) - 1}" if len(components) > 1 else ""
    return "\n".join(
        [
            "#!/bin/sh",
            *lines,
            f"srun{groups} --kill-on-bad-exit=0 --mpi=none {task}",
            f"echo $? > {mark}",
            "",
        ]
    )


def sbatch_lines(options: Sequence[str]) -> list[str]:
    """Return options as the lines that sbatch reads; one with a line end would go on as a command of the script."""
    for option in options:
        if not is_printable(option):
            raise UsageError(f"an option for Slurm stands on one line, without control characters: {option!r}")
    return [f"#SBATCH {shlex.quote(option)}" for option in options]


def _label(name: str) -> str:
    """Return a job's name in letters that Slurm takes as they are: it puts values in the place of `%x`."""
    return "cotune-" + re.sub(r"[^\w.+-]+", "-", name)[:_LABEL_LETTERS]


def _literal(path: Path) -> str:
    """Return a path that Slurm leaves as it is: it puts values in the place of `%j` in names of files."""
    return str(path).replace("%", "%%")


def resources(device: str, cpus: int, devices: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the options of what each task needs; a device is a type of GPU unless `devices` says how to ask for it."""
    cores = [f"--cpus-per-task={cpus}"]
    if device in devices:
        return [*cores, *devices[device]]
    if device == "cpu":
        return cores
    return [*cores, "--gpus-per-task=1" if device == "gpu" else f"--gpus-per-task={device}:1", "--gpu-bind=none"]


def time_limit(seconds: float | None) -> list[str]:
    """Return the option of a limit in whole minutes, as Slurm counts; without one the partition's holds."""
    return [] if seconds is None else [f"--time={max(1, math.ceil(seconds / 60))}"]
