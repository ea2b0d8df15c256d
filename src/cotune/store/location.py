"""Where the store is, how it is opened, and its troubles in one line each.

    given, else COTUNE_STORE, else .cotune/ here or above, else the platform's data folder

SQLite is used in WAL mode: readers never wait, writers wait for one another, and a
process that is killed leaves a file that opens. What a transaction had committed
survives the process; only a power cut may take the last ones with it.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import platformdirs
from pydantic_core import from_json
from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, InterfaceError, NoSuchModuleError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from cotune.errors import CotuneError, InvalidFile, UsageError, missing_extra
from cotune.safety import redact
from cotune.safety.printable import printable
from cotune.safety.private import FILE_MODE, make_folder

FILE = "store.db"
PROJECT_FOLDER = ".cotune"
RUNS = "runs"  # in the project's folder: a folder for each start
BUSY_SECONDS = 30
READ = "BEGIN"
WRITE = "BEGIN IMMEDIATE"  # a writer waits at the start: one that reads first could find its view outdated
_REACH_SECONDS = 10
_TORN = ("SQLITE_NOTADB", "SQLITE_CORRUPT")
_CLOSED = ("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM", "SQLITE_AUTH")
_NO_ROOM = ("SQLITE_FULL", "SQLITE_IOERR")
_AWAY = ("08", "57P01", "57P02", "57P03")  # PostgreSQL's codes: no connection, shut down, crashed, starting up
_REFUSED = re.compile("authentication failed|does not exist|no pg_hba.conf entry|permission denied|invalid|too many")
_BUSY = ("SQLITE_BUSY", "SQLITE_LOCKED")


class OutOfReach(InvalidFile):
    """A database that does not answer now, and may answer later."""


def locate(given: str | None, start: Path) -> URL:
    """Return the URL of the store to use, making the folder of the platform's own."""
    asked = given or os.environ.get("COTUNE_STORE")
    if asked:
        return _asked(asked)
    return URL.create("sqlite", database=str(work_folder(start) / FILE))


def absolute(url: URL) -> URL:
    """Return a store's URL as a process in another folder has to be told it."""
    name = url.database or ":memory:"
    if url.get_backend_name() != "sqlite" or ":memory:" in name:
        return url
    if name.startswith("file:"):
        path = Path(unquote(name.removeprefix("file:"))).absolute()
        return url.set(database=f"file:{quote(str(path))}")
    return url.set(database=str(Path(name).absolute()))


def work_folder(start: Path) -> Path:
    """Return the project's own folder, here or above, else the platform's."""
    folders = (folder / PROJECT_FOLDER for folder in (start.absolute(), *start.absolute().parents))
    project = next((folder for folder in folders if folder.is_dir()), None)
    return project or _data_folder()


def _asked(text: str) -> URL:
    if "://" not in text:
        return URL.create("sqlite", database=text if text == ":memory:" else str(Path(text).expanduser()))
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):
        raise UsageError(f"cannot read {redact.text(text)!r} as the URL of a store") from None
    if url.drivername in ("postgres", "postgresql"):
        return url.set(drivername="postgresql+psycopg")
    if url.get_backend_name() not in ("sqlite", "postgresql"):
        raise UsageError(f"a store is SQLite or PostgreSQL, not {url.get_backend_name()!r}")
    return url


def _data_folder() -> Path:
    folder = platformdirs.user_data_path("cotune")
    try:
        make_folder(folder)
    except OSError as error:
        raise InvalidFile(
            f"cannot make {folder} for the store ({error.strerror}); name one with COTUNE_STORE"
        ) from None
    return folder


def label(url: URL) -> str:
    """Return how the store is called in messages: its path, or its URL without the password."""
    if url.get_backend_name() == "sqlite":
        return url.database or ":memory:"
    return redact.text(url.render_as_string(hide_password=True))


def connect(url: URL) -> Engine:
    """Return an engine whose transactions really begin where they are said to."""
    lite = url.get_backend_name() == "sqlite"
    if lite:
        _closed_to_others(url)
        url = _as_it_is(url) if is_read_only(url) else url
    patience = {"timeout": BUSY_SECONDS} if lite else {"connect_timeout": _REACH_SECONDS}
    dump = partial(json.dumps, allow_nan=False, separators=(",", ":"))
    try:
        engine = create_engine(
            url,
            connect_args=patience,
            pool_pre_ping=not lite,
            json_serializer=dump,
            json_deserializer=_read_json,  # much faster than json.loads on small texts; each point of a curve has one
        )
    except ModuleNotFoundError:
        raise missing_extra("psycopg, the driver of PostgreSQL,", "postgres") from None
    except NoSuchModuleError:
        raise UsageError(f"there is no driver {url.drivername!r}; write postgresql+psycopg://") from None
    if lite:
        event.listen(engine, "connect", _set_up)
        event.listen(engine, "begin", _begin)
    return engine


def _closed_to_others(url: URL) -> None:
    """Make the file of a new store, for its owner alone; SQLite gives its journal the same mode."""
    if not url.database or url.database == ":memory:" or url.database.startswith("file:"):
        return
    with suppress(OSError):  # there already, or nowhere: SQLite says which
        os.close(os.open(url.database, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, FILE_MODE))


def is_read_only(url: URL) -> bool:
    """Return whether a store is a file that is there and that we may read, but neither write nor journal."""
    if url.get_backend_name() != "sqlite" or not url.database or not Path(url.database).is_file():
        return False
    readable = os.access(url.database, os.R_OK)
    return readable and not (os.access(url.database, os.W_OK) and os.access(Path(url.database).parent, os.W_OK))


def _as_it_is(url: URL) -> URL:
    """Return the URL by which SQLite reads a file without making a journal beside it; one that is there counts."""
    path = Path(str(url.database))
    journal = path.with_name(path.name + "-wal")
    still = {} if journal.is_file() and journal.stat().st_size else {"immutable": "1"}
    return url.set(database=f"file:{quote(str(path.absolute()))}", query={"mode": "ro", **still, "uri": "true"})


def _read_json(text: str | bytes) -> Any:
    """Return what JSON says; half a letter, which an older version let in, is shown and not refused."""
    try:
        return from_json(text)
    except ValueError:
        return json.loads(text, object_pairs_hook=lambda pairs: {printable(name): value for name, value in pairs})


def _set_up(connection: sqlite3.Connection, _: Any) -> None:
    connection.isolation_level = None  # the driver must not open or close transactions by itself
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA synchronous = NORMAL")


def _begin(connection: Connection) -> None:
    if begin := connection.get_execution_options().get("begin", READ):
        connection.exec_driver_sql(begin)


def write_ahead(engine: Engine) -> None:
    """Change SQLite to WAL mode. That takes the file for itself alone, and SQLite does not wait for it: we do."""
    outside = engine.execution_options(begin="")  # the mode cannot change within a transaction
    patience = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            with outside.begin() as connection:
                connection.exec_driver_sql("PRAGMA journal_mode = WAL")
        except DBAPIError as error:
            if not _is_busy(error) or time.monotonic() > patience:
                raise
            time.sleep(0.02)
        else:
            return


@contextmanager
def one_line_errors(url: URL) -> Iterator[None]:
    """Turn the database's errors into ones a user can act on, without its stack or password."""
    try:
        yield
    except DBAPIError as error:
        raise _explained(error, url) from None
    except PoolTimeout:
        raise CotuneError(f"too many questions to the store {label(url)} at once; try again") from None


def _is_busy(error: DBAPIError) -> bool:
    """Return whether another process holds the file."""
    return getattr(error.orig, "sqlite_errorname", "").startswith(_BUSY)


def _is_away(error: DBAPIError, url: URL) -> bool:
    """Return whether a server cannot be reached, or goes down or comes up, and has not refused us."""
    if url.get_backend_name() != "postgresql" or not isinstance(error, OperationalError | InterfaceError):
        return False
    state = getattr(error.orig, "sqlstate", None) or ""
    return state.startswith(_AWAY) or (not state and _REFUSED.search(str(error.orig)) is None)


def _explained(error: DBAPIError, url: URL) -> CotuneError:
    reason = " ".join(str(error.orig).split())
    if url.password:
        reason = reason.replace(str(url.password), redact.MASK)
    reason, where = redact.text(reason), label(url)
    kind = getattr(error.orig, "sqlite_errorname", "")
    if kind.startswith(_TORN):
        move = f"mv {shlex.quote(where)} {shlex.quote(where + '.broken')}"
        return InvalidFile(f"{where} is not a readable store ({reason}); move it away and start a new one: {move}")
    if kind.startswith(_CLOSED):
        return InvalidFile(
            f"cannot open or write the store {where} ({reason}); its folder must be there and writable, "
            "or name another store with COTUNE_STORE"
        )
    if kind.startswith(_NO_ROOM):
        return InvalidFile(f"cannot write the store {where} ({reason}): is the disk full? What it held is unharmed")
    if _is_away(error, url):
        return OutOfReach(f"the store {where} is out of reach ({reason})")
    if _is_busy(error):
        return CotuneError(f"the store {where} was kept locked by another process for {BUSY_SECONDS} s; try again")
    return InvalidFile(f"cannot use the store {where} ({reason})")
