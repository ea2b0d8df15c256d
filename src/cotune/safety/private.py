"""Files and folders for nobody else on the machine: what a job prints and is told may hold secrets.

    runtime folder    XDG_RUNTIME_DIR, else /run/user/UID, else one of the user's own below the temporary
                      folder or the cache: a folder, no link, owned by the user and closed to others

A folder whose name can be guessed is looked at before it is used: somebody else may have made it.
"""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

FOLDER_MODE = 0o700
FILE_MODE = 0o600
_OTHERS = 0o077


def make_folder(path: Path) -> Path:
    """Make a folder that only its owner may look into, if it is not there, and close one of ours that is open."""
    for missing in reversed([folder for folder in (path, *path.parents) if not folder.exists()]):
        missing.mkdir(mode=FOLDER_MODE, exist_ok=True)
    if not path.is_symlink() and path.stat().st_uid == os.getuid() and path.stat().st_mode & _OTHERS:
        path.chmod(FOLDER_MODE)
    return path


def write(path: Path, text: str) -> None:
    """Write a file that only its owner may read, also where one stood that others could."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, FILE_MODE)
    with os.fdopen(file, "w", encoding="utf-8") as out:
        os.fchmod(out.fileno(), FILE_MODE)
        out.write(text)


def runtime_folder() -> Path:
    """Return the folder of this user's locks on this machine, or raise OSError where no safe one can be had."""
    given = os.environ.get("XDG_RUNTIME_DIR", "")
    user = os.getuid()
    for parent in filter(os.path.isabs, (given, f"/run/user/{user}")):
        if is_own_folder(Path(parent)):
            return _checked(Path(parent) / "cotune")
    try:
        return _checked(Path(tempfile.gettempdir()) / f"cotune-{user}")
    except OSError:  # somebody else has taken the name
        import platformdirs

        own = platformdirs.user_cache_path("cotune")
        own.mkdir(parents=True, exist_ok=True)
        return _checked(own / "run")


def is_own_folder(path: Path) -> bool:
    """Return whether a path is a folder itself, no link to one, is ours, and closed to others."""
    try:
        found = path.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & _OTHERS


def _checked(path: Path) -> Path:
    path.mkdir(mode=FOLDER_MODE, exist_ok=True)
    if not is_own_folder(path):
        raise PermissionError(f"{path} is not a folder of ours alone")
    return path
