"""The queue as its users see it, on SQLite and on PostgreSQL: with no service running."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from cli.jobs import cotune
from cotune.cluster.service import states
from cotune.cluster.service.documents import job_document, why_document
from cotune.cluster.service.leadership import Leadership, NoLongerLeading
from cotune.cluster.service.queue import Queue
from cotune.cluster.service.rules import QuotaFull
from cotune.cluster.service.snapshot import JobSnapshot
from cotune.cluster.service.states import IllegalMove, State
from cotune.errors import InvalidFile, NotFound, UsageError
from cotune.store import open_store


def test_a_job_is_handed_in_listed_and_found_by_a_few_letters_or_its_name(queue: Queue, snapshot: JobSnapshot) -> None:
    id = queue.submit(snapshot)
    (job,) = queue.jobs()
    assert (job.id, job.name, job.team, job.state, job.deadline) == (id, "digits", "vision", State.QUEUED, 7200.0)
    assert queue.get(id[:6]) == queue.get("digits") == job
    assert job.file.settings().job.folder == snapshot.folder
    document = job_document(job, queue.now())
    assert document.keys() >= {"id", "name", "state", "team", "priority", "workers", "deadline", "eta", "reason"}
    assert document["eta"].keys() >= {"low", "mid", "high"}
    with pytest.raises(NotFound, match="no job 'another'"):
        queue.get("another")


def test_without_a_service_a_job_is_cancelled_at_once_and_twice_is_fine(queue: Queue, snapshot: JobSnapshot) -> None:
    id = queue.submit(snapshot)
    assert "no service runs" in why_document(queue, queue.get(id))["words"]
    assert queue.cancel(id).state is State.CANCELLED
    assert queue.cancel(id).state is State.CANCELLED
    assert [event.state for event in queue.events(id)] == [State.QUEUED, State.CANCELLED]
    with pytest.raises(IllegalMove, match="cancelled"):
        queue.hold(id)


def test_one_leads_and_what_the_one_before_writes_is_refused(queue: Queue, url: str, snapshot: JobSnapshot) -> None:
    with open_store(url) as store:
        first = Leadership(store, {"pid": 1})
        second = Leadership(store, {"pid": 2}, seconds=-1.0)
        first._holder, second._holder = "here", "there"
        assert first.take()
        assert not second.take()
        id = queue.submit(snapshot)
        led = Queue(store, first.term)
        led.change(id, lambda one: states.begun(one, State.PROFILING), "measured")
        assert queue.cancel(id).state is State.STOPPING, "its leader has to stop it first"
        first.release()
        assert second.take()
        assert second.term == first.term + 1
        with pytest.raises(NoLongerLeading):
            led.change(id, states.put_back, "too late")
        assert Queue(store, second.term).change(id, states.put_back, "found again").state is State.CANCELLED
        second.release()


def test_many_hand_in_at_once_and_every_event_has_its_number(url: str, snapshot: JobSnapshot) -> None:
    with open_store(url) as store, ThreadPoolExecutor(4) as pool:
        queue = Queue(store)
        ids = list(pool.map(lambda _: queue.submit(snapshot), range(12)))
        assert {job.id for job in queue.jobs()} == set(ids)
        assert sorted(event.job for event in queue.events()) == sorted(ids)
        assert queue.counts()[State.QUEUED] == 12


@pytest.mark.parametrize(
    "text",
    ["run: a {batch_size}\nsearch: {workers: 1\t2}\n", f"run: {'[' * 2000}{']' * 2000}", "name: nothing to run\n"],
    ids=["a tab in an axis", "2,000 deep", "no command"],
)
def test_a_bad_job_file_is_refused_when_it_is_handed_in(text: str, tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(text)
    with pytest.raises(InvalidFile):
        JobSnapshot.take(tmp_path / "job.yaml")


def test_nobody_waits_for_a_pipe_that_is_handed_in(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "job.yaml")
    with pytest.raises(InvalidFile, match="not a regular file"):
        JobSnapshot.take(tmp_path / "job.yaml")


def test_rules_are_changed_for_all_who_look_and_a_full_team_waits(queue: Queue, snapshot: JobSnapshot) -> None:
    assert queue.rules().document() == {"policy": "joint", "quotas": {}}
    queue.change_rules("las", {"vision": {"jobs": 2, "workers": 4}}, by="ada")
    queue.change_rules(quotas={"vision": {"workers": None}})
    assert queue.rules().document() == {"policy": "las", "quotas": {"vision": {"workers": None, "jobs": 2}}}
    first, _ = queue.submit(snapshot), queue.submit(snapshot)
    with pytest.raises(QuotaFull, match="team vision: 2 of 2 open jobs"):
        queue.submit(snapshot)
    queue.submit(replace(snapshot, team="text"))
    queue.cancel(first)
    queue.submit(snapshot)
    with pytest.raises(NotFound, match="no policy"):
        queue.change_rules("nobody")
    with pytest.raises(UsageError, match="at most 0 jobs or more"):
        queue.change_rules(quotas={"vision": {"jobs": -1}})
    assert queue.change_rules(quotas={"vision": {"jobs": None}}).quotas == {}


def test_a_list_shows_of_each_job_what_the_whole_job_does(queue: Queue, snapshot: JobSnapshot) -> None:
    first = queue.submit(snapshot)
    queue.submit(replace(snapshot, team="", user="ada", target=None, deadline=None), held=True)
    queue.cancel(first)
    now = queue.now()
    whole = [job_document(job, now) for job in queue.jobs()]
    assert [job_document(job, now) for job in queue.listed()] == whole
    assert [one.id for one in queue.listed(states=[State.CANCELLED])] == [first]
    assert [one.user for one in queue.listed(team="", last=1)] == ["ada"]


def test_nobody_tells_when_a_job_ends_that_is_held(queue: Queue, snapshot: JobSnapshot) -> None:
    id = queue.submit(snapshot)
    leader = Leadership(queue.store, {})
    assert leader.take()
    led = Queue(queue.store, leader.term)
    soon = {id: {"eta": [queue.now() + at for at in (1.0, 2.0, 3.0)]}}
    led.update(soon)
    assert job_document(queue.get(id), queue.now())["eta"]["mid"] is not None
    queue.hold(id)
    led.update(soon)  # as it was forecast while it came to its checkpoint
    leader.release()
    assert job_document(queue.get(id), queue.now())["eta"]["mid"] is None


@pytest.mark.parametrize("verb", [("queue",), ("status", "5"), ("why", "5"), ("rules",)])
def test_looking_at_a_store_that_is_not_there_makes_none(verb: tuple[str, ...], tmp_path: Path) -> None:
    looked = cotune(tmp_path, *verb, "--store", "tema.db")
    assert looked.code == NotFound.exit_code
    assert "no store at" in looked.err
    assert not (tmp_path / "tema.db").exists()


def test_a_job_is_given_another_priority_until_it_has_ended(
    url: str, queue: Queue, snapshot: JobSnapshot, tmp_path: Path
) -> None:
    id = queue.submit(snapshot)
    asked = cotune(tmp_path, "prioritise", id, "--priority", "-7", "--store", url, "--json")
    assert (asked.code, asked.json["job"]["priority"], queue.get(id).priority) == (0, -7, -7)
    assert cotune(tmp_path, "prioritise", id, "--priority", "1000001", "--store", url).code == UsageError.exit_code
    queue.cancel(id)
    late = cotune(tmp_path, "prioritise", id, "--priority", "7", "--store", url)
    assert (late.code, queue.get(id).priority) == (UsageError.exit_code, -7)
    assert "ended already" in late.err
