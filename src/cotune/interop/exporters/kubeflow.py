"""Kubeflow Trainer: a TrainJob on the torch runtime, which tells torchrun its nodes by PET_* variables.

The training script must be in the image. The limit becomes the job's active deadline. With a queue Kueue
admits the job, and with a volume its checkpoint outlives the pods.
"""

from __future__ import annotations

import math
from typing import Any

from cotune.interop.export import LaunchOrder, comment, dump, going_on, torchrun_words

USE = "kubectl create -f {file}"
_RUNTIME = "torch-distributed"
_NODE = "node"  # the name of that runtime's job, and of its container
_FOLDER = "/checkpoint"
_QUEUE = "kueue.x-k8s.io/queue-name"


def write(order: LaunchOrder) -> str:
    """Return the TrainJob's YAML."""
    torchrun, job = torchrun_words(order)
    amount = {"limits": {"nvidia.com/gpu": order.per_node}} if order.gpus else {"requests": {"cpu": order.per_node}}
    env: list[dict[str, Any]] = [{"name": name, "value": _literal(value)} for name, value in order.env]
    keys = [{"name": f"{order.label}-secrets", "key": name} for name in order.secrets]
    env += [{"name": key["key"], "valueFrom": {"secretKeyRef": key}} for key in keys]
    trainer: dict[str, Any] = {
        **({"image": order.image} if order.image else {}),
        "command": ["sh", "-c", _literal(_going_on(order)), "sh", *map(_literal, torchrun)],
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
        **({"runtimePatches": [_mounted(order.volume)]} if order.volume else {}),
    }
    train_job = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {
            "generateName": f"{order.label}-",
            **({"labels": {_QUEUE: order.queue}} if order.queue else {}),
        },
        "spec": spec,
    }
    return order.head + _hints(order) + dump(train_job)


def _hints(order: LaunchOrder) -> str:
    image = () if order.image else ("the script must be in the runtime's image; name another by --image",)
    kind = (f"that the nodes have {order.config.device} is up to the runtime's node selector",) if order.gpus else ()
    lost = () if order.volume else ("a checkpoint is lost with its pod; --volume names a claim that keeps it",)
    return comment(*image, *kind, *lost)


def _going_on(order: LaunchOrder) -> str:
    """Return a shell command that goes on from the checkpoint, if there is one, with what follows it."""
    return "\n".join([*going_on(order, _FOLDER), 'exec "$@"'])


def _mounted(claim: str) -> dict[str, Any]:
    """Return the patch of the runtime that mounts a claim as the checkpoint folder of every node."""
    pod = {
        "volumes": [{"name": "checkpoint", "persistentVolumeClaim": {"claimName": claim}}],
        "containers": [{"name": _NODE, "volumeMounts": [{"name": "checkpoint", "mountPath": _FOLDER}]}],
    }
    nodes = {"name": _NODE, "template": {"spec": {"template": {"spec": pod}}}}
    patch = {"template": {"spec": {"replicatedJobs": [nodes]}}}
    return {"manager": "cotune.dev/export", "trainingRuntimeSpec": patch}


def _literal(text: str) -> str:
    """Return a text that Kubernetes leaves as it is: it puts variables in the place of `$(NAME)`."""
    return text.replace("$(", "$$(")
