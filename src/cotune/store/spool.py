"""What a database that is away should have been told: kept on disk, and told when it is back.

    save ─▶ database
      └─ out of reach ─▶ spool/STORE/SAMPLE.json ─▶ database, once it answers

A sample only grows, so the last word on each is enough: the spool holds one file for each sample that was
saved meanwhile, and no more bytes than `OutagePolicy` allows. A training goes on through an outage; who reads
waits for its end. What a process could not tell before it died is told by whoever opens the store next.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

from cotune.errors import InvalidFile
from cotune.safety import private
from cotune.store import writer
from cotune.store.location import OutOfReach

FOLDER = "spool"
Answer = TypeVar("Answer")


@dataclass(frozen=True)
class OutagePolicy:
    """How an outage is met; a PostgreSQL server restarts in about 2 s, and is failed over within a minute or two."""

    first_pause: float = 0.2  # seconds before the database is asked again
    longest_pause: float = 5.0  # pauses double up to this
    patience: float = 120.0  # seconds that who reads, or closes, waits
    most_bytes: int = 64 << 20  # of a spool


OUTAGE = OutagePolicy()


@dataclass(frozen=True, slots=True)
class SpooledSample:
    """A sample as it is to be written: its job's row, its own and those of its curve."""

    job: Mapping[str, Any]
    sample: Mapping[str, Any]
    curve: tuple[Mapping[str, Any], ...]

    @property
    def id(self) -> str:
        return str(self.sample["id"])

    @classmethod
    def read(cls, path: Path) -> SpooledSample:
        try:
            said = json.loads(path.read_text(encoding="utf-8"))
            return cls(said["job"], said["sample"], tuple(said["curve"]))
        except (ValueError, KeyError, TypeError) as error:
            raise InvalidFile(f"{path} waits to be written to a store, but cannot be read ({error})") from None


class Spool:
    """The entries that wait for one store, in a folder that is made when the first has to."""

    def __init__(self, folder: Path, label: str, policy: OutagePolicy) -> None:
        self._folder = folder / FOLDER / hashlib.sha256(label.encode()).hexdigest()[:16]
        self._policy = policy
        self._pause = policy.first_pause
        self._ask_at = 0.0
        self._own: dict[str, Path] = {}

    @property
    def waiting(self) -> int:
        """Return how many entries of this process wait."""
        return len(self._own)

    def save(
        self, write: Callable[[], None], entry: Callable[[], SpooledSample], put: Callable[[SpooledSample], None]
    ) -> None:
        """Write now, after what waits; or keep the entry while the database is away."""
        if self._own and time.monotonic() < self._ask_at:
            self._keep(entry())
            return
        try:
            self.flush(put)
            write()
        except OutOfReach:
            self._keep(entry())
            self._ask_at = time.monotonic() + self._pause
            self._pause = min(2 * self._pause, self._policy.longest_pause)
        else:
            self._pause = self._policy.first_pause

    def flush(self, put: Callable[[SpooledSample], None]) -> None:
        """Write what waits, the oldest first; an entry that is written waits no more."""
        for name, path in list(self._own.items()):
            put(SpooledSample.read(path))
            path.unlink()
            del self._own[name]

    def until_back(self, ask: Callable[[], Answer], *, patience: float | None = None) -> Answer:
        """Return what the database answers, waiting for the end of an outage."""
        until = time.monotonic() + (self._policy.patience if patience is None else patience)
        pause = self._policy.first_pause
        while True:
            try:
                return ask()
            except OutOfReach as error:
                if time.monotonic() + pause > until:
                    raise self._given_up(error) from None
            time.sleep(pause)
            pause = min(2 * pause, self._policy.longest_pause)

    def adopt(self, put: Callable[[SpooledSample], None]) -> None:
        """Write what processes that are gone have left."""
        for path, entry in self._left():
            put(entry)
            path.unlink(missing_ok=True)

    def _left(self) -> Iterator[tuple[Path, SpooledSample]]:
        for path in sorted(self._folder.glob("*.json")):
            try:
                entry = SpooledSample.read(path)
            except FileNotFoundError:  # another process was quicker
                continue
            who = entry.sample.get("writer")
            if who is None or writer.gone(str(who)):
                yield path, entry

    def _keep(self, entry: SpooledSample) -> None:
        text = json.dumps(asdict(entry), allow_nan=False)
        path = self._folder / f"{hashlib.sha256(entry.id.encode()).hexdigest()[:16]}.json"
        held = sum(other.stat().st_size for name, other in self._own.items() if name != entry.id)
        if held + len(text) > self._policy.most_bytes:
            raise OutOfReach(
                f"the store is out of reach, and what waits for it in {self._folder} is more than "
                f"{self._policy.most_bytes >> 20} MiB: bring it back, or name another with COTUNE_STORE"
            )
        private.make_folder(self._folder.parent)
        private.make_folder(self._folder)
        private.write(path.with_suffix(".draft"), text)
        path.with_suffix(".draft").replace(path)
        self._own[entry.id] = path

    def _given_up(self, error: OutOfReach) -> OutOfReach:
        if not self._own:
            return error
        return OutOfReach(
            f"{error}; {len(self._own)} samples wait in {self._folder} for the next process that opens it"
        )
