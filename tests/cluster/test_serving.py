"""`cotune serve`: several real jobs, one machine, a policy."""

from __future__ import annotations

from pathlib import Path

from cli.jobs import checkpointing, cotune
from cotune.store import open_store


def job(folder: Path, name: str, goal: str) -> str:
    (folder / name).mkdir()
    checkpointing(folder / name)
    (folder / name / "cotune.yaml").write_text(
        f"name: {name}\nexamples: 1440\nrun: python train.py {{batch_size}} {{epochs}}\n{goal}\n"
        "search: {workers: [1], batch_size: [16, 48]}\nbudget: {profile: 20s}\n"
    )
    return name


def test_jobs_share_the_machine_and_each_meets_its_goal(tmp_path: Path) -> None:
    store = ("--store", str(tmp_path / "store.db"))
    first = job(tmp_path, "first", "target: {metric: accuracy, at_least: 0.8}\ndeadline: 2m\nmax_epochs: 6")
    second = job(tmp_path, "second", "epochs: 2")
    unmeasured = cotune(tmp_path, "serve", first, second, *store)
    assert unmeasured.code == 3
    assert "no samples of job 'first'" in unmeasured.err
    assert cotune(tmp_path / "first", "profile", *store).code == 0
    served = cotune(tmp_path, "serve", first, second, "--slots", "1", "--policy", "fifo", "--json", *store)
    assert served.code == 0, served.err
    one, other = served.json["jobs"]
    assert (one["outcome"], other["outcome"]) == ("met", "done")
    assert one["accuracy"] >= 0.8
    assert (other["epochs"], other["starts"]) == (2, 1)
    assert other["waited"] >= one["seconds"] * 0.9, "one worker is enough for one of them at a time"
    with open_store(store[1]) as kept:
        assert all(kept.sample(id).purpose == "run" for id in (*one["samples"], *other["samples"]))


def test_optimus_serves_jobs_with_two_batch_sizes_and_a_server(tmp_path: Path) -> None:
    store = ("--store", str(tmp_path / "store.db"))
    (tmp_path / "digits").mkdir()
    (tmp_path / "digits" / "cotune.yaml").write_text(
        "name: digits\nexamples: 400\nepochs: 2\n"
        "run: python -m cotune.workloads.train --limit 400 --batch-size {batch_size} --epochs {epochs}\n"
        "search: {workers: [1], batch_size: [20, 40], servers: [0, 1]}\nbudget: {profile: 20s}\n"
    )
    profiled = cotune(tmp_path / "digits", "profile", *store)
    assert profiled.code == 0, profiled.err
    served = cotune(tmp_path, "serve", "digits", "--slots", "2", "--policy", "optimus", "--json", *store)
    assert served.code == 0, served.err
    assert [job["outcome"] for job in served.json["jobs"]] == ["done"]
