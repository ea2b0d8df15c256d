"""A run under way moves to another layout when it is asked to, or when that gains more than it costs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotune.jobfile.settings import Settings, load
from cotune.project.layout_change import LayoutChange
from cotune.project.project import Project
from cotune.run.launch import Launch
from cotune.run.supervise import HYSTERESIS, RESIZE, pays, resized
from cotune.store import Store, open_store
from cotune.types import Config, Evaluation, Forecast, Plan, Quantity, Sample, Terms

EPOCHS = 20
SECONDS = {1: 10.0, 2: 6.0, 4: 4.0}  # per epoch at a global batch of 32, by workers


def config(workers: int) -> Config:
    return Config.data_parallel(32 // workers, workers)


def sample(workers: int, epoch_seconds: float, name: str, *, epochs: float = 3.0, **rest: object) -> Sample:
    curve = tuple(Evaluation(epoch, 0.5, epoch * epoch_seconds) for epoch in range(1, int(epochs) + 1))
    return Sample(
        config(workers),
        epochs=epochs,
        epoch_seconds=epoch_seconds,
        accuracy=0.5,
        terms=Terms(engine=0.5, startup=1.5),
        curve=curve,
        seconds=epochs * epoch_seconds,
        id=name,
        **rest,  # type: ignore[arg-type]
    )


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    file = tmp_path / "cotune.yaml"
    file.write_text(
        "name: job\nrun: python train.py {batch_size}\nexamples: 1000\nglobal_batch: 32\nepochs: 20\n"
        "search: {workers: [1, 2, 4]}\n"
    )
    return load(file, {})


@pytest.fixture
def kept(tmp_path: Path, settings: Settings) -> Iterator[Store]:
    with open_store(str(tmp_path / "store.db")) as store:
        for workers, seconds in SECONDS.items():
            store.save(settings.job, sample(workers, seconds, f"probe-{workers}"))
        yield store


def moving(settings: Settings, kept: Store, folder: Path, workers: int = 1) -> LayoutChange:
    mid = SECONDS[workers]
    pace = Quantity(0.9 * mid, mid, 1.1 * mid, "measured")
    forecast = Forecast(config(workers), EPOCHS, pace, pace, pace, None, 1.0)
    launch = Launch("run", settings.job, config(workers), EPOCHS, folder)
    return LayoutChange(
        settings, Project(settings=settings, store=kept).evidence, launch, Plan(forecast, settings.goal, "the cheapest")
    )


def test_a_run_as_fast_as_forecast_stays(settings: Settings, kept: Store, tmp_path: Path) -> None:
    assert moving(settings, kept, tmp_path)(sample(1, 10.5, "run", purpose="run", ended=False)) is None


def test_a_run_much_slower_than_forecast_moves_to_the_cheaper_layout(
    settings: Settings, kept: Store, tmp_path: Path
) -> None:
    slow = sample(1, 30.0, "run", purpose="run", ended=False)
    kept.save(settings.job, slow)
    move = moving(settings, kept, tmp_path)(slow)
    assert move is not None
    assert move.config.workers in (2, 4)
    assert move.config.global_batch == 32
    assert "30 s per epoch, 9..11 was forecast" in move.reason


def test_a_faster_device_that_costs_more_than_it_saves_is_not_moved_to(tmp_path: Path) -> None:
    file = tmp_path / "cotune.yaml"
    file.write_text(
        "name: job\nrun: python train.py {batch_size}\nexamples: 1000\nglobal_batch: 32\nepochs: 20\n"
        "search: {workers: [1]}\ndevices: {old: {price_per_hour: 1}, new: {price_per_hour: 100}}\n"
    )
    priced = load(file, {})
    on_old = replace(sample(1, 30.0, "run", purpose="run", ended=False), config=Config.data_parallel(32, 1, "old"))
    pace = Quantity(9, 10, 11, "measured")
    plan = Plan(Forecast(on_old.config, EPOCHS, pace, pace, pace, None, 1.0), priced.goal, "the cheapest")
    launch = Launch("run", priced.job, on_old.config, EPOCHS, tmp_path)
    with open_store(str(tmp_path / "store.db")) as kept:
        kept.save(priced.job, on_old)
        kept.save(priced.job, replace(sample(1, 4.0, "probe"), config=Config.data_parallel(32, 1, "new")))
        assert LayoutChange(priced, Project(settings=priced, store=kept).evidence, launch, plan)(on_old) is None
        quick = replace(plan, goal=replace(priced.goal, prefer="fast"))
        move = LayoutChange(priced, Project(settings=priced, store=kept).evidence, launch, quick)(on_old)
    assert move is not None
    assert move.config.device == "new"


def test_layouts_are_not_weighed_where_none_could_pay(settings: Settings, kept: Store, tmp_path: Path) -> None:
    looked = moving(settings, kept, tmp_path)
    slow = replace(sample(1, 30.0, "run", purpose="run", ended=False), terms=Terms(startup=1e4))
    kept.close()
    assert looked(slow) is None


def test_a_run_that_is_nearly_done_stays_whatever_its_speed(settings: Settings, kept: Store, tmp_path: Path) -> None:
    slow = sample(1, 30.0, "run", epochs=19.9, purpose="run", ended=False)
    kept.save(settings.job, replace(slow, terms=Terms(engine=5.0, startup=60.0)))
    looked = moving(settings, kept, tmp_path)(replace(slow, terms=Terms(engine=5.0, startup=60.0)))
    assert looked is None


def test_workers_that_are_asked_for_come_first_and_once(settings: Settings, kept: Store, tmp_path: Path) -> None:
    (tmp_path / RESIZE).write_text("4")
    look = moving(settings, kept, tmp_path)
    usual = sample(1, 10.0, "run", purpose="run", ended=False)
    move = look(usual)
    assert move is not None
    assert move.config == config(4)
    assert look(usual) is None


@given(st.floats(0.1, 100), st.floats(0.01, 100), st.floats(0.01, 100), st.floats(0, 100))
def test_a_move_pays_only_beyond_the_hysteresis(left: float, now: float, there: float, restart: float) -> None:
    gain = left * now - (left * there + restart)
    if pays(left, now, there, restart):
        assert gain > HYSTERESIS * left * there * 0.999
    else:
        assert gain <= HYSTERESIS * (left * there + restart) * 1.001


def test_a_resize_keeps_the_global_batch_or_is_refused() -> None:
    assert resized(Config.data_parallel(16, 2, accumulate=2), 4) == Config.data_parallel(8, 4, accumulate=2)
    assert resized(Config.data_parallel(16, 2), 3) is None
