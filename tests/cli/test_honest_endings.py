"""What `cotune run` says of a training that crashed after its last report, or ended sooner than it was asked to."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.jobs import TRAINING, Done, cotune, script

RUN = ("run", "--name", "digits", "--examples", "1440", "-w", "1", "-b", "16")


def run(folder: Path, *flags: str) -> Done:
    return cotune(folder, *RUN, *flags, *TRAINING)


def failure_of(folder: Path) -> str:
    samples = cotune(folder, "samples", "--json").json["samples"]
    return str(samples[-1]["failure"])


@pytest.mark.parametrize("goal", [("--epochs", "3"), ("--target", "accuracy=0.1")], ids=["epochs", "target"])
def test_a_crash_after_the_last_report_is_exit_7_and_a_failed_sample(tmp_path: Path, goal: tuple[str, ...]) -> None:
    file = script(tmp_path)
    file.write_text(f"{file.read_text()}\nraise RuntimeError('no room')\n")
    done = run(tmp_path, *goal)
    assert done.code == 7, done.err
    assert "no room" in done.err
    assert "goal met" not in done.out
    assert "no room" in failure_of(tmp_path)


def test_a_script_that_ends_by_itself_before_its_epochs_are_done_has_missed(tmp_path: Path) -> None:
    script(tmp_path, each="if epoch > 2: break")
    done = run(tmp_path, "--epochs", "30")
    assert done.code == 6, done.err
    assert "2 of 30 epochs" in done.err
    assert run(tmp_path, "--epochs", "30", "--json").json["outcome"] == "missed"


def test_all_epochs_done_without_a_goal_is_done_and_not_a_goal_met(tmp_path: Path) -> None:
    script(tmp_path)
    done = run(tmp_path, "--epochs", "2")
    assert done.code == 0, done.err
    assert "done" in done.out
    assert "goal met" not in done.out


def test_a_run_says_that_it_waits_for_its_script_and_that_ending_it_may_have_cost_the_model(tmp_path: Path) -> None:
    file = script(tmp_path)
    file.write_text(file.read_text() + "\nimport signal; signal.pause()\n")
    (tmp_path / "cotune.yaml").write_text(
        "name: digits\nrun: python train.py {batch_size} {epochs}\nexamples: 1440\n"
        "target: {metric: accuracy, at_least: 0.1}\nstop_grace: 8s\n"
    )
    done = cotune(tmp_path, "run", "-w", "1", "-b", "16")
    assert done.code == 7, done.err
    assert "waiting for the script to end by itself" in done.err
    assert "stop_grace" in done.err.splitlines()[-1]
