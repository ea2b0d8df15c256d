"""Files that end: whoever opens a pipe or a device may wait for ever."""

from __future__ import annotations

from pathlib import Path

from cotune.errors import InvalidFile


def require_regular(path: Path) -> None:
    """Refuse to read what is there and no file; one that is not there is for its reader to tell."""
    if path.exists() and not path.is_file():
        raise InvalidFile(f"{path} is not a regular file")
