"""One job has one forecast, whoever asks: the library, the command line, the dashboard, the service and the exports."""

from __future__ import annotations

import io
import json
import math
import subprocess
import sys
from collections.abc import Iterator
from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal
from unittest import mock

import numpy as np
import pytest

import cotune
from cotune.cli.main import main
from cotune.cluster.service.planned_job import PlannedJob
from cotune.dashboard.learning import learn
from cotune.dashboard.what_if import WhatIf, findings
from cotune.documents import forecast_document
from cotune.errors import Infeasible, NotFound, OverBudget, UsageError
from cotune.jobfile.settings import load
from cotune.project.run import RunLayout, RunOptions
from cotune.reports import find
from cotune.space import Configs
from cotune.store import open_store
from cotune.store.views import job_summaries
from cotune.types import Config, Evaluation, Failure, Forecast, Goal, Job, Sample, Terms
from lab.worlds import world

JOB = """\
name: net
run: python train.py {batch_size}
examples: 10000
target: {metric: accuracy, at_least: 0.8}
deadline: 30m
max_epochs: 20
search: {workers: [1, 2, 4], batch_size: [32, 64, 128]}
devices: {t4: {price_per_hour: 0.5, count: 4}}
engine: {local: {nodes: 4}}
"""


def measured(config: Config, name: str, epochs: int = 8) -> Sample:
    """A sample of a job that halves its error every few epochs, sooner with small batches."""
    pace = 4.0 + 10_000 / (200.0 * config.workers) * (1 + 8 / config.batch_size)
    rate = 3.0 + config.global_batch / 100
    curve = tuple(Evaluation(epoch, 0.95 - 0.6 * 0.5 ** (epoch / rate), epoch * pace) for epoch in range(1, epochs + 1))
    return Sample(
        config, float(epochs), pace, curve[-1].accuracy, Terms(startup=2.0), curve, seconds=epochs * pace, id=name
    )


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A job with samples of its own, and those of one like it in another folder."""
    (tmp_path / ".cotune").mkdir()
    (tmp_path / "cotune.yaml").write_text(JOB)
    (tmp_path / "before").mkdir()
    (tmp_path / "before" / "cotune.yaml").write_text(JOB)
    own, old = (load(tmp_path / name / "cotune.yaml", {}).job for name in ("", "before"))
    with open_store(None, tmp_path) as store:
        for place, (workers, batch) in enumerate([(1, 32), (2, 64), (4, 32)]):
            store.save(own, measured(Config.data_parallel(batch, workers, "t4"), f"own-{place}"))
        for place, (workers, batch) in enumerate([(1, 128), (4, 128), (2, 32)]):
            store.save(old, measured(Config.data_parallel(batch, workers, "t4"), f"old-{place}"))
    with chdir(tmp_path):
        yield tmp_path


def command(*words: str) -> dict[str, Any]:
    out = io.StringIO()
    argv = mock.patch.object(sys, "argv", ["cotune", *words, "--json"])
    with argv, redirect_stdout(out), redirect_stderr(io.StringIO()), pytest.raises(SystemExit) as left:
        main()
    assert not left.value.code, out.getvalue()
    document: dict[str, Any] = json.loads(out.getvalue())
    return document


def told(forecast: Forecast) -> dict[str, Any]:
    return dict(json.loads(json.dumps(forecast_document(forecast))))


def test_one_job_has_one_forecast_wherever_it_is_asked_for(folder: Path) -> None:
    with cotune.open("cotune.yaml") as project:
        plan = project.plan()
        assert any("from history" in note for note in plan.notes), "jobs like it were looked at"
        assert project.predict(plan.config) == plan.forecast
        expected = told(plan.forecast)
        found = find(project.planner(), project.evidence().samples)
        assert found.plan is not None
        assert told(found.plan.forecast) == expected
        learnt = learn(project.store, job_summaries(project.store)[-1])
        goal = learnt.planner.goal
        answered = findings(learnt, WhatIf.of(goal))
        assert answered.plan is not None
        assert told(answered.plan.forecast) == expected
        row = command("predict", "--workers", str(plan.config.workers), "--batch-size", str(plan.config.batch_size))
        best, accuracy = plan.forecast.best, plan.forecast.accuracy
        assert best is not None
        assert accuracy is not None
        assert row["rows"][0]["accuracy"]["mid"] == best.mid > accuracy.mid, (
            "the one of all epochs, the other at the stop"
        )
    for verb in ("plan", "report"):
        assert {key: command(verb)["plan"][key] for key in expected} == expected


def test_a_served_job_is_believed_to_take_what_its_plan_says(folder: Path) -> None:
    with cotune.open() as project:
        plan = project.plan()
        planned = PlannedJob.learn(project)
    submission = planned.submission("job", submit=0.0, deadline=None)
    assert submission.wants is not None  # in slots of the service, whatever device they are
    assert (submission.wants.workers, submission.wants.batch_size) == (plan.config.workers, plan.config.batch_size)
    assert planned.wants.device == "t4"
    whole = submission.seconds + (submission.restart or 0.0)  # training, and the start before it
    assert whole == pytest.approx(plan.forecast.seconds.mid, rel=1e-12)


def test_an_export_asks_for_the_time_of_the_plan(folder: Path) -> None:
    with cotune.open() as project:
        plan = project.plan()
    exported = command("export", "torchrun")
    assert exported["config"]["workers"] == plan.config.workers
    assert exported["limit_seconds"] == 1.5 * plan.forecast.seconds.high + 60


def test_a_goal_needs_accuracy_unless_the_recipe_is_fixed(folder: Path) -> None:
    with cotune.open() as project:
        space = project.settings.space
        fixed = load(None, {"run": ["true", "{batch_size}"], "global_batch": 64}).space
    assert space.needs_accuracy(Goal(target=0.8))
    assert space.needs_accuracy(Goal(prefer="accurate"))
    assert not space.needs_accuracy(Goal(deadline=5.0))
    assert not fixed.needs_accuracy(Goal(target=0.8, prefer="accurate"))


def test_what_is_asked_now_is_laid_over_the_job_file(folder: Path) -> None:
    with cotune.open() as project:
        plan = project.plan(target=0.7, deadline="20m", workers=[1, 2], prefer="fast", confidence=0.8)
        assert plan.goal == Goal(0.7, 1200.0, None, None, 20, 0.8, "fast")
        assert plan.config.workers <= 2
        with pytest.raises(cotune.Infeasible) as refused:
            project.plan(deadline=1)
        assert all(isinstance(near, Forecast) for near in refused.value.nearest)
        assert refused.value.facts["goal"].deadline == 1
        assert "--" not in str(refused.value), "flags are the command line's"


@dataclass
class Constant:
    """A predictor that has learnt nothing; it is neither registered nor hashable."""

    seconds: float = 100.0

    def fit_seconds(self, job: Job, samples: object) -> Constant:  # noqa: ARG002
        return self

    def predict(self, configs: Configs) -> np.ndarray:
        return np.full(len(configs), self.seconds)


def test_whatever_takes_a_name_takes_an_object(folder: Path) -> None:
    with cotune.open() as project:
        forecast = project.predict(workers=1, batch_size=64, predictor=Constant(), history=False)
        assert forecast.epoch_seconds.mid == pytest.approx(100.0, rel=0.01)
        again = project.predict(workers=1, batch_size=64, predictor=Constant(50.0), history=False)
        assert again.epoch_seconds.mid == pytest.approx(50.0, rel=0.01)
        by_name = project.predict(workers=1, batch_size=64, predictor="ring", history=False)
        assert math.isfinite(by_name.epoch_seconds.mid)


def test_a_project_without_a_job_file_is_described(tmp_path: Path) -> None:
    with cotune.Project(
        job={"name": "net", "run": ["python", "train.py", "{batch_size}"], "examples": 10_000},
        search={"workers": [1, 2], "batch_size": [32, 64]},
        goal={"epochs": 5},
        store=tmp_path / "store.db",
        folder=tmp_path,
    ) as project:
        with pytest.raises(NotFound, match="measure it first"):
            project.plan()
        for workers in (1, 2):
            project.store.save(project.settings.job, measured(Config.data_parallel(32, workers), f"one-{workers}"))
        assert project.plan().config.workers in (1, 2)
        assert project.plan(epochs=7).goal.max_epochs == 7


def test_a_recording_is_measured_and_planned_like_a_job(tmp_path: Path) -> None:
    with cotune.open(recording=world(tmp_path / "world"), target=0.8, deadline="1h") as project:
        assert 0 < len(project.profile(max_samples=12)) <= 12
        plan = project.plan()
        assert plan.forecast.accuracy is not None
        assert plan.rivals
        with pytest.raises(OverBudget, match="nothing could be learnt"):
            cotune.open(recording=tmp_path / "world", target=0.8).profile(budget=0)


def test_public_names_are_found_when_they_are_asked_for() -> None:
    assert len(cotune.__all__) <= 24
    assert all(getattr(cotune, name).__doc__ for name in cotune.__all__)
    with pytest.raises(AttributeError, match="nothing"):
        _ = cotune.nothing
    code = "import sys, cotune; assert cotune.report; print(sorted({'numpy', 'yaml', 'sqlalchemy'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


TRAIN = """
import sys
import cotune

batch, epochs = int(sys.argv[1]), int(sys.argv[2])
for epoch in range(1, epochs + 1):
    if cotune.report(epoch=epoch, accuracy=1 - 0.5 ** epoch):
        break
"""


def test_the_ten_lines_measure_plan_predict_and_run_a_real_job(tmp_path: Path) -> None:
    (tmp_path / ".cotune").mkdir()
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "cotune.yaml").write_text(
        f"run: {sys.executable} train.py {{batch_size}} {{epochs}}\nexamples: 100\nmax_epochs: 8\n"
        "search: {workers: [1, 2], batch_size: [16, 64]}\n"
    )
    project = cotune.open(tmp_path / "cotune.yaml")
    assert all(sample.epoch_seconds is not None for sample in project.profile(budget="20s", max_samples=6))
    plan = project.plan(target=0.9, deadline="2h")
    assert plan.config.workers in (1, 2)
    assert "P(met)" in repr(plan)
    assert str(plan.config) in plan._repr_html_()
    assert plan.rivals
    assert plan.reason
    assert math.isfinite(project.predict(workers=2, batch_size=64).seconds.mid)
    events = list(project.run(plan, options=RunOptions(from_scratch=True)))
    assert events[-1].sample.accuracy >= 0.9
    met, end = (event.words for event in events[-2:])
    assert met.endswith(": target met")
    assert end == f"ended at {met}"
    ended = project.run(plan).result()
    assert ended.missed is None
    assert ended.outcome == "met"
    project.close()


def test_a_run_of_a_recording_is_told_as_it_happens(tmp_path: Path) -> None:
    with cotune.open(recording=world(tmp_path / "world"), target=0.8, deadline="1h") as project:
        project.profile()
        plan = project.plan()
        events = list(project.run(plan, options=RunOptions(from_scratch=True)))
        epochs = [event.sample.epochs for event in events]
        assert epochs == sorted(epochs)
        assert [event.sample.ended for event in events] == [False] * (len(events) - 1) + [True]
        assert events[-1].words == f"ended at {events[-2].words}"
        assert events[-2].words.endswith(": target met")
        assert project.run(plan).result().outcome == "met"
        with pytest.raises(NotFound, match="lies outside"):
            project.run(layout=RunLayout(workers=99, batch_size=16)).result()


@pytest.mark.parametrize("layout", [{"workers": 0}, {"workers": -1}, {"workers": 1.5}, {"batch_size": 0}, {}])
def test_a_config_that_cannot_be_is_refused_before_anything_is_fitted(layout: dict[str, Any], folder: Path) -> None:
    asked = {"workers": 1, "batch_size": 32} | layout if layout else {"workers": 1}
    with (
        cotune.open(folder / "cotune.yaml") as project,
        pytest.raises(UsageError, match=r"whole number of at least|both workers and batch_size"),
    ):
        project.predict(**asked)


def test_a_run_of_another_layout_keeps_the_goal_of_the_plan(folder: Path) -> None:
    with cotune.open(folder / "cotune.yaml") as project:
        plan = project.plan(target=0.6, deadline="1h")
        run = project.run(plan, layout=RunLayout(workers=plan.config.workers + 1))
        assert (run.goal.target, run.goal.deadline) == (0.6, 3600.0)


def test_a_run_after_a_refused_plan_follows_no_older_one(folder: Path) -> None:
    with cotune.open(folder / "cotune.yaml") as project:
        older = project.plan(target=0.6)
        with pytest.raises(Infeasible):
            project.plan(target=0.999)
        assert project.last_refused == replace(older.goal, target=0.999)
        assert project.run(older).plan == older
        assert project.run(target=0.7).goal.target == 0.7
        assert project.run(layout=RunLayout(workers=1, batch_size=32)).config == Config.data_parallel(32, 1, "t4")
        again = project.plan(target=0.6)
        assert project.last_refused is None
        assert project.run().plan == again
    shown = command("report")
    assert shown["plan"]


def test_a_plan_that_is_sure_enough_only_when_continued_is_not_trained_from_scratch(folder: Path) -> None:
    with cotune.open(folder / "cotune.yaml") as project:
        unsure = replace(project.plan(), continues="own-0")
        unsure = replace(unsure, forecast=replace(unsure.forecast, probability=0.67))
        assert project.run(unsure).plan == unsure
        with pytest.raises(Infeasible, match=r"from scratch it meets its goal with probability 0\.67, 0\.9 was asked"):
            project.run(unsure, options=RunOptions(from_scratch=True))


@pytest.mark.parametrize("words", ["--seed {seed}", "--rng={seed}", "seed={seed}"])
def test_samples_are_kept_where_a_command_begins_to_hand_on_the_seed(folder: Path, words: str) -> None:
    with cotune.open("cotune.yaml") as project:
        before = project.evidence().samples
    (folder / "cotune.yaml").write_text(JOB.replace("{batch_size}\n", f"{{batch_size}} {words}\n"))
    with cotune.open("cotune.yaml") as project:
        assert "{seed}" in " ".join(project.settings.job.command)
        assert project.evidence().samples == before
        assert project.settings.job.fingerprint != replace(project.settings.job, command=("x",)).fingerprint


def test_a_target_by_another_name_says_which_metric_was_measured(folder: Path) -> None:
    with cotune.open("cotune.yaml") as project, pytest.raises(NotFound, match="tell accuracy, and not acc"):
        project.plan(target="acc>=0.9")


def test_a_forecast_on_more_devices_than_there_are_is_refused(folder: Path) -> None:
    with cotune.open("cotune.yaml") as project, pytest.raises(UsageError, match="needs 8 of t4, and there are 4"):
        project.predict(workers=8, batch_size=32)


def test_what_copies_that_never_met_have_learnt_is_no_part_of_any_forecast(folder: Path) -> None:
    """Each trained alone, so a run of four that was cut short made a batch-128 recipe look hopeless."""
    config = Config.data_parallel(32, 4, "t4")
    run = replace(measured(config, "copies", 2), purpose="run", length=2, copies=True, goal=Goal(target=0.3))
    with cotune.open("cotune.yaml") as project:
        before = project.predict(workers=1, batch_size=64)
        project.store.save(project.settings.job, run)
        assert project.store.samples(project.settings.job)[-1] == run
        after = project.predict(workers=1, batch_size=64)
        alone = project.plan(workers="1,4", deadline="3h")
        found = find(project.planner(), project.evidence().samples, [])
    assert (after.seconds, after.accuracy) == (before.seconds, before.accuracy)
    assert alone.config.workers == 1
    assert any("several workers are left out" in note for note in alone.notes)
    assert [(ended.outcome, ended.last.accuracy) for ended in found.runs] == [("met", run.accuracy)]


@pytest.mark.parametrize(
    ("measured_as", "evaluated", "asked", "said"),
    [
        (("loss", "lower"), True, "accuracy>=0.8", "(its samples tell loss, and not accuracy: ask for that instead)"),
        (("rmse", "lower"), True, "rmse>=0.2", "(its samples tell rmse as better when lower, and not when higher: ask"),
        (("accuracy", "higher"), False, "ppl<=8", "(1 sample is of an earlier form of this job: "),
    ],
)
def test_a_job_that_was_measured_by_another_metric_says_by_which_one_an_evaluation_told(
    tmp_path: Path, measured_as: tuple[str, Literal["higher", "lower"]], evaluated: bool, asked: str, said: str
) -> None:
    (tmp_path / "cotune.yaml").write_text(JOB)
    with cotune.open(tmp_path / "cotune.yaml", store=tmp_path / "store.db", target=asked) as project:
        before = replace(project.settings.job, metric=measured_as[0], better=measured_as[1])
        config = Config.data_parallel(32, 1, "t4")
        failed = Sample(config, failure=Failure("it ended with code 2"), id="one")
        project.store.save(before, measured(config, "one") if evaluated else failed)
        with pytest.raises(NotFound) as refused:
            project.plan()
    assert said in str(refused.value)
