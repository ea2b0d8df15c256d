"""SkyPilot's optimiser is told how long a job takes, by what was measured of it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import pytest

from cotune.errors import NotFound
from cotune.interop.skypilot import time_estimator
from cotune.jobfile import settings as job_settings
from cotune.store import open_store
from cotune.types import Config, Sample
from interop import environments

JOB = """\
name: two-kinds
run: python train.py {batch_size}
examples: 10000
epochs: 10
search: {workers: [1, 2, 4], batch_size: [100]}
devices: {t4: {}, a100: {}}
"""
SPEED = {"t4": 50.0, "a100": 400.0}  # examples in a second and worker


@dataclass
class Asked:
    """As much of SkyPilot's resources as is asked for."""

    accelerators: dict[str, float] | None
    cpus: str | None = None


@pytest.fixture
def job_file(tmp_path: Path) -> Path:
    (tmp_path / ".cotune").mkdir()
    file = tmp_path / "cotune.yaml"
    file.write_text(JOB)
    job = job_settings.load(file, {}).job
    with open_store(None, tmp_path) as kept:
        for device, speed in SPEED.items():
            for workers in (1, 2, 4):
                seconds = 10_000 / speed / workers
                made = Config.data_parallel(100, workers, device)
                sample = Sample(made, 1.0, seconds, seconds=seconds, id=f"{device}{workers}")
                kept.save(job, sample)
    return file


def test_the_seconds_of_the_best_plan_on_those_machines_are_told(job_file: Path) -> None:
    seconds = time_estimator(job_file)
    for device, speed in SPEED.items():
        for workers in (1, 2, 4):
            whole = 10 * 10_000 / speed / workers
            assert seconds(Asked({device.upper(): workers})) == pytest.approx(whole, rel=0.1)
    assert time_estimator(job_file, num_nodes=2)(Asked({"T4": 2})) == pytest.approx(seconds(Asked({"T4": 4})))


def test_where_the_goal_cannot_be_met_it_takes_for_ever(job_file: Path) -> None:
    job_file.write_text(JOB + "deadline: 10m\n")
    seconds = time_estimator(job_file)
    assert seconds(Asked({"T4": 1})) == math.inf
    assert seconds(Asked({"T4": 4})) < 600


def test_a_device_that_nobody_measured_is_named(job_file: Path) -> None:
    with pytest.raises(NotFound, match="no device 'A10'; there are t4, a100; did you mean 'a100'"):
        time_estimator(job_file)(Asked({"A10": 1}))
    with pytest.raises(NotFound, match="no device 'cpu'"):
        time_estimator(job_file)(Asked(None, "4+"))


@environments.needs("sky")
def test_a_task_of_skypilot_estimates_with_it(job_file: Path) -> None:
    code = """
import sky
from cotune.interop.skypilot import time_estimator
task = sky.Task(run="true")
task.set_time_estimator(time_estimator("cotune.yaml"))
seconds = [task.estimate_runtime(sky.Resources(accelerators={kind: 4})) for kind in ("T4", "A100")]
print(*(round(value, -1) for value in seconds))
"""
    said = environments.run("sky", code, folder=job_file.parent)
    assert said.splitlines()[-1] == "500.0 60.0"
