"""Patterns on a job's output: which names they must hold, and where a slip is found."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

import pytest

from cotune.errors import CotuneError, InvalidFile, UsageError
from cotune.jobfile import settings as job_settings
from cotune.jobfile.finder import suggested
from cotune.jobfile.pattern import counts_apart, other_name, pattern_of
from cotune.types import Job

ACCURACY = r"epoch (?P<epoch>\d+) accuracy (?P<accuracy>\S+)"
LOSS = r"epoch (?P<epoch>\d+) loss (?P<loss>\S+)"


@pytest.mark.parametrize(
    ("pattern", "metric", "better"),
    [
        (ACCURACY, "accuracy", "higher"),
        (ACCURACY, "val_accuracy", "higher"),
        (ACCURACY, "accuracy", "lower"),
        (LOSS, "loss", "lower"),
        (LOSS + "(?P<accuracy>.)", "loss", "lower"),
        (ACCURACY + "(?P<evaluation>.)", "eval/accuracy", "higher"),
        (r"(?P<epoch>\d+) (?P<eval_loss>\S+)", "eval/loss", "lower"),
    ],
)
def test_a_pattern_is_taken_that_tells_the_metric(
    pattern: str, metric: str, better: Literal["higher", "lower"]
) -> None:
    found = pattern_of(Job("x", pattern=pattern, metric=metric, better=better))
    assert found is not None
    assert found.pattern == pattern


@pytest.mark.parametrize(
    ("target", "pattern", "words"),
    [
        ("acuracy=95", ACCURACY, "the pattern names accuracy, not acuracy; did you mean 'accuracy'?"),
        (
            "loss<=0.3",
            ACCURACY,
            "the pattern names accuracy, not loss: ask for that, or name the group of loss (?P<loss>...)",
        ),
        ("los<=0.3", LOSS, "the pattern names loss, not los; did you mean 'loss'?"),
        (
            "accuracy=0.9",
            LOSS,
            "the pattern names loss, not accuracy: ask for that, or name the group of accuracy (?P<accuracy>...)",
        ),
        ("accuracy=0.9", r"(?P<epoch>\d+)", "must name (?P<accuracy>...)"),
        ("f1=0.9", ACCURACY, "the pattern names accuracy, not f1: ask for that, or name the group of f1 (?P<f1>...)"),
        ("accuracy=0.9", "(?P<accuracy>.)", "must name (?P<epoch>...)"),
    ],
)
def test_a_target_that_the_pattern_never_tells_is_refused_by_every_verb(
    target: str, pattern: str, words: str, tmp_path: Path
) -> None:
    file = f"run: python train.py {{batch_size}}\npattern: '{pattern}'"
    assert job_settings.loads(file, {}, "cotune.yaml", tmp_path).job.pattern == pattern
    with pytest.raises(UsageError) as refused:
        job_settings.loads(file, {"target": target}, "cotune.yaml", tmp_path)
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("text", "flags", "error", "place"),
    [
        ("name: x\npattern: '\\d('", {}, InvalidFile, "cotune.yaml:2: pattern: "),
        ("name: x", {"pattern": "\\d("}, UsageError, "pattern: "),
    ],
)
def test_a_broken_expression_is_named_where_it_stands_and_as_it_was_written(
    text: str, flags: dict[str, str], error: type[CotuneError], place: str, tmp_path: Path
) -> None:
    with pytest.raises(error) as refused:
        job_settings.loads(text, flags, "cotune.yaml", tmp_path)
    why = "missing ), unterminated subpattern at position 2"
    assert str(refused.value) == f"{place}expected a regular expression ({why}), not '\\d('"


@pytest.mark.parametrize(
    ("line", "metric", "pattern"),
    [
        ("epoch 3 acc 0.87", "accuracy", r"epoch\s+(?P<epoch>\d+).*?\bacc\s+(?P<accuracy>[\d.]+)"),
        ("[pass 00] loss: 0.3 acc: 61.20%", "accuracy", r"pass\s+(?P<epoch>\d+).*?\bacc:\s+(?P<accuracy>[\d.]+)\s*%"),
        ("Epoch [3/9] acc=.9 val_acc=.87", "accuracy", r"Epoch\s+\[(?P<epoch>\d+).*?\bval_acc=(?P<accuracy>[\d.]+)"),
        ("epoch 3 loss 0.5 val loss 0.6", "loss", r"epoch\s+(?P<epoch>\d+).*?\bval\s+loss\s+(?P<loss>[\d.]+)"),
        (
            "{'eval_accuracy': 0.91, 'epoch': 1.5}",
            "accuracy",
            r"\beval_accuracy.:\s+(?P<accuracy>[\d.]+).*?epoch.:\s+(?P<epoch>[\d.]+)",
        ),
        ("accuracy 0.9 after epoch 3", "accuracy", r"\baccuracy\s+(?P<accuracy>[\d.]+).*?epoch\s+(?P<epoch>\d+)"),
        (
            "epoch 1 val/accuracy=0.5",
            "val/accuracy",
            r"epoch\s+(?P<epoch>\d+).*?\bval/accuracy=(?P<val_accuracy>[\d.]+)",
        ),
    ],
)
def test_a_line_that_tells_an_epoch_and_the_metric_suggests_a_pattern(line: str, metric: str, pattern: str) -> None:
    found = suggested(["loading 3 files\n", "epoch 1 loading\n", f"{line}\n"], metric)
    assert found is not None
    assert (found.line, found.pattern) == (line, pattern)


def test_lines_that_tell_no_metric_suggest_nothing() -> None:
    assert suggested(["epoch 3\n", "part 1 acc 0.3\n", "accuracy at epoch 3\n"], "accuracy") is None


@pytest.mark.parametrize(
    ("line", "metric", "name"),
    [
        ("{'loss': 0.2, 'epoch': 1}", "accuracy", "loss"),
        ("{'eval_loss': 0.2, 'epoch': 1}", "accuracy", "eval_loss"),
        ("learning_rate=0.2, epoch 1", "accuracy", "learning_rate"),
        ("grad_norm: 0.2 epoch 1", "accuracy", "grad_norm"),
        ("acc: 0.2 epoch 1", "loss", "acc"),
        ("eval_accuracy: 0.2 epoch 1", "accuracy", None),
        ("Acc@1 0.2 epoch 1", "accuracy", None),
        ("val 0.2 epoch 1", "accuracy", None),
        ("score: 0.2 epoch 1", "accuracy", None),
        ("0.9 / 0.2 epoch 1", "accuracy", None),
        ("val_loss: 0.2 epoch 1", "loss", None),
    ],
)
def test_a_number_that_the_line_calls_another_metric_is_known(line: str, metric: str, name: str | None) -> None:
    match = re.search(rf"(?P<{metric}>0\.2).*epoch\W+(?P<epoch>\d+)", line)
    assert match is not None
    assert other_name(metric, match) == name


@pytest.mark.parametrize(
    ("pattern", "apart"),
    [
        (ACCURACY, False),
        (r"epoch (?P<epoch>\d+)|acc (?P<accuracy>\S+)", True),
        (r"epoch (?P<epoch>\d+)|loss (?P<loss>\S+)|acc (?P<accuracy>\S+)", True),
        (r"(?:epoch|pass) (?P<epoch>\d+) (?:acc|top1) (?P<accuracy>\S+)", False),
        (r"epoch (?P<epoch>\d+)[|] acc (?P<accuracy>\S+)", False),
        (r"epoch (?P<epoch>\d+) \| acc (?P<accuracy>\S+)", False),
        (r"[]|(] epoch (?P<epoch>\d+) acc (?P<accuracy>\S+)", False),
        (r"ep (?P<epoch>\d+) acc (?P<accuracy>\S+)|ep (?P<step>\d+)", False),
        (r"(?P<loss>a)(?P<epoch>\d+)|(?P=loss)(?P<accuracy>\S+)", False),
    ],
)
def test_progress_may_stand_on_lines_of_its_own(pattern: str, apart: bool) -> None:
    assert counts_apart(re.compile(pattern)) == apart
