"""`cotune submit --wait`: real jobs to their ends, served by a service that runs or by one of their own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cli.jobs import cotune, environment
from cotune.cluster.service.queue import Queue
from cotune.store import open_store

from test_daemon import job, serving, starts, until  # isort: skip


def submitting(folder: Path, store: str, *words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "cotune", "submit", *words, "--wait", "--store", store]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=folder, env=environment(folder), stdout=pipe, stderr=pipe, text=True)


def states(store: str) -> dict[str, str]:
    with open_store(store) as opened:
        return {job.name: job.state.value for job in Queue(opened).jobs()}


def wait_for_none(folder: Path) -> None:
    """Return once no process works in a folder."""
    latest = time.monotonic() + 20.0
    while left := [one for one in Path("/proc").glob("[0-9]*/cwd") if one.resolve().is_relative_to(folder)]:
        assert time.monotonic() < latest, left
        time.sleep(0.1)


def wait_for_a_checkpoint(process: subprocess.Popen[str], store: str, folder: Path) -> None:
    """Return once a job that a command waits for runs and has left a checkpoint."""
    until(process, f"{folder.name}: running")
    with open_store(store) as opened:
        (id,) = (job.id for job in Queue(opened).jobs() if job.name == folder.name)
    while not (folder / ".cotune" / "runs" / id / "checkpoint" / "w.npy").exists():
        assert process.poll() is None
        time.sleep(0.1)


@pytest.fixture
def store(tmp_path: Path) -> str:
    return str(tmp_path / "store.db")


def test_the_command_serves_its_jobs_and_ends_with_the_code_of_the_worst(tmp_path: Path, store: str) -> None:
    job(tmp_path, "good", "epochs: 2")
    job(
        tmp_path,
        "hard",
        "target: {metric: accuracy, at_least: 0.999}\nmax_epochs: 2\nconfidence: 0.01\nprefer: accurate",
    )
    job(tmp_path, "broken", "epochs: 2")
    (tmp_path / "broken" / "train.py").write_text("raise SystemExit('no data')\n")
    done = cotune(tmp_path, "submit", "good", "hard", "broken", "--wait", "--slots", "1", "--store", store, "--json")
    good, hard, broken = done.json["jobs"]
    assert done.code == 7, done.err
    assert (good["name"], good["state"], good["result"]["epochs"]) == ("good", "done", 2)
    assert hard["state"] in ("missed", "declined")
    assert (broken["name"], broken["state"]) == ("broken", "failed")
    assert "no data" in broken["reason"]
    assert "good: running" in done.err
    with open_store(store) as opened:
        assert all(opened.sample(id).purpose == "run" for id in good["result"]["samples"])
        leader = Queue(opened).leader()
        assert leader is not None
        assert not leader.is_alive, "the service has ended with the last job"
    wait_for_none(tmp_path)


def test_jobs_share_one_worker_by_the_policy_that_the_store_names(tmp_path: Path, store: str) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "cotune.yaml").write_text(
            f"name: {name}\nexamples: 400\nepochs: 2\n"
            "run: python -m cotune.workloads.train --limit 400 --batch-size {batch_size} --epochs {epochs}\n"
            "search: {workers: [1], batch_size: [20, 40], servers: [0, 1]}\nbudget: {profile: 20s}\n"
        )
    assert cotune(tmp_path, "rules", "--policy", "optimus(interval=1)", "--store", store).code == 0
    done = cotune(tmp_path, "submit", "one", "two", "--wait", "--slots", "2", "--store", store)
    assert done.code == 0, done.err
    lines = [line.split() for line in done.out.splitlines()]
    assert [words[0] for words in lines[-2:]] == ["one", "two"]
    assert done.out.count("done after") == 2


def test_ctrl_c_ends_all_that_was_started_and_a_later_service_resumes(tmp_path: Path, store: str) -> None:
    folder = job(tmp_path, "long", "epochs: 30", 0.3)
    waiting = submitting(tmp_path, store, "long")
    wait_for_a_checkpoint(waiting, store, folder)
    waiting.send_signal(signal.SIGINT)
    _, said = waiting.communicate()
    assert waiting.returncode == 130, said
    assert "`cotune serve --drain` resumes" in said
    assert states(store) == {"long": "waiting"}
    wait_for_none(tmp_path)
    again = serving(tmp_path, store, "--drain")
    said = again.communicate()[1]
    assert states(store) == {"long": "done"}, said
    assert starts(folder)[-1][2] > 0, "it resumed from its checkpoint"


def test_a_command_whose_jobs_another_one_served_takes_over_when_that_is_killed(tmp_path: Path, store: str) -> None:
    gate = "[time.sleep(0.02) for _ in iter(lambda: epochs == 12 and not os.path.exists('go'), False)]"
    folder = job(tmp_path, "long", "epochs: 12", each=gate)
    job(tmp_path, "short", "epochs: 2")
    first = submitting(tmp_path, store, "long", "--slots", "1")
    wait_for_a_checkpoint(first, store, folder)
    second = submitting(tmp_path, store, "short", "--slots", "1")
    until(second, "has no effect")
    first.kill()
    first.communicate()
    (folder / "go").touch()
    _, said = second.communicate()
    assert second.returncode == 0, said
    assert states(store) == {"long": "done", "short": "done"}
    assert starts(folder)[-1][2] > 0, "it resumed from its checkpoint"
    wait_for_none(tmp_path)


def test_a_service_that_leads_keeps_the_job_whose_command_was_interrupted(tmp_path: Path, store: str) -> None:
    folder = job(tmp_path, "long", "epochs: 30", 0.3)
    service = serving(tmp_path, store)
    until(service, "leading")
    waiting = submitting(tmp_path, store, "long", "--json")
    wait_for_a_checkpoint(waiting, store, folder)
    waiting.send_signal(signal.SIGINT)
    told, said = waiting.communicate()
    assert waiting.returncode == 130, said
    assert "`cotune wait" in json.loads(told)["error"]["message"]
    assert states(store) == {"long": "running"}
    (id,) = (queued["id"] for queued in cotune(tmp_path, "queue", "--store", store, "--json").json["jobs"])
    assert cotune(tmp_path, "wait", id, "--store", store).code == 0
    assert len(starts(folder)) == len({fence for fence, *_ in starts(folder)})
    service.send_signal(signal.SIGTERM)
    service.communicate()


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("good", "--wait", "--hold"), 2, "do not go together"),
        (("good", "--slots", "3"), 2, "--wait too"),
        (("good", "good", "--name", "x"), 2, "is for one job; these are 2"),
        (("good", "missing"), 3, "no job file at"),
        (("good", "pipe"), 4, "pipe is not a regular file"),
    ],
)
def test_what_makes_no_sense_is_refused_and_nothing_is_submitted(
    tmp_path: Path, store: str, words: tuple[str, ...], code: int, said: str
) -> None:
    job(tmp_path, "good", "epochs: 2")
    os.mkfifo(tmp_path / "pipe")
    refused = cotune(tmp_path, "submit", *words, "--store", store)
    assert (refused.code, said in " ".join(refused.err.split())) == (code, True), refused.err
    assert not Path(store).exists() or states(store) == {}


def test_a_job_too_many_for_its_team_takes_the_others_of_the_command_back(tmp_path: Path, store: str) -> None:
    for name in ("one", "two"):
        job(tmp_path, name, "epochs: 2\nteam: vision")
    assert cotune(tmp_path, "rules", "--max-jobs", "vision=1", "--store", store).code == 0
    refused = cotune(tmp_path, "submit", "one", "two", "--wait", "--store", store)
    assert refused.code == 8, refused.err
    assert states(store) == {"one": "cancelled"}
