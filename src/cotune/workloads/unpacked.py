"""Pictures unpacked once and kept in the user's cache folder, so that the next worker starts sooner.

Unpacking takes seconds, and every worker of every run would pay them. A copy is known by
the names, sizes and times of the files it was made from; any change makes it anew, and the
old one goes. A copy that cannot be read or written is no error: the files themselves are read.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import zipfile
from contextlib import suppress
from pathlib import Path

import numpy as np
from platformdirs import user_cache_path

from cotune.workloads.formats import Part, Parts, Reader


def read(name: str, folder: Path, readers: tuple[Reader, ...]) -> Parts | None:
    """Return what the first fitting reader finds in the folder, from the copy if there is one."""
    if not folder.is_dir():
        return None
    kept = user_cache_path("cotune") / "data" / f"{name}-{_fingerprint(folder)}.npz"
    # Without a copy, or with one that another process left torn, the data are read as if for the first time.
    with suppress(OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile), np.load(kept) as arrays:
        return Parts(Part(arrays["x_train"], arrays["y_train"]), Part(arrays["x_test"], arrays["y_test"]))
    parts = next((parts for reader in readers if (parts := reader(folder)) is not None), None)
    if parts is not None:
        with suppress(OSError):  # on a full or read-only disk the next start reads them again
            _keep(kept, name, parts)
    return parts


def _fingerprint(folder: Path) -> str:
    facts = sorted(
        (entry.name, entry.stat().st_size, entry.stat().st_mtime_ns) for entry in os.scandir(folder) if entry.is_file()
    )
    return hashlib.sha256(repr((str(folder.resolve()), facts)).encode()).hexdigest()[:16]


def _keep(file: Path, name: str, parts: Parts) -> None:
    """Write the copy, whole or not at all, and drop those of other days."""
    file.parent.mkdir(parents=True, exist_ok=True)
    # Emulated nodes number their processes alone, so a process number would not tell two writers apart.
    with tempfile.NamedTemporaryFile(dir=file.parent, prefix=file.stem, delete=False) as content:
        beside = Path(content.name)
        try:
            np.savez(
                content,
                x_train=parts.train.pictures,
                y_train=parts.train.labels,
                x_test=parts.test.pictures,
                y_test=parts.test.labels,
            )
            content.flush()
            beside.replace(file)
        finally:
            beside.unlink(missing_ok=True)
    for other in file.parent.glob(f"{name}-{'[0-9a-f]' * 16}.npz"):
        if other != file:
            other.unlink(missing_ok=True)
