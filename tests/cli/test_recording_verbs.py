"""plan, predict, run, import and bench on recordings, from the command line."""

from __future__ import annotations

import io
import json
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from cotune.cli.main import main
from cotune.errors import Infeasible
from cotune.project.project import open_project
from cotune.remedies import listed
from cotune.store import open_store
from cotune.types import Config, Forecast, Goal, Job, Quantity, Sample
from lab.worlds import world


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return world(tmp_path_factory.mktemp("cli") / "world")


def cotune(*words: object, code: int = 0) -> dict[str, Any]:
    out, err = io.StringIO(), io.StringIO()
    argv = ["cotune", *map(str, words), "--json"]
    told = mock.patch.object(sys, "argv", argv)
    with told, redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as left:
        main()
    assert (left.value.code or 0) == code, err.getvalue()
    document: dict[str, Any] = json.loads(out.getvalue())
    return document


def test_curves_that_a_store_knows_in_parts_are_learnt_from_as_one(folder: Path, tmp_path: Path) -> None:
    for target in ("0.3", "0.6", "0.9"):
        with open_project(recording=folder, store=tmp_path / "store.db", target=target) as project:
            project.profile()
            samples = project.evidence().samples
    went_on = [sample for sample in samples if sample.resumed_from and sample.curve]
    assert went_on, "the harder target goes on with the curves of the easier one"
    assert all(sample.curve[0].epoch == 1 for sample in went_on)


def test_limits_on_measuring_hold(folder: Path) -> None:
    few = cotune("plan", "--recording", folder, "--target", "0.8", "--max-samples", 5, "--seed", 1)
    assert 0 < few["profile"]["samples"] <= 5
    assert few["profile"]["reused_device_seconds"] <= few["profile"]["device_seconds"]
    budget = 0.5 * few["profile"]["device_seconds"]
    cheap = cotune("predict", "--recording", folder, "--max-device-seconds", budget, "--all")
    assert len(cheap["rows"]) == 20


def test_a_run_on_a_recording_takes_its_goal_from_the_job_file_as_a_plan_does(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "cotune.yaml"
    file.write_text("target: {metric: accuracy, at_least: 0.8}\n")
    plan = cotune("plan", "--recording", folder, "-f", file)
    ran = cotune("run", "--recording", folder, "-f", file)
    assert plan["goal"]["target"] == ran["goal"]["target"] == 0.8


def test_every_row_may_be_read_for_study(folder: Path) -> None:
    told = cotune("plan", "--recording", folder, "--target", "0.8", "--all-samples")
    assert told["profile"]["samples"] == 20 * 2 + 5 * 2


def test_a_refusal_holds_the_most_probable_plan_and_the_commands_that_help(folder: Path) -> None:
    refused = cotune("plan", "--recording", folder, "--target", "0.8", "--deadline", "10s", code=5)
    assert refused["schema"] == "cotune.plan"
    assert refused["plan"]["probability"] < refused["goal"]["confidence"]
    assert refused["error"]["constraint"] == "deadline"
    relaxed = refused["error"]["remedies"][0]
    deadline = relaxed["argv"][relaxed["argv"].index("--deadline") + 1]
    met = cotune("plan", "--recording", folder, "--target", "0.8", "--deadline", deadline)
    assert met["plan"]["probability"] >= relaxed["probability"] - 0.01


def test_a_refusal_is_a_short_list_that_ends_with_the_command_that_helps(folder: Path) -> None:
    argv = ["cotune", "plan", "--recording", str(folder), "--target", "0.8", "--deadline", "10s"]
    err = io.StringIO()
    with mock.patch.object(sys, "argv", argv), redirect_stderr(err), pytest.raises(SystemExit):
        main()
    asked, binds, title, *rest = err.getvalue().partition("cotune: ")[2].splitlines()
    assert asked == "no config reaches accuracy 0.8 within 10 s with confidence 0.9"
    assert binds.startswith("  the deadline binds: it takes ")
    assert title == "  nearest, at that confidence:"
    *nearest, helps = rest
    assert len(nearest) == 3
    assert all(" late" in near for near in nearest)
    assert helps.startswith(
        "  would be met, with the same --recording: cotune plan --target 'accuracy>=0.8' --deadline "
    )


def test_a_goal_that_is_likely_and_not_sure_is_offered_with_less_confidence() -> None:
    config = Config.data_parallel(16, 1)
    some = Quantity(1.0, 2.0, 3.0, "measured", "s")
    likely = Forecast(config, 5, some, some, some, some, probability=0.789)
    lines = ("no config reaches accuracy 0.9", "the target binds", "near")
    job, goal = Job("net", command=("python", "train.py")), Goal(0.9, 600.0)
    refused = Infeasible("", "target", (likely,), job=job, goal=goal, lines=lines)
    assert listed(refused).splitlines()[-1] == (
        f"  with less confidence, {config}: cotune plan --target 'accuracy>=0.9' --deadline 10m --confidence 0.78"
    )
    unlikely = Infeasible("", "target", (replace(likely, probability=0.4),), job=job, goal=goal, lines=lines)
    assert "--confidence" not in listed(unlikely)


def test_what_cannot_be_written_is_told_in_one_line(folder: Path, tmp_path: Path) -> None:
    taken = tmp_path / "file"
    taken.touch()
    for words in (
        ("report", "--recording", folder, "--target", "0.8", "-o", taken / "page.html"),
        ("import", "elasticflow", elasticflow(tmp_path / "source"), "-o", taken),
    ):
        assert cotune(*words, code=4)["error"]["message"].startswith(f"cannot write {taken}")


def elasticflow(folder: Path) -> Path:
    folder.mkdir()
    (folder / "a100-bert.csv").write_text("global_batch_size,1,2\n16,2.0,3.5\n")
    return folder


def test_a_run_goes_by_the_plan_that_a_store_holds(folder: Path, tmp_path: Path) -> None:
    store = ("--store", tmp_path / "store.db")
    plan = cotune("plan", "--recording", folder, "--target", "0.8", "--deadline", "1h", *store)["plan"]
    ran = cotune("run", "--recording", folder, *store)
    assert ran["goal"]["target"] == 0.8
    assert ran["run"]["config"] == plan["config"]
    as_planned = ("--workers", plan["config"]["workers"], "--batch-size", plan["config"]["batch_size"])
    easier = cotune("run", "--recording", folder, *store, *as_planned, "--target", "0.6")
    assert easier["plan"]["forecast"]["seconds"]["mid"] < plan["forecast"]["seconds"]["mid"], "of the goal that is run"


def test_a_probe_that_took_all_epochs_leaves_a_run_of_them_nothing_to_pay(folder: Path, tmp_path: Path) -> None:
    store = ("--store", tmp_path / "store.db")
    given = ("run", "--recording", folder, *store, "--workers", 1, "--batch-size", 16)
    cotune("plan", "--recording", folder, "--target", "0.99", "--batch-size", 16, *store, code=5)  # measured to the end
    probes = cotune("samples", *store)["samples"]
    curves = [sample["curve"] for sample in probes if sample["config"]["global_batch"] == 16]
    epochs = max(curve[-1]["epoch"] for curve in curves if curve)
    whole = cotune(*given, "--epochs", int(epochs))
    assert (whole["run"]["epochs"], whole["run"]["seconds"], whole["met"]) == (epochs, 0.0, True)
    shorter = cotune(*given, "--epochs", int(epochs) - 1)
    assert shorter["continued"] is None
    assert shorter["run"]["epochs"] == epochs - 1


def test_what_nobody_foresaw_is_a_document_and_a_traceback(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["cotune", "plan", "--recording", str(folder), "--json"]
    broken = mock.patch("cotune.recording.replayed.ReplayedJob.settings", side_effect=RuntimeError("a bug"))
    with mock.patch.object(sys, "argv", argv), broken, pytest.raises(RuntimeError):
        main()
    assert json.loads(capsys.readouterr().out)["error"] == {"kind": "RuntimeError", "message": "a bug", "exit_code": 1}


def test_a_run_without_a_profile_measures_itself_within_one_account(folder: Path) -> None:
    told = cotune("run", "--recording", folder, "--target", "0.8", "--deadline", "1h")
    outcome = told["outcome"]
    assert outcome["met"] is told["met"] is True
    assert told["run"]["accuracy"] >= 0.8
    assert outcome["seconds"] <= 3600
    assert 0 < outcome["measuring_device_seconds"] < outcome["device_seconds"]
    assert len(outcome["moves"]) == told["starts"] - 1
    assert [forecast["probability"] <= 0.99 for forecast in told["forecasts"]]
    late = cotune("run", "--recording", folder, "--target", "0.8", "--deadline", "1s", code=6)
    assert late["outcome"]["met"] is False
    assert "1 s was asked" in late["missed"]


def test_a_recording_is_written_over_only_when_asked(tmp_path: Path) -> None:
    store, folder = tmp_path / "store.db", tmp_path / "recorded"
    with open_store(str(store)) as kept:
        kept.save(Job("größer", examples=100), Sample(Config.data_parallel(16, 1), 2.0, 0.5, id="a", seconds=1.0))
    words = ("record", "--job", "größer", "--store", store, "-o", folder)
    assert cotune(*words)["times"] == 1
    assert "name: größer" in (folder / "job.yaml").read_text(encoding="utf-8")
    assert "--force writes over it" in cotune(*words, code=2)["error"]["message"]
    assert cotune(*words, "--force")["times"] == 1
