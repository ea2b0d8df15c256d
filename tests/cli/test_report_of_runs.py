"""`cotune report` of a job that was only ever run: it follows the goal of the last run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from cli.jobs import cotune, script
from cotune.cli import options
from cotune.jobfile import settings as job_settings
from cotune.store import open_store
from cotune.types import Config, Sample

FILE = (
    "name: digits\nrun: python train.py {batch_size} {epochs}\nexamples: 1440\nmax_epochs: 20\n"
    "target: {metric: accuracy, at_least: 0.95}\nsearch: {workers: [1], batch_size: [24, 48]}\n"
)


def test_a_report_without_a_plan_follows_the_goal_of_the_last_run(tmp_path: Path) -> None:
    file = script(tmp_path)
    told = file.read_text().replace("report(epoch=epoch, accuracy=accuracy)", "report(epoch, val_acc=100 * accuracy)")
    file.write_text(told)
    (tmp_path / "cotune.yaml").write_text(FILE)
    ran = cotune(tmp_path, "run", "--target", "val_acc=84", "--deadline", "5m")
    assert ran.code == 0, ran.err
    report = cotune(tmp_path, "report", "--json")
    assert report.code == 0, report.err
    assert (report.json["goal"]["metric"], report.json["goal"]["target"]) == ("val_acc", 84)
    assert "val_acc at least 84" in report.err
    assert "the job file says accuracy at least 0.95" in report.err


def test_of_two_runs_begun_in_the_same_second_the_later_is_followed(tmp_path: Path) -> None:
    (tmp_path / "cotune.yaml").write_text(FILE)
    settings = job_settings.load(tmp_path / "cotune.yaml", {})
    run = Sample(Config.data_parallel(24, 1), 1.0, 1.0, 0.9, purpose="run", started="2026-01-01T00:00:00+00:00")
    with open_store(start=tmp_path) as store:
        for name, target in (("first", 0.8), ("second", 0.9)):
            store.save(settings.job, replace(run, id=name, goal=replace(settings.goal, target=target)))
        assert options.as_last_run(settings, store).goal.target == 0.9
