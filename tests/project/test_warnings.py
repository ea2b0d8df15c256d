"""What of a job, its goal and its samples may not be meant so is said once, by the library and the verbs alike."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

import cotune
from cli.jobs import cotune as run_verb
from cotune.display import LoggedDisplay
from cotune.jobfile.scripts import note_digests
from cotune.jobfile.settings import loads
from cotune.project import warnings
from cotune.space import Configs
from cotune.store import open_store
from cotune.types import Config, Evaluation, Job, Sample, axes_of

JOB = Job("made-up")
FILE = """\
name: made-up
run: python train.py {batch_size}
examples: 100
target: {metric: loss, at_least: 0.5}
lr: {at: 0.1, global_batch: 64, rule: fixed}
schedule: constant
search: {workers: [1, 2], batch_size: [64, 128]}
devices: {a100: {count: 2}}
"""


def trained(optim: str, precision: str, pace: float) -> Sample:
    config = Config.data_parallel(64, 1, axes=axes_of({"optim": optim, "precision": precision}))
    curve = tuple(Evaluation(epoch, 1 - pace / (1 + epoch), epoch) for epoch in (1.0, 2.0, 3.0, 4.0, 5.0))
    return Sample(config, 5.0, 1.0, curve[-1].accuracy, curve=curve)


def test_an_axis_that_changes_what_is_learnt_is_asked_about() -> None:
    samples = [trained("sgd", "fp32", 0.9), trained("adamw", "fp32", 0.5), trained("sgd", "bf16", 0.91)]
    (said,) = warnings.of_axes(JOB, samples)
    assert "with optim" in said


@pytest.mark.parametrize(("pace", "said"), [(0.9, False), (0.5, True)])
def test_workers_that_change_what_is_learnt_are_asked_about(pace: float, said: bool) -> None:
    alone, both = trained("sgd", "fp32", 0.9), trained("sgd", "fp32", pace)
    shared = replace(both, config=Config.data_parallel(32, 2, axes=both.config.axes))
    found = "".join(warnings.of_axes(JOB, [alone, shared]))
    assert ("with the workers, at the same global batch" in found) == said
    assert not list(warnings.of_axes(replace(JOB, workers_matter=True), [alone, shared]))


def test_two_evaluations_or_runs_of_another_length_tell_nothing_of_workers() -> None:
    """A script with a one-cycle rate was asked whether its batch is per worker, as early evaluations jump."""
    alone, both = trained("sgd", "fp32", 0.9), trained("sgd", "fp32", 0.5)
    shared = replace(both, config=Config.data_parallel(32, 2, axes=both.config.axes))
    assert not list(warnings.of_axes(JOB, [replace(alone, curve=alone.curve[:4]), shared]))
    assert not list(warnings.of_axes(JOB, [replace(alone, length=10), replace(shared, length=40)]))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ((50.2, 73.3), (60.1, 82.4)),
        ((20.0, 40.0, 52.0, 60.0, 66.0, 70.0), (27.0, 46.0, 58.0, 66.0, 71.5, 75.5)),
    ],
    ids=["of the first epochs", "as another seed comes a fifth later"],
)
def test_what_another_seed_does_is_not_taken_for_what_workers_do(
    one: tuple[float, ...], other: tuple[float, ...]
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
    assert not list(warnings.of_axes(JOB, samples))


@pytest.mark.parametrize(("examples", "said"), [(128, False), (127, True), (None, False)])
def test_a_batch_of_more_than_an_epoch_holds_is_asked_about(examples: int | None, said: bool) -> None:
    configs = Configs.of([Config.data_parallel(64, 1), Config.data_parallel(64, 2)])
    found = "".join(warnings.of_configs(Job("small", examples=examples), configs))
    assert ("global batch 128: more than the 127 examples" in found) == said


@pytest.mark.parametrize(("target", "asked"), [("80", "same unit (0.8)?"), ("0.1", "every evaluation"), ("0.8", "")])
def test_a_target_in_another_unit_is_asked_about(target: str, asked: str, tmp_path: Path) -> None:
    settings = loads(f"name: made-up\ntarget: {{metric: accuracy, at_least: {target}}}", {}, "a test", tmp_path)
    found = list(warnings.of_target(settings, [trained("sgd", "fp32", 0.9)]))
    assert len(found) == bool(asked)
    assert asked in "".join(found)


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
    target: str, meant: str, tmp_path: Path
) -> None:
    settings = loads(f"name: made-up\ntarget: '{target}'".replace("'{", "{").replace("}'", "}"), {}, "x", tmp_path)
    found = list(warnings.of_goal(settings))
    assert len(found) == bool(meant)
    assert meant in "".join(found)
    if meant:
        level = settings.goal.target or 0.0
        met = replace(trained("sgd", "fp32", 0.9), curve=(Evaluation(1, level + settings.job.sign, 1),))
        assert not list(warnings.of_target(settings, [met]))


@pytest.mark.parametrize(
    ("command", "reads", "said"),
    [
        ("python train.py", (), True),
        ("python train.py --seed {seed}", (), False),
        ("python train.py", ("seed",), False),
        ("python -m cotune.workloads.train", (), False),
    ],
)
def test_a_seed_that_does_not_reach_the_script_is_told(command: str, reads: tuple[str, ...], said: bool) -> None:
    job = replace(JOB, command=tuple(command.split()), reads=reads)
    assert ("the command has no {seed}, so seed 5" in "".join(warnings.of_seed(job, 5))) == said


@pytest.mark.parametrize("command", ["python train.py --data train.csv", "python -m train --data train.csv"])
def test_samples_of_a_script_that_changed_since_are_told_and_others_are_not(tmp_path: Path, command: str) -> None:
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
    assert not list(warnings.changed_script(job, samples))
    script.write_text("print(2)")
    (said,) = warnings.changed_script(job, samples)
    assert "train.py changed since 1 of 4 samples of made-up was measured" in said
    assert "give the job another `name:`" in said
    (tmp_path / "start" / "scripts.json").write_text("[torn")
    script.unlink()
    assert not list(warnings.changed_script(job, samples))


@pytest.mark.parametrize(("before", "back"), [(None, "leave examples out again"), (600, "write examples: 600")])
def test_a_job_that_is_another_one_since_its_examples_changed_is_told_how_its_samples_are_kept(
    tmp_path: Path, before: int | None, back: str
) -> None:
    """It was told that its longest learning curve had no evaluation, and was measured anew."""
    job = replace(JOB, examples=before)
    sample = replace(trained("sgd", "fp32", 0.5), id="one")
    with open_store(str(tmp_path / "store.db"), tmp_path) as store:
        store.save(job, sample)
        assert not list(warnings.changed_examples(job, store))
        (said,) = warnings.changed_examples(replace(job, examples=700), store)
        assert f"was {before or 'not given'} when 1 sample of made-up was measured: this makes it another job" in said
        assert back in said
        more = list(warnings.changed_examples(replace(job, examples=700, metric="loss"), store))
        assert not more, "more than its examples changed"


@dataclass
class Shown(LoggedDisplay):
    """Keeps what is shown."""

    notes: list[str] = field(default_factory=list)

    def note(self, text: str) -> None:
        self.notes.append(text)


def test_the_library_and_the_command_line_show_the_same_warnings_each_once(tmp_path: Path) -> None:
    (tmp_path / ".cotune").mkdir()
    (tmp_path / "cotune.yaml").write_text(FILE)
    shown = Shown()
    with cotune.open(tmp_path / "cotune.yaml", display=shown) as project:
        for workers, batch in ((1, 64), (1, 128), (2, 64)):
            curve = tuple(Evaluation(epoch, 0.4 + 0.1 * epoch, 10.0 * epoch) for epoch in range(1, 6))
            config = Config.data_parallel(batch, workers, "a100")
            project.keep(Sample(config, 5.0, 10.0 / workers, 0.9, curve=curve, seconds=50.0, id=f"{workers}-{batch}"))
        expected = project.warnings()
        plan = project.plan()
        project.plan()
    assert [words for words in shown.notes if words in expected] == list(expected), "each once"
    starts = ("a100 is priced at", "loss is usually better when lower")
    assert all(words.startswith(start) for words, start in zip(expected, starts, strict=True))
    said = run_verb(tmp_path, "plan", "--json")
    assert [line for line in said.err.splitlines() if line] == shown.notes
    assert said.json["plan"]["reason"] == plan.reason


def test_a_target_in_per_cent_of_a_share_is_refused_with_the_share_and_remembered(tmp_path: Path) -> None:
    (tmp_path / "cotune.yaml").write_text(FILE.replace("{metric: loss, at_least: 0.5}", "accuracy=90"))
    with cotune.open(tmp_path / "cotune.yaml", store=tmp_path / "store.db", display=Shown()) as project:
        short = replace(trained("sgd", "fp32", 0.9), config=Config.data_parallel(64, 1, "a100"), id="one")
        project.keep(replace(short, curve=short.curve[:2]))
        with pytest.raises(cotune.Infeasible, match=r"is the target in the same unit \(0\.9\)\?"):
            project.plan()
        with pytest.raises(cotune.Infeasible, match="in the same unit"):
            project.run()
