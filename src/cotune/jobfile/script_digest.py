"""What a job's scripts were when a start began: digests in its run folder, to be compared later.

    scripts.json    {"train.py": "9f86d081..."}    by the word of the command that names the script

A start without this file (an older one, a recording, an import), or whose folder is gone, tells nothing.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from cotune.safety import private
from cotune.types import Job

_FILE = "scripts.json"
_SUFFIXES = (".py", ".sh")


def digests(job: Job) -> dict[str, str]:
    """Return the digest of each script that the command names and that can be read."""
    return dict(_digests(job))


def _digests(job: Job) -> Iterator[tuple[str, str]]:
    for word in job.command:
        path = Path(job.folder) / word
        if word.endswith(_SUFFIXES) and path.is_file():
            with contextlib.suppress(OSError):
                yield word, hashlib.sha256(path.read_bytes()).hexdigest()


def note_digests(job: Job, folder: Path) -> None:
    """Write what the job's scripts are into the folder of a start, where there is one."""
    found = digests(job)
    with contextlib.suppress(OSError):  # on a full disk a later change goes unnoticed
        if found and folder.is_dir():
            private.write(folder / _FILE, json.dumps(found))


def changed_since(now: Mapping[str, str], folder: Path) -> list[str]:
    """Return the scripts that are others now than when the start of a folder began, as far as that is known."""
    try:
        then = json.loads((folder / _FILE).read_text())
    except (OSError, ValueError):
        return []
    known = then if isinstance(then, dict) else {}
    return [name for name, digest in now.items() if known.get(name, digest) != digest]
