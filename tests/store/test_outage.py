"""A team's database that goes away and comes back: nothing ends, nothing is lost, and nothing is told twice."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from records import JOB, plan, sample
from sqlalchemy import make_url

import cotune
from cli.jobs import TRAINING, script
from cli.jobs import cotune as cotune_in
from cotune.errors import CotuneError
from cotune.store import Store, open_store
from cotune.store.spool import OutagePolicy

from postgres_server import Server  # isort: skip

JOB_FLAGS = ("--workers", "1", "--batch-size", "16", "--max-epochs", "6", "--max-samples", "2")
HASTY = OutagePolicy(first_pause=0.01, longest_pause=0.05, patience=30.0)
_DYING = """
import os, sys
from pathlib import Path
from records import JOB, sample
from cotune.store import open_store
store = open_store(sys.argv[1])
print("open", flush=True)
sys.stdin.readline()
store.save(JOB, sample("orphan", 2, ended=False))
print("saved", flush=True)
os._exit(9)
"""


@pytest.fixture
def away(server: Server) -> Iterator[Callable[[], None]]:
    """Return what takes the server away; it is back after the test in any case."""
    gone: list[bool] = []

    def stop() -> None:
        server.stop()
        gone.append(True)

    yield stop
    if gone and not (Path(server.template.partition("host=")[2]) / ".s.PGSQL.5432").exists():
        server.start()


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project's folder, where what has to wait is kept."""
    (tmp_path / ".cotune").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path / ".cotune" / "spool"


def test_samples_that_are_saved_while_the_database_is_away_are_there_when_it_is_back(
    server: Server, away: Callable[[], None], place: Path
) -> None:
    url = server.database()
    with Store(make_url(url), HASTY) as store:
        store.save(JOB, sample("growing", 1, ended=False))
        away()
        for epochs in (2, 3, 4):
            store.save(JOB, sample("growing", epochs, ended=False))
        store.save(JOB, sample("another", 2))
        assert len(list(place.rglob("*.json"))) == 2, "the last word on each sample waits"
        assert all(path.stat().st_mode & 0o077 == 0 for path in place.rglob("*"))
        server.start()
        found = {one.id: one for one in store.samples(JOB)}
        assert found == {"growing": sample("growing", 4, ended=False), "another": sample("another", 2)}
        assert list(place.rglob("*.json")) == []
        store.save(JOB, sample("growing", 5))
        assert store.sample("growing") == sample("growing", 5)


def test_who_reads_or_plans_waits_for_the_database(server: Server, away: Callable[[], None], place: Path) -> None:
    with Store(make_url(server.database()), HASTY) as store:
        store.save(JOB, sample("early", 2))
        for ask in (lambda: store.samples(JOB), store.jobs, lambda: store.save_plan(JOB, plan())):
            away()
            back = threading.Timer(0.3, server.start)
            back.start()
            assert ask()
            back.join()
        assert store.latest_plan(JOB) == plan()


def test_a_spool_is_bounded_and_a_database_that_stays_away_is_told_of(
    server: Server, away: Callable[[], None], place: Path
) -> None:
    store = Store(make_url(server.database()), OutagePolicy(0.01, 0.05, patience=0.1, most_bytes=4000))
    away()
    store.save(JOB, sample("first", 2))
    with pytest.raises(CotuneError, match="waits for it in"):
        store.save(JOB, sample("second", 40))
    assert 0 < sum(path.stat().st_size for path in place.rglob("*.json")) <= 4000
    with pytest.raises(CotuneError, match=r"out of reach.*samples wait in"):
        store.samples(JOB)
    store.close()


def test_what_a_process_could_not_tell_before_it_died_is_told_by_the_next(
    server: Server, away: Callable[[], None], place: Path
) -> None:
    url = server.database()
    path = os.pathsep.join([str(Path(cotune.__file__).parents[1]), str(Path(__file__).parent)])
    command = [sys.executable, "-c", _DYING, url]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, text=True, env={**os.environ, "PYTHONPATH": path}, **pipes) as child:  # type: ignore[call-overload]
        assert child.stdout.readline() == "open\n"
        away()
        child.stdin.write("\n")
        child.stdin.flush()
        assert child.stdout.readline() == "saved\n"
        child.wait()
    assert len(list(place.rglob("*.json"))) == 1
    server.start()
    with open_store(url) as store:
        (found,) = store.samples(JOB)
        assert (found.id, len(found.curve), found.ended) == ("orphan", 2, True)
        assert "interrupted" in str(found.failure)
    assert list(place.rglob("*.json")) == []


@pytest.mark.parametrize("verb", ["run", "profile"])
def test_a_command_outlives_a_restart_of_its_database(
    server: Server, away: Callable[[], None], place: Path, verb: str
) -> None:
    project, url = place.parents[1], server.database()
    pause = "if epoch == 2: Path('gone').touch()\n    while epoch == 2 and not Path('back').exists(): time.sleep(0.01)"
    script(project, after=f"{pause}\n    time.sleep(0.05)")
    words = {"run": ("run", "-w", "1", "-b", "16", "--epochs", "9"), "profile": ("profile", *JOB_FLAGS)}[verb]
    flags = ("--name", "digits", "--examples", "1440", "--store", url, *TRAINING)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(cotune_in, project, *words, *flags)
        while not (project / "gone").exists():
            assert not running.done(), running.result()
        away()
        (project / "back").touch()
        while not list(place.rglob("*.json")):
            assert not running.done(), running.result()
        server.start()
        done = running.result()
    assert done.code == 0, done.err
    with open_store(url) as store:
        samples = store.samples()
        assert samples
        assert all(one.ended and one.failure is None for one in samples)
        assert verb == "profile" or [point.epoch for point in samples[-1].curve] == list(range(1, 10))
    assert list(place.rglob("*.json")) == []


def test_a_password_that_is_refused_is_no_outage(server: Server, place: Path) -> None:
    url = make_url(server.database()).set(database="no_such_database")
    with pytest.raises(CotuneError, match="cannot use the store"):
        Store(url, HASTY)
