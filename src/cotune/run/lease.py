"""Who may write in a run's folder: one start at a time, each with a higher number than the one before.

    lease.json        {"fence": 3, "pid": 4711}   the start that may write, and who drives it
    lease.lock        held by the cotune that drives it; the system lets go of it when that dies
    lease-F-NAME.lock held by what runs the workers of start F, wherever they are

A start takes the next number, and begins when nothing of an earlier one runs any more. What runs workers looks at
the lease: behind a higher number it ends them at once and without a word, so that a start whose driver was killed
cannot write beside the one that goes on from it. A number from a store goes before a driver that still holds the
folder: the store gives numbers to one leader, so that driver hangs, and finds out by its own number. Where the disk has
no locks, the numbers alone must do.
Only the standard library: this is imported before the namespace is entered.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cotune.errors import EngineError
from cotune.safety.private import make_folder

FENCE = "COTUNE_FENCE"
FOLDER = "COTUNE_LEASE"
LOOK_SECONDS = 0.5  # between two looks at the lease
_FILE = "lease.json"
_LOCK = "lease.lock"
_HELD = re.compile(r"lease-(\d+)-.+\.lock")
_SETTLE_SECONDS = 60.0  # for an earlier start to notice that it is over
_PAUSE = 0.05


class StillInUse(EngineError):
    """A folder in which an earlier start runs, and does not end."""


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to start something in a folder, for as long as the lock is held."""

    folder: Path
    fence: int
    lock: int

    @classmethod
    def take(cls, folder: Path, number: int | None = None) -> Lease:
        """Take the next number of a folder, where no other cotune has it, or a number that a store has given.

        Refuse a number that is not the highest.
        """
        lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        if _locked(lock) and number is None:
            os.close(lock)
            raise EngineError(
                f"{folder} is in use by another cotune (process {_read(folder).get('pid')}): "
                "wait until it has ended, or stop it"
            )
        fence = current(folder) + 1 if number is None else number
        if fence <= current(folder):
            os.close(lock)
            raise EngineError(f"a later start ({current(folder)}) has {folder}: this one ({fence}) is over")
        draft = folder / f"{_FILE}.draft"
        draft.write_text(json.dumps({"fence": fence, "pid": os.getpid()}))
        draft.replace(folder / _FILE)
        return cls(folder, fence, lock)

    def env(self) -> dict[str, str]:
        """Return the variables by which a start knows its number, and where the latest stands."""
        return {FENCE: str(self.fence), FOLDER: str(self.folder)}

    def settle(self, seconds: float = _SETTLE_SECONDS) -> None:
        """Wait until nothing of an earlier start runs any more."""
        until = time.monotonic() + seconds
        while earlier := self._earlier():
            if time.monotonic() > until:
                raise StillInUse(
                    f"an earlier start still runs in {self.folder} ({earlier[0].name} is held) and did not end "
                    f"within {seconds:g} s: end it, then try again"
                )
            time.sleep(_PAUSE)
        if self.is_lost:
            raise EngineError(f"a later start ({current(self.folder)}) has {self.folder}: {self.fence} is over")

    def _earlier(self) -> list[Path]:
        """Return the locks of earlier starts that are still held; those of the dead are removed."""
        held = []
        for path in self.folder.glob("lease-*.lock"):
            found = _HELD.fullmatch(path.name)
            if found is None or int(found[1]) >= self.fence:
                continue
            with contextlib.suppress(FileNotFoundError):
                lock = os.open(path, os.O_RDWR | os.O_CLOEXEC)
                if _locked(lock):
                    held.append(path)
                else:
                    path.unlink()
                os.close(lock)
        return held

    @property
    def is_lost(self) -> bool:
        """Say whether a later start has the folder."""
        return current(self.folder) > self.fence

    def release(self) -> None:
        """Let others have the folder."""
        with contextlib.suppress(OSError):
            os.close(self.lock)


def leased(folder: Path, number: int | None = None) -> Lease:
    """Make a run's folder, and take the lease of it, with the number that a store has given where it has."""
    whole = folder.absolute()
    try:
        make_folder(whole)
        return Lease.take(whole, number)
    except OSError as error:
        raise EngineError(f"cannot write to the run's folder {whole}: {error.strerror}") from None


class Watch:
    """What runs the workers of a start: holds a lock for as long as it lives, and looks at the lease."""

    def __init__(self, env: Mapping[str, str], name: str) -> None:
        self._fence = int(env.get(FENCE, "0"))
        self._folder = Path(env[FOLDER]) if FOLDER in env else None
        self._looked = 0.0
        self._lock: int | None = None
        if self._folder is None or not self._folder.is_dir():  # a node that does not share the folder
            self._folder = None
            return
        path = self._folder / f"lease-{self._fence}-{name}.lock"
        self._lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        _locked(self._lock)

    @property
    def lock(self) -> int | None:
        """Return the descriptor that must stay open here, and be closed in whatever is forked."""
        return self._lock

    def is_fenced_off(self) -> bool:
        """Say whether a later start has the folder; the lease is looked at now and then."""
        now = time.monotonic()
        if self._folder is None or now < self._looked + LOOK_SECONDS:
            return False
        self._looked = now
        return current(self._folder) > self._fence


def current(folder: Path) -> int:
    """Return the number of the latest start in a folder, 0 where there was none.

    What runs workers says it too: its lock stays whatever a driver writes that woke up late.
    """
    held = [int(found[1]) for path in folder.glob("lease-*.lock") if (found := _HELD.fullmatch(path.name))]
    return max(int(_read(folder).get("fence", 0)), *held, 0)


def _read(folder: Path) -> dict[str, int]:
    try:
        said = json.loads((folder / _FILE).read_text())
    except FileNotFoundError:
        return {}
    except ValueError:
        raise EngineError(f"{folder / _FILE} cannot be read: which start may write in {folder} is not known") from None
    return said if isinstance(said, dict) else {}


def _locked(lock: int) -> bool:
    """Take a lock; say whether somebody else has it. Where the disk knows no locks, nobody has."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False
