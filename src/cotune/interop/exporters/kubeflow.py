"""Kubeflow Trainer: a TrainJob on the torch runtime, which tells torchrun its nodes by PET_* variables.

The training script must be in the image. The limit becomes the job's active deadline.
"""

from __future__ import annotations

import math
from typing import Any

from cotune.interop.export import LaunchOrder, comment, dump, torchrun_words

USE = "kubectl create -f {file}"
_RUNTIME = "torch-distributed"


def write(order: LaunchOrder) -> str:
    """Return the TrainJob's YAML."""
    torchrun, job = torchrun_words(order)
    amount = {"limits": {"nvidia.com/gpu": order.per_node}} if order.gpus else {"requests": {"cpu": order.per_node}}
    env: list[dict[str, Any]] = [{"name": name, "value": _literal(value)} for name, value in order.env]
    keys = [{"name": f"{order.label}-secrets", "key": name} for name in order.secrets]
    env += [{"name": key["key"], "valueFrom": {"secretKeyRef": key}} for key in keys]
    trainer: dict[str, Any] = {
        **({"image": order.image} if order.image else {}),
        "command": [*map(_literal, torchrun)],
        "args": [*map(_literal, job)],
        "numNodes": order.nodes,
        "numProcPerNode": order.per_node,
        "resourcesPerNode": amount,
        **({"env": env} if env else {}),
    }
    spec = {
        "runtimeRef": {"name": _RUNTIME},
        **({"activeDeadlineSeconds": math.ceil(order.limit)} if order.limit else {}),
        "trainer": trainer,
    }
    train_job = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"generateName": f"{order.label}-"},
        "spec": spec,
    }
    return order.head + _hints(order) + dump(train_job)


def _hints(order: LaunchOrder) -> str:
    image = () if order.image else ("the script must be in the runtime's image; name another by --image",)
    kind = (f"that the nodes have {order.config.device} is up to the runtime's node selector",) if order.gpus else ()
    return comment(*image, *kind)


def _literal(text: str) -> str:
    """Return a text that Kubernetes leaves as it is: it puts variables in the place of `$(NAME)`."""
    return text.replace("$(", "$$(")
