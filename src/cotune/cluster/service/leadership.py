"""Who works the queue off: one service at a time, by a lease in the store that it renews while it lives.

    take ─▶ term n ─▶ renew, renew, ... ─▶ release, or expires after `seconds` ─▶ the next takes term n + 1

Whatever a leader writes carries its term. One that was stopped, cut off or too slow to renew finds a higher term in
the store, and can neither change a job nor start one: its workers end by their fencing numbers.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, func, select, update

from cotune.errors import CotuneError, EngineError
from cotune.store import Store, writer
from cotune.store.schema import leaders

SERVICE = "service"  # the name of the lease


class NoLongerLeading(EngineError):
    """Another service has taken over: what this one still runs must end."""


@dataclass(frozen=True, slots=True)
class Leader:
    """Who works the queue off, in which term, until when unless it says more, and what it says of itself."""

    holder: str
    term: int
    expires: float  # on the store's clock
    about: Mapping[str, Any]
    is_alive: bool


class Leadership:
    """The right to serve a queue, from `take` until it is released or lost.

    A leader may be silent for `seconds`, in which three of its renewals may fail; a service that waits tries twice a
    second, so that it leads within ten seconds of the death of another.
    """

    def __init__(self, store: Store, about: Mapping[str, Any], *, seconds: float = 8.0, renew: float = 2.0) -> None:
        self._store, self._about, self._seconds, self._renew_seconds = store, dict(about), seconds, renew
        self._holder = writer.me() or f"pid {about.get('pid')}"
        self.term = 0
        self._lost = threading.Event()
        self._over = threading.Event()
        self._renewal: threading.Thread | None = None

    @property
    def is_lost(self) -> bool:
        """Say whether another one leads, or this one could not renew for so long that another may."""
        return self._lost.is_set()

    def take(self) -> bool:
        """Take the lease where nobody holds it, or its holder is dead; say whether it is ours now."""

        def write(connection: Connection) -> int | None:
            row = connection.execute(select(leaders).where(leaders.c.name == SERVICE).with_for_update()).one_or_none()
            now = clock(connection)
            ours = {"holder": self._holder, "expires": now + self._seconds, "about": self._about}
            if row is None:
                connection.execute(leaders.insert(), {"name": SERVICE, "term": 1, **ours})
                return 1
            if row.expires > now and row.holder != self._holder and not _is_dead(row.holder):
                return None
            connection.execute(update(leaders).where(leaders.c.name == SERVICE).values(term=row.term + 1, **ours))
            return int(row.term) + 1

        term = self._store.transact(write)
        if term is None:
            return False
        self.term = term
        self._renewal = threading.Thread(target=self._keep, name="lease", daemon=True)
        self._renewal.start()
        return True

    def say(self, **more: Any) -> None:
        """Tell something else of the service with the next renewal, such as another policy."""
        self._about |= more

    def release(self) -> None:
        """Let the next one have the queue at once."""
        self._over.set()
        if self._renewal is not None:
            self._renewal.join()
        if not self.is_lost and self.term:
            self._store.transact(
                lambda connection: connection.execute(
                    update(leaders).where(leaders.c.name == SERVICE, leaders.c.term == self.term).values(expires=0.0)
                )
            )

    def _keep(self) -> None:
        while not self._over.wait(self._renew_seconds):
            try:
                self._store.transact(self._renew)
            except NoLongerLeading:
                self._lost.set()
                return
            except CotuneError:  # the store is away: nobody can take over meanwhile, and it is asked again
                continue

    def _renew(self, connection: Connection) -> None:
        own = (leaders.c.name == SERVICE, leaders.c.term == self.term)
        values = {"expires": clock(connection) + self._seconds, "about": self._about}
        if connection.execute(update(leaders).where(*own).values(**values)).rowcount != 1:
            raise NoLongerLeading("another service leads")


def stored_leader(connection: Connection) -> Leader | None:
    """Return who leads, or led last."""
    row = connection.execute(select(leaders).where(leaders.c.name == SERVICE)).one_or_none()
    if row is None:
        return None
    alive = row.expires > clock(connection) and not _is_dead(row.holder)
    return Leader(row.holder, row.term, row.expires, row.about, alive)


def _is_dead(holder: str) -> bool:
    """Say whether a leader is known to be dead: one of this machine whose process is gone."""
    return holder.count("/") == 4 and writer.gone(holder)


def clock(connection: Connection) -> float:
    """Return the time that all who use a store agree on: the server's, or this machine's for a file."""
    if connection.dialect.name == "postgresql":
        return float(connection.scalar(select(func.extract("epoch", func.clock_timestamp()))) or 0.0)
    return time.time()
