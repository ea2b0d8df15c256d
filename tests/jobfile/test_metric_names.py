"""What a metric is called, and what that says."""

from __future__ import annotations

from pathlib import Path

import pytest

from cotune.errors import UsageError
from cotune.jobfile import metric_names
from cotune.jobfile import settings as job_settings
from cotune.jobfile.pattern import per_cent
from cotune.types import Job


@pytest.mark.parametrize(
    "name", ["loss", "val_loss", "eval/loss", "evalLoss", "perplexity", "test ppl", "wer", "cer", "top1-error", "RMSE"]
)
def test_lower_is_better_where_the_name_says_so(name: str) -> None:
    assert metric_names.better(name) == "lower"


@pytest.mark.parametrize("name", ["accuracy", "val_acc", "eval/f1", "mAP", "bleu", "test_accuracy", "top1", "loss_auc"])
def test_higher_is_better_where_the_name_says_so(name: str) -> None:
    assert metric_names.better(name) == "higher"


@pytest.mark.parametrize("name", ["glossary", "speed", "tera", "perf", "x"])
def test_a_name_that_says_nothing_is_not_guessed_at(name: str) -> None:
    assert metric_names.better(name) is None


def test_a_pattern_with_one_metric_names_the_metric_of_the_job(tmp_path: Path) -> None:
    job = _job(r"epoch (?P<epoch>\S+) val_loss (?P<val_loss>\S+)", tmp_path)
    assert (job.metric, job.better) == ("val_loss", "lower")


def test_of_several_metrics_the_held_out_one_is_the_jobs(tmp_path: Path) -> None:
    job = _job(r"(?P<epoch>\d+) (?P<loss>\S+) (?P<val_ppl>\S+)", tmp_path)
    assert (job.metric, job.better) == ("val_ppl", "lower")


def test_a_level_alone_is_one_of_the_metric_that_the_pattern_names(tmp_path: Path) -> None:
    text = "run: python train.py {batch_size}\ntarget: 2.5\npattern: '(?P<epoch>.) (?P<wer>.)'"
    settings = job_settings.loads(text, {}, "cotune.yaml", tmp_path)
    assert (settings.job.metric, settings.job.better, settings.goal.target) == ("wer", "lower", 2.5)


def test_an_equal_sign_means_at_least_as_good_which_of_a_loss_is_lower(tmp_path: Path) -> None:
    settings = job_settings.loads("run: python train.py {batch_size}", {"target": "loss=0.3"}, "flags", tmp_path)
    assert (settings.job.better, settings.goal.target) == ("lower", 0.3)


@pytest.mark.parametrize("given", ["target: {metric: speed, at_least: 3}", "target: speed>=3", "better: higher"])
def test_a_metric_whose_name_says_nothing_needs_one_word_more(given: str, tmp_path: Path) -> None:
    pattern = "(?P<epoch>.) (?P<speed>.)"
    with pytest.raises(UsageError, match="is a higher or a lower speed better"):
        _job(pattern, tmp_path)
    assert _job(pattern, tmp_path, given).better == "higher"


@pytest.mark.parametrize(
    ("pattern", "told"),
    [
        (r"(?P<epoch>\d+) (?P<accuracy>[\d.]+)%", True),
        (r"(?P<epoch>\d+) (?P<accuracy>[\d.]+)\s*\%", True),
        (r"(?P<epoch>\d+) (?P<accuracy>[\d.]+) of (?P<loss>\S+)%", False),
        (r"(?P<epoch>\d+)% (?P<accuracy>[\d.]+)", False),
    ],
)
def test_a_pattern_shows_per_cent_by_the_sign_after_its_number(pattern: str, told: bool) -> None:
    assert (per_cent(Job("x", pattern=pattern)) is not None) == told


def _job(pattern: str, folder: Path, more: str = "") -> Job:
    text = f"run: python train.py {{batch_size}}\npattern: '{pattern}'\n{more}"
    return job_settings.loads(text, {}, "cotune.yaml", folder).job
