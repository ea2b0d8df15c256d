"""Jobs whose layout is chosen: every layout that is right, their law, the plan with its reason, what is next."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import cotune
from cotune.checkpoints import lineage
from cotune.errors import InvalidFile, UsageError
from cotune.jobfile import settings as job_settings
from cotune.jobfile.settings import Settings
from cotune.modelling.layout_jobs import layouts_of
from cotune.modelling.layouts.layout import LayoutLimits, enumerate_layouts
from cotune.modelling.layouts.seconds import COEFFICIENTS, count_terms, log_seconds
from cotune.modelling.layouts.setting import DTENSOR, Machine, Setting, Transformer
from cotune.modelling.memory.sources import read_architecture
from cotune.probe.design import Design
from cotune.project.run import RunLayout, RunOptions
from cotune.run.supervise import resized
from cotune.run.training import config_of_run
from cotune.space import Configs
from cotune.types import Cause, Config, Failure, Floats, Goal, Sample, axes_of

COMMAND = (
    "python train.py --tp {tp} --pp {pp} --shard {shard} --micro-batch {micro_batch}"
    " --accumulate {accumulate} --recompute {recompute} --steps {steps}"
)
JOB = f"""
run: {COMMAND}
model: llama-3-8b
layout: auto
sequence: 4096
global_batch: 64
length: 2e9 tokens
deadline: 30d
devices: {{h100: {{count: 16, per_node: 8, price_per_hour: 3}}, a100: {{count: 8, per_node: 8, price_per_hour: 2}}}}
"""
RNG = np.random.default_rng(0)
TRUTH = np.log([one.prior for one in COEFFICIENTS]) + RNG.normal(0, 0.2, len(COEFFICIENTS))


def settings(text: str = JOB, **overrides: object) -> Settings:
    return job_settings.loads(text, overrides, "the test", Path.cwd())


def setting(device: str) -> Setting:
    shape = Transformer.of_architecture(read_architecture("llama-3-8b"), 4096)
    return Setting(shape, Machine.of_device(device, 8), DTENSOR)


def step_seconds(configs: Configs) -> Floats:
    """What a step of each config takes in the world of these tests."""
    seconds = np.zeros(len(configs))
    for device in set(configs.device.tolist()):
        rows = configs.device == device
        seconds[rows] = np.exp(log_seconds(TRUTH, count_terms(layouts_of(configs.take(rows)), setting(device))))
    return seconds


def measured(asked: Settings, count: int) -> list[Sample]:
    """So many layouts of a job, each chosen by what the ones before it showed."""
    design, samples = Design(asked.job, asked.goal, asked.space, asked.cluster), []
    for number in range(count):
        probe = design.next(samples, 16)
        assert probe is not None
        seconds = float(step_seconds(Configs.of([probe.config]))[0]) * (asked.job.examples or 1)
        each = seconds / probe.config.global_batch
        samples.append(
            Sample(probe.config, probe.epochs, each, seconds=1.0, id=f"{number}", started=f"2026-01-0{number + 1}")
        )
    return samples


@pytest.fixture(scope="module")
def planned() -> tuple[Settings, list[Sample], cotune.Plan]:
    asked = settings()
    project = cotune.Project(settings=asked, store=":memory:")
    samples = measured(asked, 8)
    for sample in samples:
        project.store.save(asked.job, sample)
    return asked, samples, project.plan()


def test_the_space_holds_every_layout_that_is_right() -> None:
    space = settings().space
    limits = LayoutLimits(shards=(0, 2, 3))
    wanted = sum(len(enumerate_layouts(setting("h100"), gpus, 64, limits)) for gpus in (1, 2, 4, 8, 16))
    wanted += sum(len(enumerate_layouts(setting("a100"), gpus, 64, limits)) for gpus in (1, 2, 4, 8))
    configs = space.configs()
    assert len(configs) == wanted
    assert configs.valid.all()
    assert set(configs.global_batch.tolist()) == {64}
    assert all(space.row(configs[row]) == row for row in (0, 7, len(configs) - 1))


def test_a_config_has_replicas_where_its_workers_share_a_model() -> None:
    config = Config.data_parallel(2, 8, accumulate=4, axes=axes_of({"tp": 2, "pp": 2}))
    assert (config.replicas, config.global_batch) == (2, 16)
    assert Configs.of([config]).global_batch.tolist() == [16]
    other = resized(config, 4)
    assert other is not None
    assert (other.replicas, other.batch_size, other.global_batch) == (1, 4, 16)
    assert resized(config, 6) is None


def test_what_the_command_does_not_take_is_not_chosen() -> None:
    space = settings(JOB.replace("--tp {tp} --pp {pp}", "")).space
    assert {axis.name: axis.values for axis in space.axes}["tp"] == (1,)
    assert settings(JOB, search={"tp": [2], "shard": [3]}).space.configs().columns["tp"].tolist().count(2) > 0


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("model: llama-3-8b\n", "", "layout: auto needs model too"),
        ("global_batch: 64\n", "", "needs global_batch"),
        ("length: 2e9 tokens", "length: 2e9 tokens\nsearch: {precision: [bf16]}", "search.precision"),
        ("count: 16", "count: 16, nodes: 2", "unknown key"),
    ],
)
def test_a_job_file_that_leaves_layouts_open_is_refused(old: str, new: str, words: str) -> None:
    with pytest.raises(InvalidFile, match=words):
        settings(JOB.replace(old, new))


def test_probes_are_of_every_device_and_of_thirty_steps(planned: tuple[Settings, list[Sample], cotune.Plan]) -> None:
    asked, samples, _ = planned
    assert {sample.config.device for sample in samples} == {"h100", "a100"}
    assert len({sample.config for sample in samples}) == len(samples)
    assert all(sample.epochs * (asked.job.examples or 0) <= 30 * 64 for sample in samples)


def test_the_plan_is_near_the_best_and_says_why(planned: tuple[Settings, list[Sample], cotune.Plan]) -> None:
    asked, samples, plan = planned
    configs = asked.space.configs()
    price = np.where(configs.device == "h100", 3.0, 2.0) * configs.workers * step_seconds(configs)
    row = int(np.flatnonzero(configs.same(plan.config))[0])
    ran = cotune.Project(settings=asked, store=":memory:")
    for sample in samples:
        ran.store.save(asked.job, sample)
    should_run = np.isfinite(ran.planner().outlook.epoch_seconds)
    assert price[row] <= 1.05 * price[should_run].min()
    assert "% computing" in plan.reason
    assert "GiB" in plan.reason
    assert any(rival.seconds.source == "measured" for rival in plan.rivals)
    assert sum("worth measuring next" in note for note in plan.notes) == 3
    assert any("too little memory, as counted" in note for note in plan.notes)


def test_another_layout_goes_on_with_the_same_weights() -> None:
    one = Config.data_parallel(2, 4, accumulate=4, axes=axes_of({"tp": 2, "pp": 2, "shard": 0, "recompute": 0}))
    other = Config.data_parallel(2, 4, axes=axes_of({"tp": 1, "pp": 1, "shard": 3, "recompute": 1}))
    assert lineage(one) == lineage(other)
    assert lineage(one) != lineage(Config.data_parallel(4, 4))


def test_a_run_that_was_broken_off_is_resumed_in_another_layout(tmp_path: Path) -> None:
    project = cotune.Project(settings=settings(), store=":memory:", folder=tmp_path)
    axes = {"tp": 2, "pp": 2, "shard": 0, "recompute": 0}
    before = Config.data_parallel(2, 8, "h100", accumulate=16, axes=axes_of({**axes}))
    folder = project.runs_folder / "one"
    (folder / "checkpoint").mkdir(parents=True)
    (folder / "checkpoint" / "step-3").touch()
    killed = Failure("killed", Cause.OUTSIDE)
    left = Sample(before, 1.0, 1.0, purpose="run", failure=killed, id="one", folder=str(folder), goal=Goal(epochs=4))
    project.store.save(project.settings.job, left)
    resume = RunOptions(resume=True)
    assert project.run(options=resume).config == before
    given = RunLayout(workers=4, batch_size=4, axes={"tp": 1, "pp": 1, "shard": 3})
    run = project.run(layout=given, options=resume)
    assert run.config.global_batch == before.global_batch
    assert (run.config.replicas, dict(run.config.axes)["shard"]) == (4, 3)
    assert run.left_at is not None
    assert run.left_at.folder == folder


def test_a_run_may_be_given_a_layout_of_its_own() -> None:
    space = settings().space
    axes = {"tp": 2, "pp": 2, "shard": 0, "recompute": 0}
    config = config_of_run(None, space, "h100", workers=8, batch_size=4, axes=dict(axes))
    assert (config.replicas, config.accumulate, config.global_batch) == (2, 8, 64)
    with pytest.raises(UsageError, match="no whole replicas"):
        config_of_run(None, space, "h100", workers=2, batch_size=None, axes=dict(axes))
