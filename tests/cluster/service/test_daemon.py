"""The service itself: real jobs from the queue to their ends, with the service killed in the middle."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest

from cli.jobs import checkpointing, cotune, environment, script
from cotune.cluster.service.queue import Queue
from cotune.cluster.service.snapshot import JobSnapshot
from cotune.cluster.service.states import State
from cotune.store import open_store

NOTE = "open('starts.txt', 'a').write(os.environ['COTUNE_FENCE'] + f' {epochs} {first}\\n')"


def job(folder: Path, name: str, goal: str, pause: float = 0.0, each: str = "pass") -> Path:
    (folder / name).mkdir()
    checkpointing(folder / name, setup=NOTE, after=f"time.sleep({pause}); {each}")
    (folder / name / "cotune.yaml").write_text(
        f"name: {name}\nexamples: 1440\nrun: {sys.executable} train.py {{batch_size}} {{epochs}}\n{goal}\n"
        "search: {workers: [1], batch_size: [48]}\nbudget: {profile: 20s}\n"
    )
    return folder / name


def serving(folder: Path, store: str, *words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "cotune", "serve", "--store", store, "--slots", "2", *words]
    return subprocess.Popen(command, cwd=folder, env=environment(folder), stderr=subprocess.PIPE, text=True)


def until(process: subprocess.Popen[str], *parts: str) -> None:
    """Read what a service says up to the first line with all these parts."""
    assert process.stderr is not None
    line = "nothing"
    for line in process.stderr:
        if all(part in line for part in parts):
            return
    pytest.fail(f"the service ended before it said {parts}; the last it said was {line}")


@contextmanager
def writing(store: str) -> Iterator[None]:
    """Be the only one that writes to a store."""
    with closing(sqlite3.connect(store, timeout=60)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield


def starts(folder: Path) -> list[list[int]]:
    return [[int(word) for word in line.split()] for line in (folder / "starts.txt").read_text().splitlines()]


def fences(folder: Path) -> list[int]:
    return [int(line) for line in (folder / "lines.txt").read_text().split()]


def test_a_killed_service_is_followed_by_one_that_goes_on_and_a_bad_file_fails_alone(tmp_path: Path) -> None:
    store = str(tmp_path / "store.db")
    long, short = job(tmp_path, "long", "epochs: 12", 0.3), job(tmp_path, "short", "epochs: 2")
    first = cotune(tmp_path, "submit", "long", "--store", store, "--json").json["job"]
    with open_store(store) as opened:  # as an older client may have written it
        bad = Queue(opened).submit(JobSnapshot("[" * 3000, str(tmp_path), "deep.yaml", name="deep"))
    service = serving(tmp_path, store)
    until(service, "running", first)
    while not (long / ".cotune" / "runs" / first / "checkpoint" / "w.npy").exists():
        assert service.poll() is None
    service.send_signal(signal.SIGKILL)
    service.communicate()
    other = cotune(tmp_path, "submit", "short/cotune.yaml", "--store", store, "--json").json["job"]
    again = serving(tmp_path, store, "--drain")
    said = again.communicate()[1]
    assert again.returncode == 0, said
    with open_store(store) as opened:
        queue = Queue(opened)
        assert [queue.get(id).state.value for id in (first, bad, other)] == ["done", "failed", "done"]
        result = queue.get(first).result
    assert result is not None
    assert result["epochs"] == 12
    numbers = [fence for fence, *_ in starts(long)]
    assert numbers == sorted(set(numbers)), "every start has a number of its own, higher than the one before"
    whole = [(epochs, begun) for _, epochs, begun in starts(long) if epochs == 12]
    assert len(whole) == 2
    assert whole[1][1] > 0, "the second start went on from the checkpoint"
    assert cotune(tmp_path, "wait", bad, "--store", store).code == 7
    assert cotune(tmp_path, "wait", first, "--store", store).code == 0
    assert len(starts(short)) == len({fence for fence, *_ in starts(short)})


def test_sigterm_keeps_what_was_trained_and_a_job_is_cancelled_while_it_runs(tmp_path: Path) -> None:
    store = str(tmp_path / "store.db")
    job(tmp_path, "long", "epochs: 500", 0.2)
    id = cotune(tmp_path, "submit", "long", "--store", store, "--json").json["job"]
    service = serving(tmp_path, store)
    until(service, "running", id)
    service.send_signal(signal.SIGTERM)
    service.communicate()
    assert service.returncode == 0
    listed = cotune(tmp_path, "queue", "--store", store, "--json").json["jobs"]
    assert [(one["id"], one["state"]) for one in listed] == [(id, "waiting")]
    again = serving(tmp_path, store)
    until(again, "running", id)
    assert cotune(tmp_path, "cancel", id, "--store", store, "--json").json["job"]["state"] == "stopping"
    until(again, "cancelled", id)
    again.send_signal(signal.SIGTERM)
    again.communicate()
    assert cotune(tmp_path, "why", id[:6], "--store", store).out.startswith("long is cancelled")
    assert cotune(tmp_path, "wait", id, "--store", store).code == 130


def test_a_second_service_takes_over_from_one_that_hangs_whose_workers_then_end(tmp_path: Path) -> None:
    store, line = str(tmp_path / "store.db"), "open('lines.txt', 'a').write(os.environ['COTUNE_FENCE'] + '\\n')"
    folder = job(tmp_path, "long", "epochs: 500", 0.2, each=line)
    id = cotune(tmp_path, "submit", "long", "--store", store, "--json").json["job"]
    hanging = serving(tmp_path, store)
    until(hanging, "running", id)
    first = cotune(tmp_path, "status", id, "--store", store, "--json").json["job"]["fence"]
    other = serving(tmp_path, store)
    until(other, "waiting", "another service leads")
    with writing(store):  # else it might hang in the middle of a transaction, which nobody can take from it
        hanging.send_signal(signal.SIGSTOP)
    until(other, "running", id)
    told = fences(folder)
    while told.count(max(told)) < 5 or max(told) == first:
        with suppress(subprocess.TimeoutExpired):
            pytest.fail(f"the second service ended: {other.wait(0.2)}")
        told = fences(folder)
    assert told == sorted(told), "no epoch of the first start follows one of the second"
    hanging.send_signal(signal.SIGCONT)
    until(hanging, "lost")
    assert [one["state"] for one in cotune(tmp_path, "queue", "--store", store, "--json").json["jobs"]] == ["running"]
    for service in (hanging, other):
        service.send_signal(signal.SIGTERM)
        service.communicate()
        assert service.returncode == 0
    assert len(starts(folder)) == len({fence for fence, *_ in starts(folder)})


def test_a_service_outlasts_a_store_that_another_process_keeps_locked(tmp_path: Path) -> None:
    store = str(tmp_path / "store.db")
    open_store(store).close()
    program = (
        "from cotune.store import location; location.BUSY_SECONDS = 0.2\n"
        "from cotune.cluster.service.daemon import Service, ServiceOptions\n"
        f"Service({store!r}, ServiceOptions(drain=True)).run()\n"
    )
    command = [sys.executable, "-c", program]
    with writing(store):
        service = subprocess.Popen(command, env=environment(tmp_path), stderr=subprocess.PIPE, text=True)
        until(service, "trouble", "kept locked by another process")
    until(service, "leading")
    service.communicate()
    assert service.returncode == 0


def test_jobs_get_units_of_the_types_that_they_name_and_each_type_is_measured(tmp_path: Path) -> None:
    store, ids = str(tmp_path / "store.db"), dict[str, str]()
    (tmp_path / "cluster.yaml").write_text("devices: {fast: {count: 2, per_node: 2}, slow: {count: 2, per_node: 2}}\n")
    nodes = "{nodes: 4, cores: [1, 1, 0.5, 0.5], devices: [fast, fast, slow, slow], per_machine: 2}"
    asked = {"quick": "fast: {}", "steady": "slow: {}", "either": "fast: {}, slow: {}", "big": "a100: {}"}
    for name, devices in asked.items():
        folder = job(tmp_path, name, f"epochs: 2\ndevices: {{{devices}}}\nengine: {{local: {nodes}}}")
        ids[name] = cotune(tmp_path, "submit", str(folder), "--store", store, "--json").json["job"]
    ended = cotune(tmp_path, "serve", "--store", store, "--cluster", "cluster.yaml", "--drain")
    assert ended.code == 0, ended.err
    with open_store(store) as opened:
        jobs = {name: Queue(opened).get(id) for name, id in ids.items()}
        measured = {sample.config.device for sample in opened.samples() if sample.purpose != "run"}
    assert jobs["big"].reason == "it asks for a100, the service has fast, slow"
    states = [one.state.value for one in jobs.values()]
    assert states == ["done", "done", "done", "declined"]
    used = {name: (one.result or {})["config"]["device"] for name, one in jobs.items() if name != "big"}
    assert (used["quick"], used["steady"]) == ("fast", "slow")
    assert used["either"] in ("fast", "slow")
    assert measured == {"fast", "slow"}


def test_a_job_whose_measuring_was_killed_from_outside_is_measured_again(tmp_path: Path) -> None:
    store = str(tmp_path / "store.db")
    once = "os.path.exists('killed') or (open('killed', 'w').close(), os.kill(os.getppid(), 9))"
    folder = job(tmp_path, "struck", "epochs: 2", each=once)
    id = cotune(tmp_path, "submit", "struck", "--store", store, "--json").json["job"]
    service = serving(tmp_path, store, "--drain")
    said = service.communicate()[1]
    with open_store(store) as opened:
        assert Queue(opened).get(id).state.value == "done", said
    assert (folder / "killed").exists()


def test_a_relative_store_serves_jobs_of_other_folders(tmp_path: Path) -> None:
    named, by_environment = job(tmp_path, "named", "epochs: 2"), job(tmp_path, "by_environment", "epochs: 2")
    ids = [cotune(tmp_path, "submit", "named", "--store", "team.db", "--json").json["job"]]
    service = serving(tmp_path, "team.db", "--drain")
    said = [service.communicate()[1]]
    ids.append(cotune(tmp_path, "submit", "by_environment", "--store", "sqlite:///team.db", "--json").json["job"])
    command = [sys.executable, "-m", "cotune", "serve", "--slots", "2", "--drain"]
    told = {**environment(tmp_path), "COTUNE_STORE": "team.db"}
    said.append(subprocess.run(command, cwd=tmp_path, env=told, capture_output=True, text=True, check=False).stderr)
    with open_store(str(tmp_path / "team.db")) as opened:
        assert [Queue(opened).get(id).state.value for id in ids] == ["done", "done"], said
    assert not [*named.glob("*.db"), *by_environment.glob("*.db")]


@pytest.mark.parametrize(("priority", "checkpoints"), [(-100, True), (0, False)])
def test_measuring_stops_no_job_of_higher_priority_and_none_without_a_checkpoint(
    tmp_path: Path, priority: int, checkpoints: bool
) -> None:
    store = str(tmp_path / "store.db")
    gate = "[time.sleep(0.02) for _ in iter(lambda: epochs == 12 and not os.path.exists('go'), False)]"
    long, other = job(tmp_path, "long", "epochs: 12", each=gate), job(tmp_path, "other", "epochs: 2")
    file = (other / "cotune.yaml").read_text().replace("train.py", "other.py")
    (other / "cotune.yaml").write_text(file.replace("epochs: 2", "target: accuracy=0.5"))  # else "long" tells enough
    (other / "train.py").rename(other / "other.py")
    if not checkpoints:
        script(long, setup=f"first = 0; {NOTE}", after=gate)
    ids = [cotune(tmp_path, "submit", "long", "--store", store, "--json").json["job"]]
    service = serving(tmp_path, store, "--slots", "1", "--drain")
    until(service, "running", ids[0])
    asked = ("--priority", str(priority), "--json")
    ids.append(cotune(tmp_path, "submit", "other", "--store", store, *asked).json["job"])
    until(service, ids[1], "must come free")
    told = cotune(tmp_path, "why", ids[1], "--store", store).out
    assert "1 worker must come free" in told
    ids.append(cotune(tmp_path, "submit", "long", "--store", store, "--json", "--priority", "-200").json["job"])
    until(service, "waiting", ids[2], "planned")
    (long / "go").touch()
    said = service.communicate()[1]
    with open_store(store) as opened:
        queue = Queue(opened)
        assert [queue.get(id).state.value for id in ids] == ["done", "met", "done"], said
        events = queue.events()
    runs = [event.job for event in events if event.state is State.RUNNING]
    assert sorted(runs) == sorted(ids), "each was started once"
    measured = {event.job: event.number for event in events if event.words == "to be measured"}
    assert list(measured) == ids[:2]
    began = next(event.number for event in events if event.job == ids[2] and event.state is State.RUNNING)
    assert measured[ids[1]] < began, "who comes first in line is measured before others start"


def test_a_job_says_once_that_it_failed_and_that_it_began_anew_where_it_had_no_checkpoint(tmp_path: Path) -> None:
    store, folder = str(tmp_path / "store.db"), job(tmp_path, "unlucky", "epochs: 12")
    once = "os.path.exists('killed') and sys.exit('no luck'), open('killed', 'w').close(), os.kill(os.getpid(), 9)"
    script(folder, setup=f"first = 0; {NOTE}", after=f"epochs == 12 and ({once})")
    id = cotune(tmp_path, "submit", "unlucky", "--store", store, "--json").json["job"]
    said = serving(tmp_path, store, "--drain").communicate()[1]
    with open_store(store) as opened:
        found, events = Queue(opened).get(id), Queue(opened).events(id)
    assert found.state is State.FAILED, said
    assert not found.reason.startswith("failed")
    assert [event.words for event in events if event.words.endswith("; it begins anew, without a checkpoint")]
    assert cotune(tmp_path, "why", id, "--store", store).out.startswith(f"unlucky is failed: {found.reason}")
