"""Scripts under plain torchrun, whose exit is torch's own."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

# What torch's gloo may end a process with when all of its script is done.
_ABORTS = "terminate called without an active exception"


def finished(command: Sequence[str], env: Mapping[str, str], folder: Path | None = None) -> str:
    """Return all that a command said, which must have ended well but for gloo's abort after its last line."""
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=110, check=False)
    said = done.stdout + done.stderr
    assert done.returncode == 0 or _ABORTS in said, said
    return said
