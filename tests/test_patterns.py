"""Patterns on a job's output: which names they must hold, and where a slip is found."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest

from cotune import config
from cotune.errors import CotuneError, InvalidFile, UsageError
from cotune.patterns import pattern_of
from cotune.types import Job

ACCURACY = r"epoch (?P<epoch>\d+) accuracy (?P<accuracy>\S+)"
LOSS = r"epoch (?P<epoch>\d+) loss (?P<loss>\S+)"


@pytest.mark.parametrize(
    ("pattern", "metric", "better"),
    [
        (ACCURACY, "accuracy", "higher"),
        (ACCURACY, "f1", "higher"),
        (ACCURACY, "val_accuracy", "higher"),
        (ACCURACY, "accuracy", "lower"),
        (LOSS, "loss", "lower"),
        (LOSS + "(?P<accuracy>.)", "loss", "lower"),
        (ACCURACY + "(?P<evaluation>.)", "f1", "higher"),
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
        ("loss<=0.3", ACCURACY, "the pattern names accuracy, not loss; name the group of loss (?P<loss>...)"),
        ("los<=0.3", LOSS, "the pattern names loss, not los; did you mean 'loss'?"),
        ("accuracy=0.9", LOSS, rf"the pattern '{LOSS}' must name (?P<accuracy>...)"),
        ("accuracy=0.9", "(?P<accuracy>.)", "must name (?P<epoch>...)"),
    ],
)
def test_a_target_that_the_pattern_never_tells_is_refused_by_every_verb(
    target: str, pattern: str, words: str, tmp_path: Path
) -> None:
    file = f"run: python train.py {{batch_size}}\npattern: '{pattern}'"
    assert config.loads(file, {}, "cotune.yaml", tmp_path).job.pattern == pattern
    with pytest.raises(UsageError) as refused:
        config.loads(file, {"target": target}, "cotune.yaml", tmp_path)
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("text", "flags", "error", "place"),
    [
        ("name: x\npattern: '\\d('", {}, InvalidFile, "cotune.yaml:2: pattern: "),
        ("name: x", {"pattern": "\\d("}, UsageError, "--pattern: "),
    ],
)
def test_a_broken_expression_is_named_where_it_stands_and_as_it_was_written(
    text: str, flags: dict[str, str], error: type[CotuneError], place: str, tmp_path: Path
) -> None:
    with pytest.raises(error) as refused:
        config.loads(text, flags, "cotune.yaml", tmp_path)
    why = "missing ), unterminated subpattern at position 2"
    assert str(refused.value) == f"{place}expected a regular expression ({why}), not '\\d('"
