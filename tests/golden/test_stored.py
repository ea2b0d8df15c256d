"""A store that was written earlier is read with the same samples, and can be added to.

`inputs/stored.db.xz` holds imported logs, two trainings, a replayed recording, plans, a simulation and
a placement.
"""

from __future__ import annotations

import pytest

from golden.commands import Command, Scenario, expected, outcomes
from golden.scenarios import SCENARIOS
from golden.values import differences

_COPIED = ("digits/cotune.yaml", "digits/train.py", "stored.db.xz")
_SAMPLES = "samples --store stored.db"
_IMPORT = "import ray-tune inputs/logs/ray_tune --store stored.db"
_PLAN = "plan --recording inputs/tiny --target 0.4 --deadline 1h --store stored.db"


@pytest.fixture(scope="module")
def golden() -> list[dict[str, object]]:
    (scenario,) = (scenario for scenario in SCENARIOS if scenario.name == "stored")
    read: list[dict[str, object]] = expected(scenario)[0]["document"]["samples"]
    return read


def test_its_samples_are_read_as_they_were_written_however_often(golden: list[dict[str, object]]) -> None:
    for outcome in outcomes(Scenario("read-twice", (Command(_SAMPLES), Command(_SAMPLES)), _COPIED)):
        assert outcome["code"] == 0
        assert list(differences(golden, outcome["document"]["samples"], "")) == []


def test_more_is_written_beside_them() -> None:
    commands = (Command(_SAMPLES), Command(_IMPORT), Command(_PLAN), Command(_SAMPLES))
    before, _, planned, after = outcomes(Scenario("add", commands, _COPIED))
    assert planned["document"]["plan"]["config"]
    there, now = before["document"]["samples"], after["document"]["samples"]
    assert [sample for sample in now if sample in there] == there
    assert len(now) > len(there)


def test_it_holds_probes_and_runs_of_several_engines(golden: list[dict[str, object]]) -> None:
    assert {sample["purpose"] for sample in golden} == {"probe", "run"}
    assert {"ray_tune", "local", "recorded"} <= {sample["engine"] for sample in golden}
