"""The pattern finder on lines of many frameworks: the right number, or none."""

from __future__ import annotations

import re

import pytest

from cotune.jobfile import finder
from cotune.jobfile.finder import suggested
from jobfile.log_lines import LINES, LogLine

UNITS = [unit for unit, _ in finder._UNITS]


@pytest.mark.parametrize("told", LINES, ids=[f"{line.framework}-{place}" for place, line in enumerate(LINES)])
def test_the_right_number_is_read_of_a_line_or_none(told: LogLine) -> None:
    found = suggested([f"loading 3 files\n{told.line}\n", f"{told.line}\n"], told.metric)
    expected = told.value if told.unit in UNITS else None
    assert (found.value if found else None) == expected
    if found is not None:
        match = re.search(found.pattern, told.line)
        assert match is not None
        assert float(match[found.metric]) == expected


def test_the_lines_are_of_many_frameworks() -> None:
    assert len({line.line for line in LINES}) >= 60
    assert len({line.framework for line in LINES}) >= 15


def test_a_line_of_held_out_values_is_preferred_to_an_earlier_one() -> None:
    lines = ["epoch 1 loss 0.5", "epoch 1 val_loss 0.7"]
    found = suggested(lines, "loss")
    assert found is not None
    assert found.value == 0.7


def test_a_metric_that_nobody_has_named_may_be_another_that_is_held_out() -> None:
    lines = ["epoch 1 loss 0.5 val_loss 0.7"]
    assert suggested(lines, "accuracy") is None
    found = suggested(lines, "accuracy", named=False)
    assert found is not None
    assert (found.metric, found.value) == ("val_loss", 0.7)


def test_a_line_that_begins_with_a_bare_count_counts_epochs_if_it_tells_a_held_out_value() -> None:
    found = suggested(["[3/20] loss=1.2 val_top1=41.01%"], "accuracy")
    assert found is not None
    assert (found.progress, found.metric, found.value) == (3.0, "accuracy", 41.01)
    assert re.search(found.pattern, "[12/20] loss=0.9 val_top1=55%")
    assert suggested(["[3/20] loss=1.2"], "loss") is None, "these may be steps"
