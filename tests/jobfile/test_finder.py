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
    of_steps = suggested(["[00100/1500] train=0.5 valid accuracy: 78.4%"], "accuracy", bare="step")
    assert of_steps is not None
    assert "(?P<step>" in of_steps.pattern, "in a job that counts steps"
    found = suggested(["[3/20] loss=1.2 val_top1=41.01%"], "accuracy")
    assert found is not None
    assert (found.progress, found.metric, found.value) == (3.0, "accuracy", 41.01)
    assert re.search(found.pattern, "[12/20] loss=0.9 val_top1=55%")
    assert suggested(["[3/20] loss=1.2"], "loss") is None, "these may be steps"


MNIST = (  # the lines that pytorch/examples' mnist prints
    "Train Epoch: 1 [0/60000 (0%)]\tLoss: 2.282550",
    "Train Epoch: 1 [640/60000 (1%)]\tLoss: 1.384441",
    "Test set: Average loss: 0.0468, Accuracy: 9842/10000 (98%)",
)


def test_a_held_out_value_on_a_line_of_its_own_goes_with_the_last_line_that_counts() -> None:
    found = suggested(MNIST, "accuracy", named=False)
    assert found is not None
    assert (found.metric, found.value, found.progress) == ("accuracy", 98.0, 1.0)
    named = [match.groupdict() for line in MNIST if (match := re.search(found.pattern, line))]
    assert named == [
        {"epoch": "1", "accuracy": None},
        {"epoch": "1", "accuracy": None},
        {"epoch": None, "accuracy": "98"},
    ]
    loss = suggested(MNIST, "loss")
    assert loss is not None
    assert loss.value == 0.0468
    assert suggested(["Epoch 1/10", "acc: 0.5"], "accuracy") is None, "it may be of a part of the training data"
    assert suggested(["test acc: 0.5", "Epoch 1/10"], "accuracy") is None, "it belongs to no count"


def test_right_answers_of_so_many_are_read_in_per_cent_or_not_at_all() -> None:
    found = suggested(["Test Epoch: 3 top1: 270 / 297 = 90.91%"], "accuracy")
    assert found is not None
    assert found.value == 90.91
    assert re.search(found.pattern, "Test Epoch: 12 top1: 9 / 1000 = 0.9%")
    assert suggested(["Epoch 3 val acc 270/297"], "accuracy") is None


@pytest.mark.parametrize(
    ("line", "metric"),
    [
        ("iter=1 mean_reward=195.3", "mean_reward"),
        ("{'epoch': 1, 'r2': 0.088}", "r2"),
        ("epoch 3 | perplexity: 41.2", "perplexity"),
        ("Epoch 0.5: loss=0.5256 AUC=0.8845", "AUC"),
        ("epoch 1 loss 2 val_loss 0.7 f1 0.3", "val_loss"),
        ("epoch 3 lr 0.1", None),
        ("epoch 3 time 12.5 s", None),
        ("epoch 3 train_reward 12.5", None),
        ("epoch 3 reward 1.5 length 20", "reward"),
        ("reward 1.5", None),
    ],
)
def test_the_only_number_of_a_line_that_counts_may_be_what_the_job_is_good_by(line: str, metric: str | None) -> None:
    found = suggested([line], "accuracy", named=False)
    assert (found.metric if found else None) == metric
    if found is not None:
        match = re.search(found.pattern, line)
        assert match is not None
        assert float(match[found.metric]) == found.value
