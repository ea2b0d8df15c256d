"""Ray: a driver that reserves the nodes as a placement group and runs torchrun on each of them.

Ray Train is not used: it sets up a process group of its own, as do the scripts that
torchrun starts. The file needs Ray and torch on the nodes, and nothing of cotune.
"""

from __future__ import annotations

import math
from pprint import pformat

from cotune.interop.export import PORT, LaunchOrder, torchrun_words

USE = "python {file}  (or: ray job submit --working-dir . -- python {file})"
_DRIVER = """\
import os
import subprocess
import sys

import ray
from ray.util.placement_group import placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

NODES, WORKERS_PER_NODE, DEVICE = {nodes}, {per_node}, {device!r}
LIMIT_SECONDS = {limit}
FOLDER = {folder!r}  # where the nodes share no disk, submit this as a job with a working directory
ENV = {env}
SECRETS = {secrets}
CHECKPOINT = {checkpoint!r}
TORCHRUN = {torchrun}
JOB = {job}


@ray.remote(num_cpus=0)
def address():
    return ray.util.get_node_ip_address()


@ray.remote(max_retries=0)
def train(rank, head, env):
    meet = ["--standalone"]
    if NODES > 1:
        meet = [f"--nnodes={{NODES}}", f"--node-rank={{rank}}", f"--master-addr={{head}}", "--master-port={port}"]
    command = [*TORCHRUN, f"--nproc-per-node={{WORKERS_PER_NODE}}", *meet, *JOB]
    folder = FOLDER if os.path.isdir(FOLDER) else os.getcwd()
    checkpoint = os.environ.get("COTUNE_CHECKPOINT") or os.path.join(folder, CHECKPOINT)
    os.makedirs(checkpoint, exist_ok=True)
    resume = {{"COTUNE_RESUME": "1"}} if os.listdir(checkpoint) else {{}}  # remove the folder to begin anew
    env = {{**os.environ, **env, **resume, "COTUNE_CHECKPOINT": checkpoint}}
    done = subprocess.run(command, env=env, cwd=folder)
    if done.returncode:
        raise SystemExit(f"node {{rank}}: torchrun ended with exit code {{done.returncode}}")


if missing := [name for name in SECRETS if name not in os.environ]:
    sys.exit(f"must be set: {{', '.join(missing)}}")
ray.init()
bundle = {{"CPU": WORKERS_PER_NODE}}
if DEVICE != "cpu":
    bundle["GPU"] = WORKERS_PER_NODE
if DEVICE not in ("cpu", "gpu"):
    kinds = [name for name in ray.cluster_resources() if name.lower() == f"accelerator_type:{{DEVICE}}".lower()]
    if not kinds:
        sys.exit(f"no node of this Ray cluster has {{DEVICE}}")
    bundle[kinds[0]] = 0.001
group = placement_group([bundle] * NODES, strategy="STRICT_SPREAD" if NODES > 1 else "PACK")
if not group.wait(timeout_seconds=300):
    sys.exit(f"Ray cannot give {{NODES}} x {{bundle}} within 300 s; it has {{ray.cluster_resources()}}")


def on(node, **asked):
    return {{"scheduling_strategy": PlacementGroupSchedulingStrategy(group, node), **asked}}


head = ray.get(address.options(**on(0)).remote())
env = ENV | {{name: os.environ[name] for name in SECRETS}}
asked = {{"num_cpus": bundle["CPU"], "num_gpus": bundle.get("GPU", 0)}}
ray.get([train.options(**on(node, **asked)).remote(node, head, env) for node in range(NODES)], timeout=LIMIT_SECONDS)
"""


def write(order: LaunchOrder) -> str:
    """Return the driver's source."""
    torchrun, job = torchrun_words(order)
    plain = torchrun == ["torchrun"]
    return order.head + _DRIVER.format(
        nodes=order.nodes,
        per_node=order.per_node,
        device=order.config.device,
        limit=math.ceil(order.limit) if order.limit else None,
        folder=order.folder,
        env=pformat(dict(order.env)),
        secrets=list(order.secrets),
        checkpoint=order.checkpoint,
        torchrun='[sys.executable, "-m", "torch.distributed.run"]' if plain else pformat(torchrun),
        job=pformat(job),
        port=PORT,
    )
