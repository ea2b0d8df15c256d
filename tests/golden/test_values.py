"""The same commands give the same answers: values of all documents, and exit codes.

Words for people (messages, reasons) may be bettered, so only their place is compared. A change of values
that is meant is written with `python tests/golden/write.py SCENARIO` and told in the commit.
"""

from __future__ import annotations

import pytest

from golden.commands import EXPECTED, Scenario, expected, outcomes
from golden.scenarios import RUN_ONCE, SCENARIOS
from golden.values import differences


@pytest.mark.parametrize("scenario", RUN_ONCE)
def test_commands_answer_as_they_did(scenario: Scenario) -> None:
    if scenario.needs:
        pytest.importorskip(scenario.needs)
    now = outcomes(scenario)
    golden = expected(scenario)
    assert [(one["command"], one["code"]) for one in now] == [(one["command"], one["code"]) for one in golden]
    differing = [
        f"{command.words}: {place}: {told}"
        for command, old, new in zip(scenario.commands, golden, now, strict=True)
        if not command.shape_only
        for place, told in differences(old["document"], new["document"], "")
    ]
    assert not differing


def test_every_exit_code_that_scripts_rely_on_is_among_them() -> None:
    codes = {outcome["code"] for scenario in SCENARIOS for outcome in expected(scenario)}
    assert {0, 2, 3, 4, 5, 6, 7, 8} <= codes


def test_every_golden_file_is_of_one_scenario() -> None:
    assert sorted(file.stem for file in EXPECTED.glob("*.json")) == sorted(scenario.name for scenario in SCENARIOS)
