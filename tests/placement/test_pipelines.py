"""From a network to a profile, a plan and a run, as a user goes; and what goes wrong on the way."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cli.jobs import cotune, environment
from cotune.errors import CotuneError, EngineError
from cotune.placement.verbs import _profile_layers, _run_placement

MODEL = "ctrdnn(width=16, rows=1000, groups=[1,2,2])"
PLAN = {
    "model": MODEL,
    "types": [{"name": "cpu", "price_per_hour": 0.04}],
    "plan": {
        "batch": 64,
        "throughput": 1000.0,
        "price_per_hour": 0.08,
        "unit": "USD",
        "stages": [
            {"type": "cpu", "units": 1, "first": 0, "last": 0, "seconds": 0.1},
            {"type": "cpu", "units": 1, "first": 1, "last": 2, "seconds": 0.1},
        ],
    },
}


def test_a_device_that_is_not_there_is_refused_before_anything_is_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(EngineError, match="type other: torch knows no device 'gpu9'"):
        _profile_layers.profile(MODEL, ["cpu", "other(device=gpu9)"], tmp_path / "p.json", workers="1", batch_size="64")
    assert "seconds of every layer" not in capsys.readouterr().err


def test_layers_are_measured_placed_and_run(tmp_path: Path) -> None:
    kinds = ("--type", "cpu(price_per_hour=0.04, limit=2)", "--type", "other(device=cpu, limit=1)")
    counts = ("--workers", "1,2", "--batch-size", "64,128", "--budget", "1s")
    done = cotune(tmp_path, "pipeline", "profile", MODEL, *kinds, *counts, "-o", "p.json")
    assert done.code == 0, done.err
    profile = json.loads((tmp_path / "p.json").read_text())
    assert [layer["name"] for layer in profile["layers"]] == ["embedding", "fc1+fc2", "fc3+loss"]
    assert all(min(layer["compute"]) > 0 for layer in profile["layers"])
    placed = cotune(tmp_path, "place", "p.json", "--throughput", "10", "--json")
    assert placed.code == 0, placed.err
    (tmp_path / "plan.json").write_text(placed.out)
    run = cotune(tmp_path, "pipeline", "run", "plan.json", "--json", "--", "--batches", "12")
    assert run.code == 0, run.err
    measured = run.json["measured"]
    assert len(measured["losses"]) == 12
    assert measured["examples_per_second"] > 0


def test_a_plan_of_several_stages_runs_and_shows_planned_beside_measured(tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text(json.dumps(PLAN))
    run = cotune(tmp_path, "pipeline", "run", "plan.json", "--", "--batches", "12", "--mode", "sync")
    assert run.code == 0, run.err
    for word in ("planned per batch", "measured, 1,000 planned", "loss "):
        assert word in run.out


def test_what_any_search_found_can_be_run(tmp_path: Path) -> None:
    alone = {**PLAN["plan"], "stages": [{"type": "cpu", "units": 1, "first": 0, "last": 2, "seconds": 0.1}]}
    searches = {"cpu_only": {"plan": alone}, "greedy": {"plan": None}}
    (tmp_path / "plan.json").write_text(json.dumps({**PLAN, "searches": searches}))
    run = cotune(tmp_path, "pipeline", "run", "plan.json", "--search", "cpu_only", "--json", "--", "--batches", "4")
    assert run.code == 0, run.err
    assert len(run.json["placement"]["stages"]) == 1
    assert len(run.json["measured"]["losses"]) == 4
    nothing = cotune(tmp_path, "pipeline", "run", "plan.json", "--search", "greedy")
    assert (nothing.code, "greedy found no plan" in nothing.err) == (3, True)
    unknown = cotune(tmp_path, "pipeline", "run", "plan.json", "--search", "tabu")
    assert (unknown.code, "there are cpu_only, greedy" in unknown.err) == (3, True)


def test_ctrl_c_ends_every_process(tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text(json.dumps(PLAN))
    command = [sys.executable, "-m", "cotune", "pipeline", "run", "plan.json", "--", "--batches", "1000000"]
    running = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True, env=environment(tmp_path))
    assert running.stderr is not None
    assert any("loss" in line for line in running.stderr)  # training has begun
    running.send_signal(signal.SIGINT)
    running.communicate(timeout=60)
    assert running.returncode != 0
    left = subprocess.run(["pgrep", "-f", str(tmp_path)], capture_output=True, text=True, check=False)
    assert left.stdout == ""


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        (None, 3, "no plan at"),
        ("{", 4, "not a plan"),
        ("{}", 4, "not a plan"),
        (json.dumps({**PLAN, "types": [{"name": "gpu", "price_per_hour": 1.0}]}), 4, "a stage is on 'cpu'"),
        (json.dumps({**PLAN, "model": None}), 2, "names no model"),
    ],
)
def test_a_plan_that_cannot_be_run_is_explained(tmp_path: Path, text: str | None, code: int, words: str) -> None:
    plan = tmp_path / "plan.json"
    if text is not None:
        plan.write_text(text)
    with pytest.raises(CotuneError, match=words) as raised:
        _run_placement.run(plan)
    assert raised.value.exit_code == code


@pytest.mark.parametrize(
    ("model", "kinds", "units", "words"),
    [
        ("ctrdn", [], "1", "did you mean 'ctrdnn'"),
        ("ctrdnn(widht=3)", [], "1", "widht"),
        ("ctrdnn(groups=[2,2])", [], "1", "add up to 5 layers"),
        ("nothing:here", [], "1", "No module named 'nothing'"),
        ("nce(rows=9)", ["cpu(cores=2)"], "1", "cores"),
        ("nce(rows=9)", [], "0", "whole numbers"),
        ("nce(rows=9)", [], "three..4", "whole numbers"),
    ],
)
def test_a_wrong_wish_for_a_profile_is_explained(
    tmp_path: Path, model: str, kinds: list[str], units: str, words: str
) -> None:
    with pytest.raises(CotuneError, match=words):
        _profile_layers.profile(model, kinds, tmp_path / "p.json", workers=units, batch_size="64")
