"""Parts of GPUs: jobs that ask for 0.5 of one share it with others.

Everything is counted in the largest part that divides what jobs ask for, 1 / n of a GPU with n up to 1000, while it is
simulated, and in GPUs again in what comes out. So a policy needs to know nothing of parts. On nodes the parts of a
node are counted together: how they lie on its GPUs is not looked at, nor how jobs on one GPU slow each other down.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from cotune.cluster.policy import Policy, Submission, rigid_config
from cotune.cluster.work import Steady
from cotune.errors import UsageError
from cotune.types import Cluster, Config, Device

_WHOLE = 1000
_GPU_SECONDS = ("thresholds", "history", "quantum")  # settings of policies


def parts_per_gpu(jobs: Sequence[Submission]) -> int:
    """Return into how many parts a GPU has to be divided so that every job asks for some of them; 1 for whole GPUs."""
    shares = {round(job.share * _WHOLE) for job in jobs}
    return _WHOLE // math.gcd(_WHOLE, *shares)


def job_in_parts(job: Submission, parts: int) -> Submission:
    """Return a job that asks for parts as if they were GPUs."""
    gpus = round(job.share * parts) if job.share < 1 else job.gpus * parts
    if job.work is None:
        return replace(job, gpus=gpus)
    if not isinstance(job.work, Steady):
        raise UsageError(f"job {job.name!r} is not of constant speed; parts of GPUs go with such jobs only")
    rates = {_config_in_parts(config, job, parts): rate for config, rate in job.work.rates.items()}
    wants = None if job.wants is None else _config_in_parts(job.wants, job, parts)
    return replace(job, gpus=gpus, work=replace(job.work, rates=rates), wants=wants)


def _config_in_parts(config: Config, job: Submission, parts: int) -> Config:
    units = round(job.share * parts) if job.share < 1 else config.workers * parts
    return rigid_config(units, config.batch_size, config.device)


def cluster_in_parts(cluster: Cluster, parts: int) -> Cluster:
    """Return a cluster whose parts of GPUs are counted as GPUs."""
    return replace(cluster, devices=tuple(_device_in_parts(device, parts) for device in cluster.devices))


def _device_in_parts(device: Device, parts: int) -> Device:
    return replace(
        device,
        count=None if device.count is None else device.count * parts,
        per_node=None if device.per_node is None else device.per_node * parts,
        price_per_hour=None if device.price_per_hour is None else device.price_per_hour / parts,
    )


def policy_in_parts(policy: Policy, parts: int) -> Policy:
    """Return a policy whose settings in GPU-seconds are told in those of parts."""
    made: Any = policy
    scaled: dict[str, Any] = {}
    for name in _GPU_SECONDS:
        setting = getattr(made, name, None)
        if setting:
            scaled[name] = tuple(value * parts for value in setting) if name != "quantum" else setting * parts
    found: Policy = replace(made, **scaled) if scaled else policy
    return found
