"""`cotune place` as a user calls it: documents, words and exit codes."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from typing import Any

import pytest

from cotune.cli.main import main
from cotune.placement.problems import Problem
from cotune.placement.profiles import read
from cotune.placement.testing import ctr


@pytest.fixture
def profile(tmp_path: Path) -> Path:
    path = tmp_path / "profile.json"
    path.write_text(json.dumps(ctr(random.Random(2), 6, 2)))
    return path


class Cli:
    """Calls the command line in this process."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.monkeypatch, self.capsys = monkeypatch, capsys

    def __call__(self, *words: object) -> tuple[int, str, str]:
        self.monkeypatch.setattr(sys, "argv", ["cotune", "place", *(str(word) for word in words)])
        with pytest.raises(SystemExit) as ended:
            main()
        shown = self.capsys.readouterr()
        return int(ended.value.code or 0), shown.out, shown.err

    def json(self, *words: object) -> dict[str, Any]:
        code, out, err = self(*words, "--json")
        assert code == 0, err
        document: dict[str, Any] = json.loads(out)
        return document


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cli:
    return Cli(monkeypatch, capsys)


def test_the_document_holds_the_plan_its_proof_and_every_search(cli: Cli, profile: Path) -> None:
    document = cli.json(profile, "--throughput", 20000, "--search", "exact,greedy,aibox,genetic(rounds=5, elite=1)")
    plan = document["plan"]
    assert plan["throughput"] >= 20000
    assert plan["optimal"] is True
    assert plan["bound"] == pytest.approx(plan["cost_per_million"])
    assert [set(stage) >= {"type", "first", "last", "units"} for stage in plan["stages"]] == [True] * len(
        plan["stages"]
    )
    prices = {entry["name"]: entry["price_per_hour"] for entry in json.loads(profile.read_text())["types"]}
    rate = sum(stage["units"] * prices[stage["type"]] / 3600 for stage in plan["stages"])
    assert plan["cost_per_million"] == pytest.approx(1e6 / plan["throughput"] * rate)
    assert set(document["searches"]) == {"exact", "greedy", "aibox", "genetic(rounds=5, elite=1)"}
    for found in document["searches"].values():
        assert found["seconds"] >= 0
        assert found["cost_per_million"] is None or found["cost_per_million"] >= plan["cost_per_million"] * (1 - 1e-9)


def test_a_whole_training_costs_its_examples_times_its_epochs(cli: Cli, profile: Path) -> None:
    plan = cli.json(profile, "--throughput", 20000, "--examples", 3_000_000, "--epochs", 2)["plan"]
    assert plan["training"]["cost"] == pytest.approx(6 * plan["cost_per_million"])
    assert plan["training"]["seconds"] == pytest.approx(6e6 / plan["throughput"])


def test_people_read_stages_neighbours_and_proof(cli: Cli, profile: Path) -> None:
    code, out, _ = cli(profile, "--throughput", 20000, "--examples", 1e6, "--search", "exact,cpu_only")
    assert code == 0
    for word in ("plan ", "slowest ", "training ", "cheaper ", "faster ", "proof     optimal", "cpu_only"):
        assert word in out


def test_balanced_counts_are_the_fewest_units_that_reach_the_throughput(cli: Cli, profile: Path) -> None:
    asked = (profile, "--throughput", 20000, "--search", "exact,brute_force,reinforce(rounds=20),aibox")
    exact, balanced = cli.json(*asked), cli.json(*asked, "--provision", "balanced")
    assert balanced["asked"]["provision"] == "balanced"
    assert balanced["plan"]["throughput"] >= 20000
    known = Problem.of(read(profile), 20000)
    for name, found in balanced["searches"].items():
        plan = found["plan"]
        assert found["cost_per_million"] >= exact["plan"]["cost_per_million"] * (1 - 1e-9)
        assert plan["throughput"] >= 20000
        for stage in plan["stages"]:
            kind = known.types.index(stage["type"])
            fewer = stage["units"] - 1
            slow = fewer == 0 or known.stages.seconds(kind, stage["first"], stage["last"], fewer) > known.slowest
            assert slow, f"{name}: one unit less would do"
    code, _, err = cli(*asked, "--provision", "balanced", "--prefer", "fast")
    assert (code, "leave out --prefer fast" in err) == (2, True)


def test_a_layer_that_fits_no_type_is_named(cli: Cli, profile: Path) -> None:
    told = json.loads(profile.read_text())
    told["layers"][1]["compute"] = [None] * len(told["types"])
    profile.write_text(json.dumps(told))
    code, _, said = cli(profile, "--throughput", 1)
    assert code == 5
    assert f"layer {told['layers'][1]['name']!r} fits no type" in said


def test_a_broken_profile_ends_with_code_4(cli: Cli, profile: Path) -> None:
    profile.write_text(profile.read_text().replace('"limit": 60', '"limit": 0'))
    code, _, err = cli(profile, "--throughput", 5)
    assert code == 4
    assert "types[0].limit" in err
