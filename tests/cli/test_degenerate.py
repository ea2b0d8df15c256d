"""The least spaces, dead and broken metrics, no budget: a plan with a wide interval, or one clear line."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.jobs import JOB, TRAINING, Done, cotune, script

ONE = ("--name", "digits", "--examples", "1440", "--workers", "1", "--batch-size", "48", "--max-epochs", "6")
GOAL = ("--target", "accuracy=0.8", "--deadline", "5m")


def profiled(folder: Path, *words: str, goal: tuple[str, ...] = GOAL) -> Done:
    return cotune(folder, "profile", *words, "--for-goal", *goal, "--json", *TRAINING)


def last_line(done: Done) -> str:
    assert "Traceback" not in done.err
    return done.err.strip().splitlines()[-1]


@pytest.mark.parametrize("workers", ["1", "1,2"])
def test_one_batch_on_one_worker_or_several_gives_a_plan_with_an_interval(tmp_path: Path, workers: str) -> None:
    script(tmp_path)
    done = profiled(tmp_path, *ONE[:4], "--workers", workers, *ONE[6:])
    assert done.code == 0, done.err
    planned = cotune(tmp_path, "plan", *GOAL, "--max-epochs", "6", "--json")
    assert planned.code == 0, planned.err
    seconds = planned.json["plan"]["forecast"]["seconds"]
    assert seconds["low"] < seconds["mid"] < seconds["high"]
    assert bool(planned.json["rivals"]) == (workers != "1")


def test_a_metric_that_never_moves_is_told_as_what_binds(tmp_path: Path) -> None:
    script(tmp_path, after="accuracy = 0.1")
    assert profiled(tmp_path, *JOB, "--max-epochs", "6").code == 0
    refused = cotune(tmp_path, "plan", *GOAL, "--max-epochs", "6", "--json")
    assert refused.code == 5
    assert refused.json["error"]["constraint"] == "target"
    assert refused.json["error"]["by"]["value"] == pytest.approx(0.7, abs=0.01)


def test_a_probe_that_fails_costs_only_itself(tmp_path: Path) -> None:
    script(tmp_path, setup="if batch == 48: raise RuntimeError('no luck today')")
    done = cotune(tmp_path, "profile", *JOB, "--max-epochs", "6", "--json", *TRAINING)
    assert done.code == 0, done.err
    assert sum(sample["failure"] is not None for sample in done.json["samples"]) == 1
    planned = cotune(tmp_path, "plan", *GOAL, "--max-epochs", "6", "--json")
    assert planned.code == 0, planned.err
    assert planned.json["plan"]["config"]["batch_size"] == 16


def test_a_prediction_of_nothing_that_can_run_is_refused_with_the_batches_that_did(tmp_path: Path) -> None:
    script(tmp_path, setup="if batch == 48: raise MemoryError('no room')")
    assert cotune(tmp_path, "profile", *JOB, "--max-epochs", "6", *TRAINING).code == 0
    for flags in ((), ("--json",)):
        refused = cotune(tmp_path, "predict", *JOB[:2], "-w", "1", "-b", "1000000", *flags, *TRAINING)
        assert refused.code == 3
        told = " ".join((refused.json["error"]["message"] if flags else refused.err).split())
        assert "no forecast of batch 1000000 on 1 worker" in told
        assert "(1 config left out: batch 48 on 1 worker" in told
        assert "batches 16 did" in told


def test_a_script_that_refuses_its_arguments_is_started_once(tmp_path: Path) -> None:
    script(tmp_path)
    (tmp_path / "train.py").write_text("import argparse\nargparse.ArgumentParser().parse_args()\n")
    done = cotune(tmp_path, "profile", *JOB, *TRAINING)
    assert done.code == 7
    assert "unrecognized arguments: " in last_line(done)
    assert done.err.count("failed: batch") == 1


def test_a_budget_of_nothing_is_refused_with_what_to_allow(tmp_path: Path) -> None:
    script(tmp_path)
    done = profiled(tmp_path, *ONE, "--budget", "0s")
    assert done.code in (2, 8)
    assert "budget" in last_line(done)
    refused = cotune(tmp_path, "plan", *JOB[:2], *JOB[4:], *GOAL, "--no-measure", *TRAINING)
    assert refused.code == 3
    assert "cotune profile" in last_line(refused)


def test_a_plan_without_samples_measures_first_what_decides(tmp_path: Path) -> None:
    script(tmp_path)
    planned = cotune(tmp_path, "plan", *JOB[:2], *JOB[4:], *GOAL, "--max-epochs", "6", "--json", *TRAINING)
    assert planned.code == 0, planned.err
    assert "doing so now" in planned.err
    assert "seconds per epoch of batch" in planned.err
    assert planned.json["profile"]["samples"] >= 2
    again = cotune(tmp_path, "plan", *GOAL, "--max-epochs", "6", "--json")
    assert again.json["profile"] == planned.json["profile"], "what was measured is not measured again"


def test_memory_that_runs_out_never_ends_a_profile_nor_gets_into_a_plan(tmp_path: Path) -> None:
    limit = (
        "import resource\n"
        "used = int(open('/proc/self/statm').read().split()[5]) * resource.getpagesize()\n"
        "resource.setrlimit(resource.RLIMIT_DATA, (used + 200 * 2**20,) * 2)\n"
        "activations = np.ones((batch, 2**18))"
    )
    script(tmp_path, setup=limit)
    words = (*ONE[:6], "--batch-size", "16,48,144,480", *ONE[8:])
    done = cotune(tmp_path, "profile", "--cover", *words, *GOAL, "--json", *TRAINING)
    assert done.code == 0, done.err
    full = [sample for sample in done.json["samples"] if "out of memory" in (sample["failure"] or "")]
    assert full, "two megabytes for each example of a batch, and 200 in all"
    assert all(sample["config"]["batch_size"] > 48 for sample in full)
    planned = cotune(tmp_path, "plan", *GOAL, "--max-epochs", "6", "--json")
    assert planned.code == 0, planned.err
    chosen = [planned.json["plan"], *planned.json["rivals"]]
    assert all(one["config"]["batch_size"] <= 48 for one in chosen)


def test_a_job_that_never_tells_the_metric_of_its_target_is_measured_once(tmp_path: Path) -> None:
    file = script(tmp_path)
    file.write_text(file.read_text().replace("epoch=epoch, accuracy=accuracy", "epoch=epoch"))
    goal = ("--target", "accuracy>=0.9", "--max-epochs", "9")
    done = cotune(tmp_path, "profile", *JOB, *goal, "--budget", "60s", *TRAINING)
    assert done.code == 7
    assert "digits trained 9 epochs and never told accuracy, which the target is on" in done.err
    assert done.err.count("learning curve at global batch") == 1
