"""Which cores and GPUs other engines on this machine use: a lock on a small file for each.

The system drops a lock with the process that holds it, so nothing is left over when an engine
is killed. Engines of other users, and of containers with a folder of their own, are not seen.
"""

from __future__ import annotations

import contextlib
import fcntl
import os

from cotune.safety.private import FILE_MODE, runtime_folder


class Claims:
    """The units of one kind, such as `core`, that this engine has workers on."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._files: dict[int, int] = {}  # of the units claimed

    def others(self, unit: int) -> bool:
        """Say whether another engine has claimed a unit; not asked of a unit of our own."""
        if unit in self._files:
            return False
        file = self._locked(unit, fcntl.LOCK_EX)
        if file is None:
            return True
        os.close(file)
        return False

    def claim(self, unit: int) -> None:
        """Let other engines see that this one uses a unit."""
        if unit not in self._files and (file := self._locked(unit, fcntl.LOCK_SH)) is not None:
            self._files[unit] = file

    def drop(self, unit: int) -> None:
        """Let other engines see that this one has left a unit."""
        with contextlib.suppress(KeyError):
            os.close(self._files.pop(unit))

    def _locked(self, unit: int, how: int) -> int | None:
        """Return the unit's file, locked; None if another engine keeps it so, or where no file can be written."""
        with contextlib.suppress(OSError):
            path = runtime_folder() / f"{self._kind}-{unit}"
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, FILE_MODE)
            try:
                fcntl.flock(file, how | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(file)
            else:
                return file
        return None
