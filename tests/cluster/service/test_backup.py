"""A store is copied while it is used, to the same kind of database and to the other, and is served from there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cli.jobs import cotune, environment
from cotune.cluster.service import states
from cotune.cluster.service.job_files import bytes_in, tidy_ended
from cotune.cluster.service.leadership import Leadership
from cotune.cluster.service.queue import Queue
from cotune.cluster.service.snapshot import JobSnapshot
from cotune.cluster.service.states import State
from cotune.errors import UsageError
from cotune.store import open_store
from cotune.store.copying import copy_store

from test_daemon import job, serving, starts, until  # isort: skip


def test_a_copy_and_its_copy_have_every_row_and_go_on_counting(url: str, tmp_path: Path, snapshot: JobSnapshot) -> None:
    with open_store(url) as source, open_store(str(tmp_path / "copy.db")) as copy:
        queue = Queue(source)
        first, second = queue.submit(snapshot), queue.submit(snapshot, held=True)
        queue.change_rules("las", {"vision": {"jobs": 9}})
        leader = Leadership(source, {"host": "here"})
        assert leader.take()
        led = Queue(source, leader.term)
        led.change(first, lambda one: states.begun(one, State.PROFILING), "measured")
        counts = copy_store(source, copy)
        assert (counts["queue"], counts["queue_events"]) == (2, len(queue.events()))
        with pytest.raises(UsageError, match="is not empty"):
            copy_store(source, copy)
        copied = Queue(copy)
        assert copied.jobs() == queue.jobs()
        assert copied.events() == queue.events()
        assert copied.rules() == queue.rules()
        assert copied.submit(snapshot) not in (first, second)
        assert [one.number for one in copied.jobs()] == [1, 2, 3]
        assert copied.last_event() == queue.last_event() + 1
        other = Leadership(copy, {"host": "there"})
        assert other.take(), "who led the store does not lead its copy"
        assert other.term == leader.term + 1
        other.release()
        leader.release()


def test_a_copy_goes_back_into_the_database_it_came_from(url: str, tmp_path: Path, snapshot: JobSnapshot) -> None:
    with open_store(str(tmp_path / "copy.db")) as copy, open_store(url) as empty:
        id = Queue(copy).submit(snapshot)
        copy_store(copy, empty)
        assert Queue(empty).get(id) == Queue(copy).get(id)
        Queue(empty).submit(snapshot)
        assert [one.number for one in Queue(empty).jobs()] == [1, 2]


def test_a_restored_store_goes_on_though_folders_know_later_starts(tmp_path: Path) -> None:
    store, copy = str(tmp_path / "store.db"), str(tmp_path / "copy.db")
    folder = job(tmp_path, "long", "epochs: 12", 0.3)
    id = cotune(tmp_path, "submit", "long", "--store", store, "--json").json["job"]
    service = serving(tmp_path, store)
    until(service, "running", id)
    runs = folder / ".cotune" / "runs" / id
    while not (runs / "checkpoint" / "w.npy").exists():
        assert service.poll() is None
    assert cotune(tmp_path, "backup", copy, "--store", store, "--json").json["rows"]["queue"] == 1
    service.kill()
    service.communicate()
    assert cotune(tmp_path, "backup", copy, "--store", store).code == 2, "a copy is not written over"
    (runs / "lease.json").write_text(json.dumps({"fence": 40, "pid": os.getpid()}))  # as if it had started on since
    again = cotune(tmp_path, "serve", "--store", copy, "--slots", "2", "--drain")
    assert again.code == 0, again.err
    with open_store(copy) as opened:
        ended = Queue(opened).get(id)
    assert ended.state is State.DONE
    numbers = [fence for fence, *_ in starts(folder)]
    assert numbers[-1] > 40
    assert starts(folder)[-1][2] > 0, "it went on from its checkpoint"


def test_the_files_of_the_jobs_that_ended_first_go_where_all_take_too_much(
    tmp_path: Path, snapshot: JobSnapshot
) -> None:
    with open_store(str(tmp_path / "store.db")) as store:
        queue, folders = Queue(store), []
        for _ in range(3):
            id = queue.submit(snapshot)
            folder = tmp_path / ".cotune" / "runs" / id
            folder.mkdir(parents=True)
            (folder / "rank-0.log").write_bytes(b"x" * 1000)
            queue.change(id, lambda one: states.moved(one, State.CANCELLED), "over", folder=str(folder))
            folders.append(folder)
        assert bytes_in(folders[0]) == 1000
        assert tidy_ended(queue, None, 2500.0) == 1
        assert [folder.exists() for folder in folders] == [False, True, True]
        assert tidy_ended(queue, None, 2500.0) == 0
        assert tidy_ended(queue, 0.0, 2500.0) == 2


def test_a_backup_that_finds_no_room_leaves_nothing_and_the_next_one_is_made(tmp_path: Path) -> None:
    open_store(str(tmp_path / "team.db")).close()
    before = sorted(tmp_path.iterdir())
    command = [sys.executable, "-m", "cotune", "backup", "copy.db", "--store", "team.db"]
    full = subprocess.run(
        ["bash", "-c", 'ulimit -f 48 && exec "$@"', "bash", *command],
        cwd=tmp_path,
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        check=False,
    )
    assert full.returncode == 4, full.stderr
    assert "copy.db" in full.stderr
    assert sorted(tmp_path.iterdir()) == before
    made = cotune(tmp_path, *command[3:])
    assert made.code == 0, made.err
    assert sorted(file.name for file in tmp_path.iterdir()) == ["copy.db", "team.db"]


def test_a_backup_does_not_write_through_a_link_that_leads_nowhere(tmp_path: Path) -> None:
    open_store(str(tmp_path / "team.db")).close()
    (tmp_path / "link.db").symlink_to("elsewhere.db")
    refused = cotune(tmp_path, "backup", "link.db", "--store", "team.db")
    assert refused.code == 2
    assert "is there already" in refused.err
    assert not (tmp_path / "elsewhere.db").exists()
