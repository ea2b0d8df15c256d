"""Stores that are torn, closed, full or out of reach: one clear line, and nothing lost."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from records import CONFIG, JOB, curve, plan, sample

import cotune
from cotune.errors import CotuneError, InvalidFile, NotFound, UsageError
from cotune.store import open_store

NOBODY = 65534
_WRITER = """
import sys
from records import JOB, sample
from cotune.store import open_store
store = open_store(sys.argv[1])
number = 0
while True:
    store.save(JOB, sample(f"s{number}", 1, ended=False))
    store.save(JOB, sample(f"s{number}", 3, ended=number % 2 == 0))
    print(number, flush=True)
    number += 1
"""


def test_a_writer_killed_in_the_middle_loses_no_finished_sample(url: str) -> None:
    path = os.pathsep.join([str(Path(cotune.__file__).parents[1]), str(Path(__file__).parent)])
    command = [sys.executable, "-c", _WRITER, url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": path}) as child:
        assert child.stdout is not None
        told = [int(child.stdout.readline()) for _ in range(25)]
        child.kill()
        told += [int(line) for line in child.stdout]
    assert child.returncode == -signal.SIGKILL
    with open_store(url) as store:
        found = {one.id: one for one in store.samples(JOB)}
        for number in told:
            assert found[f"s{number}"].curve == curve(3)
            cut_short = found[f"s{number}"].failure is not None
            assert cut_short == (number % 2 == 1)
            assert not found[f"s{number}"].failed
        assert len(found) - len(told) in (0, 1)
        assert all(one.ended for one in found.values())
        assert store.close_orphans() == ()
    if Path(url).exists():
        with sqlite3.connect(url) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        connection.close()


def _whole_line(error: CotuneError) -> str:
    """Return what a user sees, having checked that it is one line with no stack of the database's."""
    assert error.__suppress_context__
    shown = "".join(traceback.format_exception_only(error))
    assert shown.count("\n") == 1
    assert "sqlalche" not in shown.lower()
    return str(error)


@pytest.mark.parametrize("damage", ["garbage", "torn header", "torn pages"])
def test_a_corrupt_file_is_named_with_what_to_do(tmp_path: Path, damage: str) -> None:
    file = tmp_path / "my store.db"
    with open_store(str(file)) as store:
        for number in range(200):
            store.save(JOB, sample(f"s{number}"))
    content = file.read_bytes()
    broken = {
        "garbage": b"no database at all\n" * 100,
        "torn header": b"\0" * 100 + content[100:],
        "torn pages": content[:4096] + b"\xff" * (len(content) - 4096),
    }[damage]
    file.write_bytes(broken)
    with pytest.raises(InvalidFile) as raised, open_store(str(file)) as store:
        store.samples()
    line = _whole_line(raised.value)
    assert str(file) in line
    assert f"mv '{file}' '{file}.broken'" in line
    assert file.read_bytes() == broken


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """Return a folder that another user can reach, unlike pytest's own."""
    folder = Path(tempfile.mkdtemp(prefix="cotune-"))
    folder.chmod(0o755)
    yield folder
    folder.chmod(0o755)
    shutil.rmtree(folder)


def _in_a_child(action: Callable[[], str]) -> str:
    """Return what an action says in a forked child, which may give up rights for good."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            said = action()
        except BaseException:
            said = traceback.format_exc()
        os.write(writer, said.encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as told:
        said = told.read()
    os.waitpid(child, 0)
    return said


def _refused(file: Path) -> str:
    try:
        with open_store(str(file)) as store:
            store.save(JOB, sample("b"))
    except InvalidFile as error:
        return _whole_line(error)
    return "it was written"


def _as_nobody(file: Path) -> str:
    if os.geteuid() == 0:  # root may write anywhere
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    return _refused(file)


@pytest.mark.parametrize("closed", ["folder", "file", "both"])
def test_a_store_that_may_not_be_written_is_refused_in_one_line(open_folder: Path, closed: str) -> None:
    file = open_folder / "store.db"
    with open_store(str(file)) as store:
        store.save(JOB, sample("a"))
    file.chmod(0o666 if closed == "folder" else 0o444)
    open_folder.chmod(0o777 if closed == "file" else 0o555)
    said = _in_a_child(lambda: _as_nobody(file))
    assert said.startswith(f"cannot open or write the store {file} (")
    assert said.endswith("or name another store with COTUNE_STORE")
    open_folder.chmod(0o755)
    with open_store(str(file)) as store:
        assert store.samples() == (sample("a"),)


def _read_as_nobody(file: Path) -> str:
    if os.geteuid() == 0:
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    with open_store(str(file)) as store:
        return ",".join(one.id for one in store.samples())


@pytest.mark.parametrize("journal", [False, True])
@pytest.mark.parametrize("closed", ["folder", "file", "both"])
def test_a_store_that_may_only_be_read_is_read(open_folder: Path, closed: str, journal: bool) -> None:
    file = open_folder / "a store?#%.db"
    store = open_store(str(file))
    store.save(JOB, sample("a", ended=False))
    if not journal:
        store.close()
    for written in open_folder.iterdir():
        written.chmod(0o666 if closed == "folder" else 0o444)
    open_folder.chmod(0o777 if closed == "file" else 0o555)
    said = _in_a_child(lambda: _read_as_nobody(file))
    open_folder.chmod(0o755)
    store.close()
    assert said == "a"


def test_a_store_that_cannot_be_made_is_refused_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "folder").mkdir()
    assert "cannot open or write the store" in _refused(tmp_path / "folder")
    assert "its folder must be there" in _refused(tmp_path / "missing" / "store.db")
    (tmp_path / "file").write_text("")
    monkeypatch.delenv("COTUNE_STORE", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "file"))
    with pytest.raises(InvalidFile, match=r"cannot make .* for the store"):
        open_store(None, tmp_path)


def _fill(file: Path) -> str:
    """Write under a limit on the size of files, which fails like a full disk, until it is reached."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    with open_store(str(file)) as store:
        room = 300_000
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))
        try:
            for number in range(10_000):
                store.save(JOB, sample(f"s{number}"))
                done = number
        except InvalidFile as error:
            assert len(store.samples()) >= done
            return f"{done} {_whole_line(error)}"
    return "it never got full"


def test_a_full_disk_is_told_and_what_was_stored_stays(tmp_path: Path) -> None:
    file = tmp_path / "store.db"
    done, _, line = _in_a_child(lambda: _fill(file)).partition(" ")
    assert line.startswith(f"cannot write the store {file} ("), line
    assert "disk full" in line
    with open_store(str(file)) as store:
        assert [one.id for one in store.samples()][: int(done) + 1] == [f"s{n}" for n in range(int(done) + 1)]
        store.save(JOB, sample("later"))
        assert store.save_plan(JOB, plan())


def test_a_server_out_of_reach_is_told_without_the_password(tmp_path: Path) -> None:
    pytest.importorskip("psycopg", reason="needs psycopg (pip install 'cotune[postgres]')")
    for url in (
        f"postgresql://me:hunter2@/runs?host={tmp_path}",
        f"postgresql+psycopg://me@/runs?host={tmp_path}&password=hunter2",
    ):
        with pytest.raises(InvalidFile) as raised:
            open_store(url)
        line = _whole_line(raised.value)
        assert line.startswith("the store postgresql+psycopg://me")
        assert "hunter2" not in line


def test_a_url_that_is_no_store_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="SQLite or PostgreSQL, not 'mysql'"):
        open_store("mysql://me:hunter2@host/db")
    with pytest.raises(UsageError, match=r"no driver 'postgresql\+nothing'"):
        open_store("postgresql+nothing://me:hunter2@host/db")
    with pytest.raises(UsageError, match="cannot read") as raised:
        open_store("postgresql://me:hunter2@host:port/db")
    assert "hunter2" not in str(raised.value)
    with open_store(f"sqlite:///{tmp_path}/store.db") as store, pytest.raises(NotFound):
        store.sample(CONFIG.device)
