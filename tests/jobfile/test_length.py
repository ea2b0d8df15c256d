"""Lengths in steps, tokens and epochs, and the parts they are cut into."""

from __future__ import annotations

from pathlib import Path

import pytest

from cotune import progress
from cotune.errors import InvalidFile
from cotune.jobfile import settings as job_settings
from cotune.jobfile.length import LEAST_PARTS
from cotune.jobfile.settings import Settings
from cotune.types import Config

SMALL, LARGE = Config.data_parallel(8, 1), Config.data_parallel(8, 4)


def test_the_same_examples_are_the_same_progress_whatever_the_batch(tmp_path: Path) -> None:
    job = _settings("length: 20000 steps of 64", tmp_path).job
    assert progress.done(job, SMALL, {"step": 400}) == progress.done(job, LARGE, {"step": 100})


@pytest.mark.parametrize(
    ("text", "unit", "count"),
    [
        ("length: 20000 steps of 8", "steps", 20_000),
        ("length: 20k steps\nglobal_batch: 8", "steps", 20_000),
        ("length: 20000 steps\nlr: {at: 0.1, global_batch: 8, rule: fixed}", "steps", 20_000),
        ("length: 2e9 tokens\nsequence: 1024", "tokens", 2e9),
        ("length: 1.5 epochs\nexamples: 60000", "epochs", 1.5),
        ("length: 1.5 epochs", "epochs", 1.5),
        ("length: 15 epochs\nexamples: 60000", "epochs", 15),
    ],
)
def test_a_length_is_the_whole_training_in_its_own_unit(text: str, unit: str, count: float, tmp_path: Path) -> None:
    settings = _settings(text, tmp_path)
    assert settings.job.counting.unit == unit
    told = progress.amount(settings.job, SMALL, settings.goal.cap)
    assert count <= told <= count * (1 + 1 / LEAST_PARTS)


def test_a_training_of_a_few_epochs_is_not_rounded_to_epochs(tmp_path: Path) -> None:
    settings = _settings("length: 3 epochs\nexamples: 60000", tmp_path)
    assert settings.goal.cap >= LEAST_PARTS
    assert progress.words(settings.job, SMALL, settings.job.counting.parts / 4) == "0.25 epochs"
    assert progress.done(settings.job, SMALL, {"epoch": 1.5}) == pytest.approx(1.5 * settings.job.counting.parts)


def test_a_small_change_of_length_leaves_samples_comparable(tmp_path: Path) -> None:
    one, other = (_settings(f"length: {steps} steps of 64", tmp_path).job for steps in (20_000, 22_000))
    assert one.fingerprint == other.fingerprint


def test_an_epoch_of_unknown_size_says_nothing_to_a_job_in_steps(tmp_path: Path) -> None:
    job = _settings("length: 100 steps of 64", tmp_path).job
    assert progress.done(job, SMALL, {"epoch": 1}) is None
    assert progress.done(job, SMALL, {"epoch": 1, "step": 8}) is not None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("length: 20000 steps", "steps of which global batch"),
        ("length: 2e9 tokens", "how many tokens has an example"),
        ("length: 20 minutes", "expected a length such as"),
        ("length: 0 steps of 8", "expected a length such as"),
        ("length: 20 steps of 8\nmax_epochs: 3", "max_epochs cannot be given too"),
        ("pattern: '(?P<step>.) (?P<loss>.)'", "the job counts steps: say how long it is"),
    ],
)
def test_what_a_length_lacks_is_asked_for(text: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidFile, match=words):
        _settings(text, tmp_path)


def test_steps_are_epochs_of_the_examples_where_there_is_no_length(tmp_path: Path) -> None:
    job = _settings("examples: 800\npattern: '(?P<step>.) (?P<loss>.)'", tmp_path).job
    assert progress.done(job, SMALL, {"step": 50}) == 0.5


def _settings(text: str, folder: Path) -> Settings:
    return job_settings.loads(f"run: python train.py {{batch_size}}\n{text}", {}, "cotune.yaml", folder)
