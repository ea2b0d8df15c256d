"""What the verbs ask when measurements do not fit what was said of the job."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cotune.cli.doubts import (
    doubt_axes,
    doubt_configs,
    doubt_direction,
    doubt_examples,
    doubt_script,
    doubt_seed,
    doubt_target,
)
from cotune.cli.verbs.profile import sum_up
from cotune.jobfile.scripts import note_digests
from cotune.jobfile.settings import loads
from cotune.probe.measure import Limits
from cotune.space import Configs
from cotune.store import open_store
from cotune.types import Config, Evaluation, Failure, Job, Sample, Terms, axes_of

JOB = Job("made-up")


def trained(optim: str, precision: str, pace: float) -> Sample:
    config = Config.data_parallel(64, 1, axes=axes_of({"optim": optim, "precision": precision}))
    curve = tuple(Evaluation(epoch, 1 - pace / (1 + epoch), epoch) for epoch in (1.0, 2.0, 3.0, 4.0, 5.0))
    return Sample(config, 5.0, 1.0, curve[-1].accuracy, curve=curve)


def test_an_axis_that_changes_what_is_learnt_is_asked_about(capsys: pytest.CaptureFixture[str]) -> None:
    doubt_axes(JOB, [trained("sgd", "fp32", 0.9), trained("adamw", "fp32", 0.5), trained("sgd", "bf16", 0.91)])
    said = capsys.readouterr().err
    assert "with optim" in said
    assert "precision" not in said


@pytest.mark.parametrize(("pace", "said"), [(0.9, False), (0.5, True)])
def test_workers_that_change_what_is_learnt_are_asked_about(
    pace: float, said: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    alone, both = trained("sgd", "fp32", 0.9), trained("sgd", "fp32", pace)
    shared = replace(both, config=Config.data_parallel(32, 2, axes=both.config.axes))
    doubt_axes(JOB, [alone, shared])
    assert ("with the workers, at the same global batch" in capsys.readouterr().err) == said
    doubt_axes(replace(JOB, workers_matter=True), [alone, shared])
    assert capsys.readouterr().err == ""


def test_two_evaluations_or_runs_of_another_length_tell_nothing_of_workers(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A script with a one-cycle rate was asked whether its batch is per worker, as early evaluations jump."""
    alone, both = trained("sgd", "fp32", 0.9), trained("sgd", "fp32", 0.5)
    shared = replace(both, config=Config.data_parallel(32, 2, axes=both.config.axes))
    doubt_axes(JOB, [replace(alone, curve=alone.curve[:4]), shared])
    doubt_axes(JOB, [replace(alone, length=10), replace(shared, length=40)])
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ((50.2, 73.3), (60.1, 82.4)),
        ((20.0, 40.0, 52.0, 60.0, 66.0, 70.0), (27.0, 46.0, 58.0, 66.0, 71.5, 75.5)),
    ],
    ids=["of the first epochs", "as another seed comes a fifth later"],
)
def test_what_another_seed_does_is_not_taken_for_what_workers_do(
    one: tuple[float, ...], other: tuple[float, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    """A script that was right was asked whether its batch is per worker, by probes of two epochs and other seeds."""
    samples = [
        Sample(
            Config.data_parallel(batch // workers, workers),
            seed=workers,
            curve=tuple(Evaluation(epoch, value, epoch) for epoch, value in enumerate(values, 1)),
        )
        for batch in (32, 64, 128)
        for workers, values in ((1, one), (2, other))
    ]
    doubt_axes(JOB, samples)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(("examples", "said"), [(128, False), (127, True), (None, False)])
def test_a_batch_of_more_than_an_epoch_holds_is_asked_about(
    examples: int | None, said: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    configs = Configs.of([Config.data_parallel(64, 1), Config.data_parallel(64, 2)])
    doubt_configs(Job("small", examples=examples), configs)
    assert ("global batch 128: more than the 127 examples" in capsys.readouterr().err) == said


def test_a_profile_counts_what_told_something_and_says_why_nothing_did(capsys: pytest.CaptureFixture[str]) -> None:
    good, cut = trained("sgd", "fp32", 0.9), Sample(Config.data_parallel(64, 1), failure=Failure.interrupted("budget"))
    sum_up([], [good, cut], [good, cut], Limits(60.0))
    assert "measured 1 new sample in" in (said := capsys.readouterr().out)
    assert "1 cut short" in said
    slow = Sample(good.config, 1.0, 1.0, terms=Terms(startup=20.0))
    sum_up([slow], [], [slow], Limits(5.0))
    assert "even a start takes 20 s" in capsys.readouterr().out


@pytest.mark.parametrize(("target", "asked"), [("80", "same unit (0.8)?"), ("0.1", "every evaluation"), ("0.8", "")])
def test_a_target_in_another_unit_is_asked_about(
    target: str, asked: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = loads(f"name: made-up\ntarget: {{metric: accuracy, at_least: {target}}}", {}, "a test", tmp_path)
    doubt_target(settings, [trained("sgd", "fp32", 0.9)])
    said = capsys.readouterr().err
    assert asked in said
    assert bool(said) == bool(asked)


@pytest.mark.parametrize(
    ("target", "meant"),
    [
        ("{metric: ppl, at_least: 7.5}", "write ppl<=7.5 (at_most: 7.5)"),
        ("rmse>=0.27", "write rmse<=0.27 (at_most: 0.27)"),
        ("accuracy<=0.9", "write accuracy>=0.9 (at_least: 0.9)"),
        ("rmse=0.27", ""),
        ("rmse<=0.27", ""),
        ("likes>=3", ""),
    ],
)
def test_a_target_against_what_its_metric_is_better_at_is_told_and_not_taken_for_another_unit(
    target: str, meant: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = loads(f"name: made-up\ntarget: '{target}'".replace("'{", "{").replace("}'", "}"), {}, "x", tmp_path)
    doubt_direction(settings)
    said = " ".join(capsys.readouterr().err.split())
    assert meant in said
    assert bool(said) == bool(meant)
    if meant:
        level = settings.goal.target or 0.0
        met = replace(trained("sgd", "fp32", 0.9), curve=(Evaluation(1, level + settings.job.sign, 1),))
        doubt_target(settings, [met])
        assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("command", "reads", "said"),
    [
        ("python train.py", (), True),
        ("python train.py --seed {seed}", (), False),
        ("python train.py", ("seed",), False),
        ("python -m cotune.workloads.train", (), False),
    ],
)
def test_a_seed_that_does_not_reach_the_script_is_told(
    command: str, reads: tuple[str, ...], said: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    job = replace(JOB, command=tuple(command.split()), reads=reads)
    doubt_seed(job, None)
    assert capsys.readouterr().err == ""
    doubt_seed(job, 5)
    assert ("the command has no {seed}, so --seed 5" in " ".join(capsys.readouterr().err.split())) == said


@pytest.mark.parametrize("command", ["python train.py --data train.csv", "python -m train --data train.csv"])
def test_samples_of_a_script_that_changed_since_are_told_and_others_are_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    """A plan by the samples of an older script was told with 0.95, and missed by far."""
    script = tmp_path / "train.py"
    script.write_text("print(1)")
    (tmp_path / "start").mkdir()
    job = replace(JOB, command=tuple(command.split()), folder=str(tmp_path))
    note_digests(job, tmp_path / "start")
    note_digests(job, tmp_path / "gone")
    config = Config.data_parallel(64, 1)
    folders = [str(tmp_path / "start"), str(tmp_path / "gone"), str(tmp_path), ""]
    samples = [Sample(config, folder=folder) for folder in folders]
    script.touch()
    (tmp_path / "train.csv").write_text("1")
    doubt_script(job, samples)
    assert capsys.readouterr().err == ""
    script.write_text("print(2)")
    doubt_script(job, samples)
    said = " ".join(capsys.readouterr().err.split())
    assert "train.py changed since 1 of 4 samples of made-up was measured" in said
    assert "give the job another name (`name:`, or --name)" in said
    (tmp_path / "start" / "scripts.json").write_text("[torn")
    script.unlink()
    doubt_script(job, samples)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(("before", "back"), [(None, "leave examples out again"), (600, "write examples: 600")])
def test_a_job_that_is_another_one_since_its_examples_changed_is_told_how_its_samples_are_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], before: int | None, back: str
) -> None:
    """It was told that its longest learning curve had no evaluation, and was measured anew."""
    job = replace(JOB, examples=before)
    sample = replace(trained("sgd", "fp32", 0.5), id="one")
    with open_store(str(tmp_path / "store.db"), tmp_path) as store:
        store.save(job, sample)
        doubt_examples(job, store)
        assert capsys.readouterr().err == ""
        doubt_examples(replace(job, examples=700), store)
        said = " ".join(capsys.readouterr().err.split())
        assert f"was {before or 'not given'} when 1 sample of made-up was measured: this makes it another job" in said
        assert back in said
        doubt_examples(replace(job, examples=700, metric="loss"), store)
        assert capsys.readouterr().err == "", "more than its examples changed"
