"""How many of a node's cores go with one of its GPUs, as sinfo describes the nodes.

64|gpu:a100:8(S:0-1)        64 cores and 8 GPUs: 8 cores for each worker
"""

from __future__ import annotations

import re
import shutil
import subprocess

_ASK_SECONDS = 30.0
_GPUS = re.compile(r"gpu(?::([\w.-]+))?:(\d+)")


def described_nodes(partition: str | None) -> str:
    """Return what sinfo says of the nodes: cores and generic resources, one line each; nothing without sinfo."""
    if shutil.which("sinfo") is None:
        return ""
    where = [f"--partition={partition}"] if partition else []
    command = ["sinfo", "--noheader", "--Node", "--format=%c|%G", *where]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_ASK_SECONDS)
    return done.stdout if done.returncode == 0 else ""


def cores_of_a_gpu(described: str, device: str) -> int:
    """Return the cores of a node over its GPUs of that type, the least of all such nodes; 1 if none is known."""
    shares = [
        int(cores) // int(count)
        for line in described.splitlines()
        for cores, _, listed in [line.partition("|")]
        for kind, count in _GPUS.findall(listed)
        if device in ("gpu", kind) and cores.strip().isdigit() and int(count) > 0
    ]
    return max(1, min(shares, default=1))
