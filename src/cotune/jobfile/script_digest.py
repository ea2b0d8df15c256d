"""What a job's scripts were when a start began: digests in its run folder, to be compared later.

    scripts.json    {"train.py": "9f86d081..."}    by its path in the job's folder

These are the scripts that the command names, those that its shell scripts call, the files beside them that they import,
and YAML files that the command names; no JSON file, which may be what a start writes.

A start without this file (an older one, a recording, an import), or whose folder is gone, tells nothing.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from cotune.jobfile.script import script_files
from cotune.jobfile.script_talk import imported_files
from cotune.safety import private
from cotune.types import Job

_FILE = "scripts.json"
_SETTINGS = (".yaml", ".yml")
_MOST_BYTES = 10_000_000  # of a file of settings


def digests(job: Job) -> dict[str, str]:
    """Return the digest of each file that says how the job trains, as far as these can be read."""
    folder = Path(job.folder)
    scripts = script_files(job.command, folder)
    imported = [file for script in scripts if script.suffix == ".py" for file in imported_files(script)]
    return dict(_digests(dict.fromkeys([*scripts, *imported, *_settings(job, folder)]), folder))


def _settings(job: Job, folder: Path) -> Iterator[Path]:
    """Yield the YAML files that the command names: `--config train.yaml`, `--config=train.yaml`."""
    for word in job.command:
        path = folder / word.rpartition("=")[2]
        if path.suffix in _SETTINGS and path.is_file() and path.stat().st_size <= _MOST_BYTES:
            yield path


def _digests(scripts: Iterable[Path], folder: Path) -> Iterator[tuple[str, str]]:
    for path in scripts:
        with contextlib.suppress(OSError):
            name = path.relative_to(folder) if path.is_relative_to(folder) else path
            yield str(name), hashlib.sha256(path.read_bytes()).hexdigest()


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
