"""What an operator has: metrics, files that go after a while, samples that come along, and a look ahead."""

from __future__ import annotations

import urllib.request
from dataclasses import replace
from pathlib import Path

import pytest

from cli.jobs import cotune
from cotune.cluster.loop import Changes
from cotune.cluster.policies.joint import Joint
from cotune.cluster.policy import Submission
from cotune.cluster.service import states
from cotune.cluster.service.device_types import SLOT
from cotune.cluster.service.forecasts import Remaining, spans
from cotune.cluster.service.job_files import tidy_ended
from cotune.cluster.service.queue import Queue
from cotune.cluster.service.snapshot import JobSnapshot, adopt_samples
from cotune.cluster.service.usage import DecisionTimes, exposition, metrics_server
from cotune.cluster.work import Steady
from cotune.errors import NotFound
from cotune.remedies import explained
from cotune.run.environment import free_ports
from cotune.store import open_store
from cotune.types import Cluster, Config, Device, Sample


def test_the_metrics_count_jobs_by_state_and_are_served_on_this_machine(queue: Queue, snapshot: JobSnapshot) -> None:
    queue.cancel(queue.submit(snapshot))
    queue.submit(snapshot)
    decisions = DecisionTimes()
    decisions.watch(Changes(0.0, [], [], 0.25))
    text = exposition(queue, decisions)
    assert "cotune_decision_seconds_longest 0.25" in text
    assert 'cotune_jobs{state="queued"} 1' in text
    assert 'cotune_jobs{state="cancelled"} 1' in text
    (port,) = free_ports(1, set())
    with metrics_server(lambda: text, port), urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        assert answer.read().decode() == text


def test_files_of_a_job_go_after_its_end_and_those_of_others_stay(tmp_path: Path, snapshot: JobSnapshot) -> None:
    with open_store(str(tmp_path / "store.db")) as store:
        queue = Queue(store)
        ended, waiting = queue.submit(snapshot), queue.submit(snapshot)
        for id in (ended, waiting):
            folder = tmp_path / ".cotune" / "runs" / id
            folder.mkdir(parents=True)
            queue.change(id, lambda one: states.moved(one, states.State.PROFILING), "measured", folder=str(folder))
        queue.change(ended, lambda one: states.moved(one, states.State.FAILED), "it failed")
        assert tidy_ended(queue, 3600.0) == 0
        assert tidy_ended(queue, -1.0) == 1
        assert [one.name for one in (tmp_path / ".cotune" / "runs").iterdir()] == [waiting]


def test_samples_of_the_project_come_along_once(tmp_path: Path, snapshot: JobSnapshot) -> None:
    (tmp_path / ".cotune").mkdir()
    job = snapshot.settings().job
    with open_store(str(tmp_path / ".cotune" / "store.db")) as project:
        project.save(job, Sample(Config.data_parallel(16, 1), epochs=1.0, epoch_seconds=2.0, id="one", ended=True))
    with open_store(str(tmp_path / "team.db")) as store:
        assert [adopt_samples(store, snapshot.settings()) for _ in range(2)] == [1, 0]
        assert [sample.id for sample in store.samples(job)] == ["one"]


def test_a_look_ahead_has_the_second_job_start_when_the_first_has_ended() -> None:
    config = Config.data_parallel(16, 1, SLOT)
    jobs = [
        Remaining(Submission(name, 0.0, 1, 10.0, work=Steady(1.0, {config: 0.1}), wants=config), left, 0.1)
        for name, left in (("first", 0.5), ("second", 1.0))
    ]
    seen = spans(jobs, Joint(), Cluster((Device(SLOT, 1),)), 0.0)
    assert seen["first"][1][1] == pytest.approx(5.0)
    assert seen["second"][0][1] == pytest.approx(5.0)
    low, mid, high = seen["second"][1]
    assert low < mid < high
    assert mid == pytest.approx(15.0)


def test_a_look_ahead_counts_the_start_of_those_that_do_not_run_yet() -> None:
    config = Config.data_parallel(16, 1, SLOT)
    work = Submission("", 0.0, 1, 10.0, work=Steady(1.0, {config: 0.1}), wants=config)
    runs, starts = (
        Remaining(replace(work, name="runs"), 0.5, 0.0),
        Remaining(replace(work, name="starts"), 1.0, 0.0, 3.0),
    )
    seen = spans([runs, starts], Joint(), Cluster((Device(SLOT, 2),)), 0.0)
    assert seen["runs"][1] == pytest.approx((5.0, 5.0, 5.0))
    assert seen["starts"][1] == pytest.approx((13.0, 13.0, 13.0))


def test_a_check_refuses_a_store_that_cannot_be_written(tmp_path: Path) -> None:
    file = tmp_path / "store.db"
    open_store(str(file)).close()
    assert cotune(tmp_path, "serve", "--check", "--store", str(file)).code == 0
    checked = cotune(tmp_path, "serve", "--check", "--store", f"sqlite:///file:{file}?mode=ro&uri=true")
    assert checked.code == 4
    assert "cannot open or write the store" in checked.err


def test_looking_at_an_empty_file_leaves_it_empty(tmp_path: Path) -> None:
    (tmp_path / "empty.db").touch()
    looked = cotune(tmp_path, "queue", "--store", "empty.db")
    assert (looked.code, (tmp_path / "empty.db").stat().st_size) == (3, 0)
    assert "is an empty file and no store yet" in looked.err


def test_advice_names_the_job_file_where_it_is_not_found_by_itself(tmp_path: Path) -> None:
    text = "name: digits\nrun: python train.py {batch_size} {epochs}\nexamples: 1440\nepochs: 2\n"
    (tmp_path / "train.py").touch()
    for name in ("cotune.yaml", "k.yaml"):
        (tmp_path / name).write_text(text)
    found, other = (JobSnapshot.take(tmp_path / name)[0] for name in ("cotune.yaml", "k.yaml"))
    assert (found.named, other.named) == ("", "k.yaml")
    unmeasured = NotFound("no samples", remedy="profile")
    assert explained(unmeasured, found.named) == "no samples: cotune profile"
    assert explained(unmeasured, other.named) == "no samples: cotune profile --file k.yaml"
