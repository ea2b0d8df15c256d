"""Ray: a driver that reserves the nodes as a placement group and runs torchrun on each of them.

Ray Train is not used: it sets up a process group of its own, as do the scripts that
torchrun starts. The file needs Ray and torch on the nodes, and nothing of cotune.
"""

from __future__ import annotations

import math
from importlib import resources
from pprint import pformat

from cotune.interop.export import PORT, LaunchOrder, torchrun_words

USE = "python {file}  (or: ray job submit --working-dir . -- python {file})"
_DRIVER = resources.files("cotune.interop.exporters").joinpath("ray_driver.txt").read_text(encoding="utf-8")


def write(order: LaunchOrder) -> str:
    """Return the driver's source."""
    torchrun, job = torchrun_words(order)
    plain = torchrun == ["torchrun"]
    settings = f"""\
NODES, WORKERS_PER_NODE, DEVICE = {order.nodes}, {order.per_node}, {order.config.device!r}
LIMIT_SECONDS = {math.ceil(order.limit) if order.limit else None}
FOLDER = {order.folder!r}  # where the nodes share no disk, submit this as a job with a working directory
ENV = {pformat(dict(order.env))}
SECRETS = {list(order.secrets)}
CHECKPOINT = {order.checkpoint!r}
TORCHRUN = {'[sys.executable, "-m", "torch.distributed.run"]' if plain else pformat(torchrun)}
JOB = {pformat(job)}"""
    return order.head + _DRIVER.replace("{port}", str(PORT)).replace("SETTINGS", settings)
