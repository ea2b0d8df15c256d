"""The whole flow as a user sees it: real processes, real training, one store."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cli.jobs import JOB, TRAINING, checkpointing, cotune, environment, on_terminal, script
from cotune.cli.app import app, verbs
from cotune.cli.verbs.profile import sum_up
from cotune.errors import Infeasible
from cotune.jobfile import settings as job_settings
from cotune.probe.measure import Limits
from cotune.remedies import explained, goal_words
from cotune.types import Config, Failure, Forecast, Goal, Job, Quantity, Sample, Source, Terms
from left_behind import bearing

LENET = """\
name: lenet5-digits
run: python -m cotune.workloads.train --data digits --batch-size {batch_size} --epochs {epochs} --lr {lr}
examples: 1437
target: {metric: accuracy, at_least: 0.9}
deadline: 5m
max_epochs: 20
search: {workers: 1..2, batch_size: [32, 128]}
lr: {at: 0.05, global_batch: 32, rule: sqrt}
budget: {profile: 90s}
"""


def test_a_real_network_is_profiled_predicted_planned_and_run(tmp_path: Path) -> None:
    (tmp_path / ".cotune").mkdir()
    (tmp_path / "cotune.yaml").write_text(LENET)
    profiled = cotune(tmp_path, "profile", "--cover", "--json")
    assert profiled.code == 0, profiled.err
    measured = profiled.json["samples"]
    assert {sample["config"]["workers"] for sample in measured} == {1, 2}
    assert all(sample["failure"] is None for sample in measured)
    assert all(sample["terms"]["startup"] >= 0 for sample in measured)

    predicted = cotune(tmp_path, "predict", "--all", "--json").json
    assert len(predicted["rows"]) == 4
    assert predicted["rows"][0].keys() >= {"workers", "batch_size", "epoch_seconds", "source"}
    assert predicted["rows"][0]["epoch_seconds"].keys() >= {"low", "mid", "high"}

    planned = cotune(tmp_path, "plan", "--json")
    assert planned.code == 0, planned.err
    document = planned.json
    assert document["schema"] == "cotune.plan"
    assert document["plan"]["config"].keys() >= {"workers", "batch_size", "global_batch", "servers", "device"}
    for name in ("seconds", "accuracy", "cost"):
        assert document["plan"]["forecast"][name].keys() >= {"low", "mid", "high", "source"}
    assert document["plan"]["forecast"]["cost"]["unit"] == "device-seconds"
    assert document["plan"]["probability"] >= 0.9
    assert document["profile"].keys() == {"samples", "configs", "device_seconds", "reused_device_seconds"}
    assert document["plan"]["epochs"] <= 20
    assert document["rivals"]

    ran = cotune(tmp_path, "run", "--json")
    assert ran.code == 0, ran.err
    assert ran.json["met"] is True
    assert ran.json["run"]["accuracy"] >= 0.9
    assert ran.json["run"]["epochs"] < 20, "a run stops at its target"

    shown = cotune(tmp_path, "run")
    assert "forecast" in shown.out
    assert "measured" in shown.out
    listed = cotune(tmp_path, "samples", "--json").json["samples"]
    assert sum(sample["purpose"] == "run" for sample in listed) == 2

    assert cotune(tmp_path, "profile", "--json").json["samples"] == [], "what was measured is not measured again"
    refused = cotune(tmp_path, "plan", "--deadline", "1s", "--json")
    assert refused.code == 5
    assert refused.json["error"]["constraint"] == "deadline"
    assert len(refused.json["error"]["nearest"]) == 3
    missed = cotune(tmp_path, "run", "--epochs", "1", "--target", "accuracy=0.999")
    assert missed.code == 6
    assert "0.999 was asked" in missed.err
    as_json = cotune(tmp_path, "run", "--epochs", "1", "--target", "accuracy=0.999", "--json")
    assert as_json.code == 6
    assert as_json.json["met"] is False
    assert "0.999 was asked" in as_json.json["missed"]


def test_init_writes_a_job_file_that_works_and_never_overwrites_one(tmp_path: Path) -> None:
    assert cotune(tmp_path, "init", "--name", "mine", "--", "python", "t.py", "{batch_size}").code == 0
    text = (tmp_path / "cotune.yaml").read_text()
    assert "name: mine" in text
    again = cotune(tmp_path, "init")
    assert again.code == 2
    assert "--force" in again.err
    assert (tmp_path / "cotune.yaml").read_text() == text
    nothing = cotune(tmp_path, "plan")
    assert nothing.code == 3
    assert "measure it first" in nothing.err


@pytest.mark.parametrize("words", [("--note", "a: b"), ("it's {batch_size} x",), ("#5", "{epochs}", "größer")])
def test_init_writes_a_file_that_reads_back_whatever_the_words(tmp_path: Path, words: tuple[str, ...]) -> None:
    folder = tmp_path / "123"
    folder.mkdir()
    command = ("python", "train.py", "{batch_size}", *words)
    done = cotune(folder, "init", "--", *command)
    assert done.code == 0, done.err
    settings = job_settings.load(folder / "cotune.yaml", {})
    assert settings.job.name == "123"
    assert settings.job.command == command


def test_init_turns_a_torchrun_command_into_the_one_that_cotune_starts(tmp_path: Path) -> None:
    done = cotune(tmp_path, "init", "--", "torchrun", "--nproc-per-node=2", "train.py", "--batch-size={batch_size}")
    assert done.code == 0, done.err
    assert "torchrun was left out: run is python train.py --batch-size={batch_size}" in done.out
    settings = job_settings.load(tmp_path / "cotune.yaml", {})
    assert settings.job.command == ("python", "train.py", "--batch-size={batch_size}")


def test_doctor_and_algorithms_tell_what_there_is(tmp_path: Path) -> None:
    doctor = cotune(tmp_path, "doctor", "--json").json
    assert doctor["healthy"] is True
    assert {check["name"] for check in doctor["checks"]} >= {"cores", "torch", "store"}
    found = cotune(tmp_path, "algorithms", "--json").json["algorithms"]
    assert {"grid", "tabu", "isotonic", "ring", "pollux", "gaussian", "local"} <= {entry["name"] for entry in found}
    assert cotune(tmp_path, "algorithms", "predictr").code == 2


def test_a_script_that_never_heard_of_cotune_is_read_by_a_pattern(tmp_path: Path) -> None:
    script(tmp_path, after="print('epoch', epoch, 'accuracy', accuracy, flush=True)")
    text = (tmp_path / "train.py").read_text()
    text = "\n".join(line for line in text.splitlines() if "cotune" not in line).replace("        break\n", "")
    (tmp_path / "train.py").write_text(text.replace("        break", ""))
    pattern = r"epoch (?P<epoch>\d+) accuracy (?P<accuracy>[\d.]+)"
    done = cotune(tmp_path, "profile", *JOB, "--pattern", pattern, "--max-epochs", "4", "--json", *TRAINING)
    assert done.code == 0, done.err
    assert max(len(sample["curve"]) for sample in done.json["samples"]) == 4
    planned = cotune(tmp_path, "plan", "--target", "accuracy=0.8", "--json")
    assert planned.code == 0, "the job given to profile is remembered: " + planned.err
    ran = cotune(tmp_path, "run", "--json")
    assert ran.code == 0, ran.err
    assert ran.json["goal"]["target"] == 0.8


def project(folder: Path, max_epochs: int) -> None:
    script(folder)
    (folder / "cotune.yaml").write_text(
        f"name: digits\nexamples: 1440\nrun: python train.py {{batch_size}} {{epochs}}\nmax_epochs: {max_epochs}\n"
        "target: {metric: accuracy, at_least: 0.6}\nsearch: {workers: [1], batch_size: [16, 48]}\n"
    )


def test_the_goal_that_was_planned_for_is_the_one_that_is_run(tmp_path: Path) -> None:
    project(tmp_path, max_epochs=8)
    assert cotune(tmp_path, "profile", "--target", "accuracy=0.85").code == 0
    assert cotune(tmp_path, "plan", "--target", "accuracy=0.85", "--deadline", "1h").code == 0
    ran = cotune(tmp_path, "run", "--json")
    assert ran.code == 0, ran.err
    assert (ran.json["goal"]["target"], ran.json["goal"]["deadline"]) == (0.85, 3600)
    assert re.search(
        r"following plan \w+ of .* for accuracy at least 0.85 within 1 h.* now: accuracy at least 0.6", ran.err
    )
    assert ran.json["run"]["accuracy"] >= 0.85


def test_a_run_after_a_refused_plan_measures_on_the_way_to_its_goal(tmp_path: Path) -> None:
    project(tmp_path, max_epochs=4)
    assert cotune(tmp_path, "profile").code == 0
    assert cotune(tmp_path, "plan").code == 0
    assert cotune(tmp_path, "plan", "--deadline", "0.1s").code == 5
    assert "the plan asked for last, accuracy at least 0.6 within 0.1 s, was refused" in cotune(tmp_path, "report").err
    ran = cotune(tmp_path, "run", "--json")
    assert ran.code == 6, "it is over its deadline, but was started"
    assert (ran.json["goal"]["deadline"], ran.json["goal"]["target"]) == (0.1, 0.6)
    assert "no plan for accuracy at least 0.6 within 0.1 s: the one asked for last was refused" in ran.err
    older = re.search(
        r"cotune run --plan (\w+) runs the one before, for accuracy at least 0\.6$", ran.err, re.MULTILINE
    )
    assert older, ran.err
    ran = cotune(tmp_path, "run", "--plan", older[1], "--json")
    assert ran.code == 0, ran.err
    assert ran.json["goal"]["deadline"] is None


@pytest.mark.parametrize(("answer", "code"), [("y", 6), ("n", 5)])
def test_on_a_terminal_the_most_probable_plan_is_offered_after_a_refusal(
    tmp_path: Path, answer: str, code: int
) -> None:
    project(tmp_path, max_epochs=4)
    assert cotune(tmp_path, "profile").code == 0
    assert cotune(tmp_path, "plan", "--deadline", "0.1s").code == 5
    ended, said = on_terminal(tmp_path, "run", answer=answer)
    assert "within 0.1 s the most probable plan, batch" in said
    assert ended == code, said


def test_another_project_with_the_same_command_is_history_and_trusted_less(tmp_path: Path) -> None:
    store = ("--store", str(tmp_path / "shared.db"))
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        project(tmp_path / name, max_epochs=3)
    assert cotune(tmp_path / "one", "profile", *store).code == 0
    own = cotune(tmp_path / "one", "plan", *store, "--json")
    assert own.code == 0, own.err
    assert cotune(tmp_path / "other", "plan", *store, "--no-measure", "--no-history").code == 3
    assert cotune(tmp_path / "other", "report", *store, "--no-history").code == 3
    alike = cotune(tmp_path / "other", "plan", *store, "--no-measure", "--json")
    assert alike.code == 0, alike.err
    forecasts = [done.json["plan"]["forecast"]["epoch_seconds"] for done in (own, alike)]
    assert [forecast["source"] for forecast in forecasts] == ["measured", "assumed"]
    narrow, wide = (forecast["high"] / forecast["low"] for forecast in forecasts)
    assert wide > narrow
    assert any("from history" in note for note in alike.json["plan"]["notes"])
    assert alike.json["profile"]["samples"] == 0


def test_a_run_stops_at_its_cap_even_when_the_script_would_go_on(tmp_path: Path) -> None:
    script(tmp_path)
    text = (tmp_path / "train.py").read_text().replace("int(sys.argv[2])", "40")
    (tmp_path / "train.py").write_text(text.replace("        break", "        sys.exit()"))
    ran = cotune(tmp_path, "run", *JOB[:4], "-w", "1", "-b", "16", "--epochs", "2", "--json", *TRAINING[:-1])
    assert ran.code == 0, ran.err
    assert ran.json["run"]["epochs"] < 40


def test_a_fixed_recipe_is_planned_for_its_layout_alone(tmp_path: Path) -> None:
    script(tmp_path)
    (tmp_path / "cotune.yaml").write_text(
        "name: digits\nexamples: 1440\nrun: python train.py {batch_size} {epochs}\nglobal_batch: 48\nepochs: 3\n"
        "target: {metric: accuracy, at_least: 0.99}\nsearch: {workers: [1, 2]}\n"
    )
    assert cotune(tmp_path, "profile").code == 0
    planned = cotune(tmp_path, "plan", "--json")
    assert planned.code == 0, planned.err
    assert planned.json["plan"]["config"]["global_batch"] == 48
    assert planned.json["plan"]["forecast"]["accuracy"] is None


def test_a_loss_that_should_fall_is_measured_planned_and_met_by_its_own_name(tmp_path: Path) -> None:
    script(tmp_path, after="loss = 2.0 / (1 + epoch)")
    text = (tmp_path / "train.py").read_text().replace("accuracy=accuracy):", "accuracy=accuracy, loss=loss):")
    (tmp_path / "train.py").write_text(text)
    profiled = cotune(tmp_path, "profile", *JOB, "--target", "loss<=0.3", "--max-epochs", "8", *TRAINING)
    assert profiled.code == 0, profiled.err
    for table in (profiled.out, cotune(tmp_path, "samples", "--job", "digits").out):
        assert "loss" in table.splitlines()[0]
        assert "accuracy" not in table.splitlines()[0]
    planned = cotune(tmp_path, "plan", "--target", "loss<=0.3", "--max-epochs", "8", "--json")
    assert planned.code == 0, planned.err
    assert planned.json["goal"]["metric"] == "loss"
    assert 0.2 < planned.json["plan"]["forecast"]["accuracy"]["mid"] <= 0.31
    ran = cotune(tmp_path, "run", "--target", "loss<=0.3", "--json")
    assert ran.code == 0, ran.err
    assert ran.json["run"]["epochs"] == 6  # 2 / 7 is the first below 0.3


def profiling(folder: Path, until: str, *flags: str) -> tuple[subprocess.Popen[str], str]:
    """Return a profile that has said something, and what all of its processes have in their environment."""
    script(folder, each="time.sleep(0.2)")
    marker = f"COTUNE_TEST_MARK={folder.name}-{os.getpid()}"
    env = environment(folder) | dict([marker.split("=")])
    command = [sys.executable, "-m", "cotune", "profile", "--json", *JOB, *flags, *TRAINING]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    running = subprocess.Popen(command, cwd=folder, env=env, text=True, **pipes)
    assert running.stderr is not None
    while until not in running.stderr.readline():
        assert running.poll() is None, "the profile ended before it could be disturbed"
    return running, marker


def test_a_kill_in_the_middle_leaves_no_process_and_keeps_every_finished_sample(tmp_path: Path) -> None:
    running, marker = profiling(tmp_path, "3 of", "--max-epochs", "30")
    assert bearing(marker)
    running.send_signal(signal.SIGKILL)
    running.communicate()
    end = time.monotonic() + 60  # as long as a busy machine may take
    while (left := bearing(marker)) and time.monotonic() < end:
        time.sleep(0.02)
    assert left == []
    kept = cotune(tmp_path, "samples", "--json").json["samples"]
    finished = [sample for sample in kept if sample["failure"] is None]
    assert len(finished) >= 2
    went_on = cotune(tmp_path, "profile", *JOB, "--max-epochs", "4", "--json", *TRAINING)
    assert went_on.code == 0, went_on.err
    tried = {json.dumps(sample["config"]) for sample in finished if sample["epoch_seconds"]}
    again = [sample for sample in went_on.json["samples"] if json.dumps(sample["config"]) in tried]
    assert again, "the learning curves were still to be shown"
    assert all(len(sample["curve"]) >= 2 for sample in again), "only curves are taken up again"


def test_ctrl_c_ends_everything_and_says_so_by_its_exit_code(tmp_path: Path) -> None:
    running, marker = profiling(tmp_path, "2 of")
    running.send_signal(signal.SIGINT)
    out, _ = running.communicate(timeout=60)
    assert running.returncode == json.loads(out)["error"]["exit_code"] == 130
    assert bearing(marker) == []
    kept = cotune(tmp_path, "samples", "--json").json["samples"]
    assert any((sample["failure"] or "").startswith("interrupted") for sample in kept)
    assert all(sample["ended"] for sample in kept)


def test_a_resumed_run_goes_on_where_its_checkpoint_is(tmp_path: Path) -> None:
    checkpointing(tmp_path, after="if epoch == 3 and first == 0: os.kill(os.getpid(), 9)")
    config = ("--name", "digits", "--examples", "1440", "--workers", "1", "--batch-size", "48")
    goal = ("--epochs", "6", "--target", "accuracy=0.999")
    broken = cotune(tmp_path, "run", "--restarts", "0", *goal, *config, *TRAINING)
    assert broken.code == 7
    resumed = cotune(tmp_path, "run", "--resume", "--json")
    assert resumed.code == 6, resumed.err
    assert "0.999 was asked" in resumed.json["missed"], "the goal that the run began with"
    assert [point["epoch"] for point in resumed.json["run"]["curve"]] == [4, 5, 6]
    assert cotune(tmp_path, "run", "--resume").code == 3


def test_the_list_of_verbs_fits_a_narrow_terminal_without_a_word_lost() -> None:
    shown = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "80"}).output
    listed = shown.partition("Commands:\n")[2].splitlines()
    assert {line.split()[0] for line in listed} == set(verbs())
    assert [line for line in listed if "..." in line or len(line) > 80] == []


def test_a_profile_counts_what_told_something_and_says_why_nothing_did(capsys: pytest.CaptureFixture[str]) -> None:
    config = Config.data_parallel(64, 1)
    good, cut = Sample(config, 5.0, 1.0), Sample(config, failure=Failure.interrupted("budget"))
    sum_up([], [good, cut], [good, cut], Limits(60.0))
    assert "measured 1 new sample in" in (said := capsys.readouterr().out)
    assert "1 cut short" in said
    slow = Sample(config, 1.0, 1.0, terms=Terms(startup=20.0))
    sum_up([slow], [], [slow], Limits(5.0))
    assert "even a start takes 20 s" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("probability", "source", "probe", "advised"),
    [
        (0.6, "extrapolated", "a probe", True),
        (0.6, "extrapolated", None, False),
        (0.6, "measured", "a probe", False),
        (0.1, "extrapolated", "a probe", False),
    ],
)
def test_a_goal_that_may_well_be_met_is_worth_more_measuring(
    probability: float, source: Source, probe: str | None, advised: bool, tmp_path: Path
) -> None:
    goal = {"target": "loss<=0.3", "deadline": "90s"}
    settings = job_settings.loads("run: python train.py {batch_size}", goal, "x", tmp_path)
    some = Quantity(1, 2, 3, source)
    near = Forecast(Config.data_parallel(1, 16), 3, some, some, some, some, probability)
    command = "cotune profile --target 'loss<=0.3' --deadline 90s"
    error = Infeasible("none", nearest=[near], job=settings.job, goal=settings.goal, next_probe=probe)
    assert explained(error).endswith(command) == advised


def test_a_job_measured_without_its_examples_is_recorded_with_those_told_by_a_flag(tmp_path: Path) -> None:
    script(tmp_path)
    (tmp_path / "cotune.yaml").write_text(
        "name: digits\nrun: python train.py {batch_size} {epochs}\nmax_epochs: 3\n"
        "search: {workers: 1, batch_size: [16, 48]}\n"
    )
    assert cotune(tmp_path, "profile", "--max-samples", "2").code == 0
    without = cotune(tmp_path, "record", "--output", "out")
    assert without.code == 3
    assert "give them by --examples" in without.err
    done = cotune(tmp_path, "record", "--output", "out", "--examples", "1440")
    assert done.code == 0, done.err
    assert cotune(tmp_path, "predict", "--recording", "out").code == 0


@pytest.mark.parametrize(("seconds", "typed"), [(90.0, "90s"), (600.0, "10m"), (7200.0, "2h"), (28.83, "28.83s")])
def test_deadlines_are_repeated_as_one_would_type_them(seconds: float, typed: str) -> None:
    assert goal_words(Job("j"), Goal(deadline=seconds)) == ["--deadline", typed]
