"""Whoever reads our JSON can go on reading it: keys, types and units of all documents hold for good."""

from __future__ import annotations

import functools

import pytest

from golden.commands import Scenario, expected, outcomes
from golden.scenarios import RUN_ONCE, SCENARIOS
from golden.shapes import Shapes


@functools.cache
def shapes() -> Shapes:
    return Shapes.of_all()


@pytest.mark.parametrize("scenario", RUN_ONCE)
def test_documents_keep_their_keys_types_and_units(scenario: Scenario) -> None:
    if scenario.needs:
        pytest.importorskip(scenario.needs)
    problems = [
        f"{now['command']}: {problem}"
        for golden, now in zip(expected(scenario), outcomes(scenario), strict=True)
        for problem in shapes().problems(golden["document"], now["document"])
    ]
    assert not problems


def test_a_key_that_goes_and_a_type_or_unit_that_changes_is_seen() -> None:
    (golden,) = (outcome["document"] for outcome in expected(_named("plan-vgg19-slices")))
    assert not shapes().problems(golden, golden | {"more": 1})
    assert shapes().problems(golden, {key: value for key, value in golden.items() if key != "goal"})
    assert shapes().problems(golden, golden | {"job": 5}) == [".job is number, not text"]
    seconds = golden["plan"]["forecast"]["seconds"] | {"unit": "h"}
    forecast = golden["plan"]["forecast"] | {"seconds": seconds}
    (said,) = shapes().problems(golden, golden | {"plan": golden["plan"] | {"forecast": forecast}})
    assert said == ".plan.forecast.seconds.unit is 'h', not one of ['s']"


def _named(name: str) -> Scenario:
    return next(scenario for scenario in SCENARIOS if scenario.name == name)
