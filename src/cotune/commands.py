"""What a job's command lets cotune set: by placeholders, or by variables that its scripts read."""

from __future__ import annotations

import re
from pathlib import Path

from cotune.errors import UsageError
from cotune.types import Job

_BATCH_FLAG = re.compile(r"(?:--batch[-_]?size|--bs|-b)(?:=|$)")


def takes(job: Job, name: str) -> bool:
    """Return whether a number of this name reaches the job."""
    return any("{" + name + "}" in word for word in job.command) or reads_environment(job, f"COTUNE_{name.upper()}")


def require_batch(job: Job, source: str) -> None:
    """Refuse a command through which cotune cannot set the batch, with the one to write instead."""
    if takes(job, "batch_size") or takes(job, "global_batch"):
        return
    words = list(job.command)
    for place, word in enumerate(words):
        if _BATCH_FLAG.match(word):
            if "=" in word:
                words[place] = word.partition("=")[0] + "={batch_size}"
            elif place + 1 < len(words):
                words[place + 1] = "{batch_size}"
            break
    else:
        words.append("--batch-size={batch_size}")
    raise UsageError(
        f"{source}: the command has no {{batch_size}}, so cotune cannot set the batch; write: {' '.join(words)}"
        " (or let the script read COTUNE_BATCH_SIZE)"
    )


def reads_environment(job: Job, *names: str) -> bool:
    """Return whether a script of the command takes a number from one of these variables."""
    scripts = (Path(job.folder) / word for word in job.command if word.endswith((".py", ".sh")))
    return any(script.is_file() and any(n in script.read_text(errors="replace") for n in names) for script in scripts)
