"""A store on every database there is: SQLite, and a PostgreSQL server of the tests' own."""

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
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, text

from cotune.store import Store, open_store

_NUMBERS = itertools.count()


def _programs() -> Path | None:
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


@contextmanager
def _server(programs: Path) -> Iterator[str]:
    identity = _identity()
    folder = Path(tempfile.mkdtemp(prefix="cotune-pg-"))  # short: a socket's path has at most 107 letters
    if identity:
        os.chown(folder, identity["user"], identity["group"])

    def call(program: str, *words: str) -> None:
        log = folder / f"{program}.log"
        with log.open("a") as output:
            done = subprocess.run(
                [programs / program, "-D", folder / "data", *words],
                cwd=folder, stdout=output, stderr=output, check=False, **identity,
            )  # fmt: skip
        assert done.returncode == 0, log.read_text()

    try:
        call("initdb", "-U", "cotune", "-A", "trust", "-E", "UTF8", "--no-sync", "--no-instructions")
        # No port is opened: the server listens on a socket in its own folder.
        call("pg_ctl", "start", "-w", "-o", f"-k {folder} -c listen_addresses='' -c fsync=off -c max_connections=20")
        try:
            yield f"postgresql+psycopg://cotune:hunter2@/{{database}}?host={folder}"
        finally:
            call("pg_ctl", "stop", "-w", "-m", "immediate")
    finally:
        shutil.rmtree(folder)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Callable[[], str]]:
    """Return what makes a new, empty database and names its URL."""
    if importlib.util.find_spec("psycopg") is None:
        pytest.skip("needs psycopg (pip install 'cotune[postgres]')")
    programs = _programs()
    if programs is None:
        pytest.skip("needs PostgreSQL's initdb and pg_ctl (Debian package postgresql)")
    with _server(programs) as template:
        engine = create_engine(template.format(database="postgres"), isolation_level="AUTOCOMMIT")

        def create() -> str:
            name = f"store{next(_NUMBERS)}"
            with engine.connect() as connection:
                connection.execute(text(f"CREATE DATABASE {name}"))
            return template.format(database=name)

        try:
            yield create
        finally:
            engine.dispose()


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return where a new store can be."""
    if request.param == "sqlite":
        return str(tmp_path / "store.db")
    return str(request.getfixturevalue("postgres")())


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    with open_store(url) as opened:
        yield opened
