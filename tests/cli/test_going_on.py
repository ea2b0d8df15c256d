"""A run goes on from the probe that trained its recipe: real jobs, real checkpoints, one store."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.jobs import TRAINING, Done, checkpointing, cotune, script
from cotune.checkpoints import CHECKPOINT
from cotune.jobfile import settings as job_settings
from cotune.project.run import afterwards
from cotune.run.beginning import Beginning, first_start
from cotune.types import Config, Sample
from lab.worlds import world

JOB = ("--name", "digits", "--examples", "1440", "--workers", "1", "--batch-size", "48", "--max-epochs", "12")


def kept(folder: Path) -> list[Path]:
    return sorted((folder / ".cotune" / "runs").glob("*/checkpoint/w.npy"))


def measured(folder: Path, target: str) -> Done:
    done = cotune(folder, "profile", *JOB, "--for-goal", "--target", target, "--json", *TRAINING)
    assert done.code == 0, done.err
    return done


def test_a_probe_that_met_the_target_leaves_nothing_to_train(tmp_path: Path) -> None:
    checkpointing(tmp_path)
    measured(tmp_path, "accuracy=0.8")
    assert len(kept(tmp_path)) == 1, "one checkpoint of one recipe"
    planned = cotune(tmp_path, "plan", "--target", "accuracy=0.8", "--json").json
    profile = planned["profile"]
    assert 0 < profile["reused_device_seconds"] <= profile["device_seconds"]
    assert planned["plan"]["forecast"]["seconds"]["mid"] > 0, "the forecast is of a whole training"
    assert planned["plan"]["continues"]["seconds"]["high"] == 0
    ran = cotune(tmp_path, "run", "--json")
    assert ran.code == 0, ran.err
    assert ran.json["met"]
    assert ran.json["run"]["seconds"] == 0
    assert ran.json["run"]["accuracy"] >= 0.8
    assert ran.json["continued"]["sample"] == planned["plan"]["continues"]["sample"]
    assert len(kept(tmp_path)) == 2, "the run has the weights in its own folder"


def test_a_run_trains_only_what_its_probe_has_not(tmp_path: Path) -> None:
    checkpointing(tmp_path)
    measured(tmp_path, "accuracy=0.874")
    goal = ("--target", "accuracy=0.88", "--max-epochs", "12", "--confidence", "0.3")
    planned = cotune(tmp_path, "plan", *goal, "--json")
    assert planned.code == 0, planned.err
    rest, whole = planned.json["plan"]["continues"], planned.json["plan"]["forecast"]
    assert 0 < rest["seconds"]["mid"] < whole["seconds"]["mid"]
    assert rest["cost"]["mid"] < whole["cost"]["mid"]
    shown = cotune(tmp_path, "plan", *goal)
    assert "continues probe" in shown.out
    ran = cotune(tmp_path, "run", "--json")
    assert ran.code == 0, ran.err
    trained = ran.json["continued"]["epochs"]
    assert trained >= 1
    assert ran.json["run"]["curve"][0]["epoch"] == trained + 1
    samples = cotune(tmp_path, "samples", "--json").json["samples"]
    assert samples[-1]["resumed_from"] == ran.json["continued"]["sample"]
    assert samples[-1]["seed"] == next(s["seed"] for s in samples if s["id"] == samples[-1]["resumed_from"])
    anew = cotune(tmp_path, "run", "--from-scratch", "--json")
    assert anew.json["continued"] is None
    assert anew.json["run"]["curve"][0]["epoch"] == 1
    straight, in_two = ([p["accuracy"] for p in r.json["run"]["curve"]] for r in (anew, ran))
    assert straight[int(trained) :] == in_two, "going on gives the very weights of one long run"


def test_a_job_that_keeps_no_checkpoint_starts_anew_and_says_so(tmp_path: Path) -> None:
    script(tmp_path)
    measured(tmp_path, "accuracy=0.8")
    planned = cotune(tmp_path, "plan", "--target", "accuracy=0.8", "--json").json
    assert planned["profile"]["reused_device_seconds"] == 0
    assert "continues" not in planned["plan"]
    said = cotune(tmp_path, "plan", "--target", "accuracy=0.8").out
    assert "the job writes no checkpoint into the folder named by COTUNE_CHECKPOINT, so a run begins anew" in said
    ran = cotune(tmp_path, "run", "--json").json
    assert ran["continued"] is None
    assert ran["run"]["curve"][0]["epoch"] == 1


def test_a_job_that_ignores_its_checkpoint_is_measured_as_it_is(tmp_path: Path) -> None:
    file = checkpointing(tmp_path)
    file.write_text(file.read_text().replace("COTUNE_RESUME", "NEVER_SET").replace(", checkpoint=", ", saving="))
    measured(tmp_path, "accuracy=0.8")
    assert cotune(tmp_path, "plan", "--target", "accuracy=0.8").code == 0
    ran = cotune(tmp_path, "run", "--json")
    assert ran.json["met"]
    assert ran.json["run"]["curve"][0]["epoch"] == 1


def test_a_curve_that_is_taken_up_again_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    checkpointing(tmp_path)
    measured(tmp_path, "accuracy=0.8")
    words = ("--budget", "60s", "--target", "accuracy=0.99", "--json", *TRAINING)
    again = cotune(tmp_path, "profile", *JOB, *words)
    assert again.code == 0, again.err
    (curve,) = [sample for sample in again.json["samples"] if sample["curve"]]
    assert curve["resumed_from"]
    assert curve["curve"][0]["epoch"] > 1
    assert curve["epochs"] == 12
    assert len(kept(tmp_path)) == 1, "what was gone on with is not kept twice"
    plan = cotune(tmp_path, "plan", "--target", "accuracy=0.8", "--max-epochs", "12", "--json")
    assert plan.code == 0, plan.err
    assert plan.json["profile"]["reused_device_seconds"] > curve["device_seconds"], "with those it went on from"


@pytest.mark.parametrize("seed", ["0", "3"])
def test_a_run_on_a_recording_goes_on_from_its_probe(tmp_path: Path, seed: str) -> None:
    asked = "--target 0.8 --deadline 1h --max-device-seconds 100000 --json"
    goal = ("--recording", str(world(tmp_path / "world")), "--seed", seed, *asked.split())
    planned = cotune(tmp_path, "plan", *goal).json
    assert 0 < planned["profile"]["reused_device_seconds"] < planned["profile"]["device_seconds"]
    ran = cotune(tmp_path, "run", *goal)
    assert ran.code == 0, ran.err
    assert ran.json["met"]
    assert ran.json["continued"]["device_seconds"] == pytest.approx(planned["profile"]["reused_device_seconds"])


@pytest.mark.parametrize("left", [True, False])
def test_a_run_is_told_to_go_on_only_from_a_checkpoint_that_it_left(tmp_path: Path, left: bool) -> None:
    settings = job_settings.loads("run: python train.py {batch_size}\n", {}, "here", tmp_path)
    if left:
        (tmp_path / CHECKPOINT).mkdir()
        (tmp_path / CHECKPOINT / "w.npy").write_text("weights")
    before = Sample(Config.data_parallel(16, 1), purpose="run", folder=str(tmp_path))
    begin = Beginning(0, tmp_path, before)
    launch, _ = first_start(settings, before.config, settings.goal, begin, None)
    assert launch.resume == left
    assert ("from there" in afterwards(launch.folder)) == left
