"""A PostgreSQL server of the tests' own, which can be taken away and brought back."""

from __future__ import annotations

import importlib.util
import itertools
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

_NUMBERS = itertools.count()
_MEMORY = Path("/dev/shm")
_ROOM = 4 << 30  # bytes: a database for every test takes a quarter


def programs() -> Path | None:
    """Return the folder of initdb and pg_ctl, which Debian keeps off the PATH."""
    found = shutil.which("initdb")
    folders = [Path(found).resolve().parent] if found else []
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((folder for folder in folders if (folder / "initdb").exists() and (folder / "pg_ctl").exists()), None)


def _identity() -> dict[str, Any]:
    """Return who runs the server: PostgreSQL refuses root."""
    if os.geteuid() != 0:
        return {}
    known = {entry.pw_name for entry in pwd.getpwall()}
    owner = pwd.getpwnam("postgres" if "postgres" in known else "nobody")
    return {"user": owner.pw_uid, "group": owner.pw_gid, "extra_groups": []}


@dataclass(frozen=True)
class Server:
    """A PostgreSQL server of the tests' own, which can be taken away and brought back."""

    template: str
    call: Callable[..., None]
    options: str

    def stop(self) -> None:
        self.call("pg_ctl", "stop", "-w", "-m", "fast")

    def start(self) -> None:
        self.call("pg_ctl", "start", "-w", "-o", self.options)

    def database(self) -> str:
        """Make a new, empty database, and return its URL."""
        from sqlalchemy import create_engine, text

        name = f"store{next(_NUMBERS)}"
        engine = create_engine(self.template.format(database="postgres"), isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.execute(text(f"CREATE DATABASE {name}"))
        engine.dispose()
        return self.template.format(database=name)


def _quick_folder() -> Path | None:
    """Return where files are in memory, if there is room: a disk takes seconds to remove them."""
    return _MEMORY if _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free > _ROOM else None


@contextmanager
def running(folder_of_programs: Path) -> Iterator[Server]:
    identity = _identity()
    # A short name: a socket's path has at most 107 letters.
    folder = Path(tempfile.mkdtemp(prefix="cotune-pg-", dir=_quick_folder()))
    if identity:
        os.chown(folder, identity["user"], identity["group"])

    def call(program: str, *words: str) -> None:
        log = folder / f"{program}.log"
        with log.open("a") as output:
            done = subprocess.run(
                [folder_of_programs / program, "-D", folder / "data", *words],
                cwd=folder, stdout=output, stderr=output, check=False, **identity,
            )  # fmt: skip
        assert done.returncode == 0, log.read_text()

    try:
        call("initdb", "-U", "cotune", "-A", "trust", "-E", "UTF8", "--no-sync", "--no-instructions")
        # No port is opened: the server listens on a socket in its own folder.
        options = f"-k {folder} -c listen_addresses='' -c fsync=off -c max_connections=20"
        server = Server(f"postgresql+psycopg://cotune:hunter2@/{{database}}?host={folder}", call, options)
        server.start()
        try:
            yield server
        finally:
            call("pg_ctl", "stop", "-w", "-m", "immediate")
    finally:
        shutil.rmtree(folder)


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """A PostgreSQL server, or the reason why there is none."""
    if importlib.util.find_spec("psycopg") is None:
        pytest.skip("needs psycopg (pip install 'cotune[postgres]')")
    found = programs()
    if found is None:
        pytest.skip("needs PostgreSQL's initdb and pg_ctl (Debian package postgresql)")
    with running(found) as server:
        yield server


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return where a new store can be, in each kind of database."""
    if request.param == "sqlite":
        return str(tmp_path / "store.db")
    return str(request.getfixturevalue("server").database())
