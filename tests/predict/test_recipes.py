from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from cotune.predict.learn import forecaster
from cotune.predict.recipes import Recipes
from cotune.space import Configs
from cotune.types import Cluster, Config, Evaluation, Sample, axes_of
from predict.worlds import JOB, accuracy

NORMED = replace(JOB, workers_matter=True)
Law = Callable[[int, int, float], float]


def trained(law: Law, *layouts: tuple[int, int], epochs: int = 20, **more: object) -> list[Sample]:
    """Samples of layouts (batch, workers) whose accuracy a law of both and of the epoch says."""
    return [
        Sample(
            Config.data_parallel(batch, workers, **more),  # type: ignore[arg-type]
            epochs,
            10.0 / workers,
            curve=tuple(Evaluation(float(e), law(batch, workers, float(e)), float(e)) for e in range(1, epochs + 1)),
        )
        for batch, workers in layouts
    ]


def by_power(power: float) -> Law:
    return lambda batch, workers, epoch: accuracy(batch * workers ** (1 + power), epoch)


LAYOUTS = ((16, 1), (64, 1), (256, 1), (16, 4), (64, 4), (256, 4), (16, 16))


@pytest.mark.parametrize("power", [0.0, -1.0, -0.5, 0.5])
def test_curves_tell_how_workers_count_beside_the_global_batch(power: float) -> None:
    samples = trained(by_power(power), *LAYOUTS)
    assert Recipes.among(NORMED, samples).power == power
    assert Recipes.among(JOB, samples).power is None


@pytest.mark.parametrize("power", [-1.0, 0.5])
def test_recipes_of_other_workers_are_forecast_by_what_counts(power: float) -> None:
    asked = Config.data_parallel(64, 16)
    found = forecaster(NORMED, trained(by_power(power), *LAYOUTS), Cluster())(Configs.of([asked]), 20)
    assert found.learning is not None
    assert found.learning.best[0, -1] == pytest.approx(by_power(power)(64, 16, 20.0), abs=0.01)
    assert f"workers^{power:g}" in found.notes[-1]


def test_one_batch_on_other_workers_is_in_more_doubt_and_not_called_measured() -> None:
    one, other = Config.data_parallel(64, 1), Config.data_parallel(16, 4)
    samples = trained(by_power(0.0), (64, 1), (256, 1))
    alike = forecaster(JOB, samples, Cluster())(Configs.of([one, other]), 20)
    apart = forecaster(NORMED, samples, Cluster())(Configs.of([one, other]), 20)
    assert alike.learning is not None
    assert len(set(alike.learning.recipe)) == 1
    assert apart.learning is not None
    same, strange = apart.learning.recipe
    assert apart.learning.spread[strange, -1] > apart.learning.spread[same, -1]
    assert (apart.learning.source[same], apart.learning.source[strange]) == ("measured", "interpolated")


def test_servers_that_do_not_wait_make_workers_matter() -> None:
    stale = trained(by_power(-1.0), *LAYOUTS, servers=1, axes=axes_of({"asynchronous": True}))
    assert Recipes.among(JOB, stale).power == -1.0
    waiting = trained(by_power(-1.0), *LAYOUTS, servers=1, axes=axes_of({"asynchronous": False}))
    assert Recipes.among(JOB, waiting).power is None
