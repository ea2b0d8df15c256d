from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from cotune.predict.learn import forecaster
from cotune.predict.learning.outlook import learning_outlook
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
    assert learning_outlook(NORMED, samples).recipes.power == power
    assert learning_outlook(JOB, samples).recipes.power == 0.0


@pytest.mark.parametrize("power", [-1.0, 0.5])
def test_recipes_of_other_workers_are_forecast_by_what_counts(power: float) -> None:
    asked = Config.data_parallel(64, 16)
    found = forecaster(NORMED, trained(by_power(power), *LAYOUTS), Cluster())(Configs.of([asked]), 20)
    assert found.learning is not None
    assert np.median(found.learning.shown[0, :, -1]) == pytest.approx(by_power(power)(64, 16, 20.0), abs=0.01)
    assert f"workers^{power:g}" in found.notes[-1]


def test_configs_of_one_batch_share_a_curve_unless_workers_are_seen_to_matter() -> None:
    one, other = Config.data_parallel(64, 1), Config.data_parallel(16, 4)
    for job, power in ((JOB, 0.0), (NORMED, 0.0), (NORMED, -1.0)):
        found = forecaster(job, trained(by_power(power), *LAYOUTS), Cluster())(Configs.of([one, other]), 20).learning
        assert found is not None
        same = bool((found.shown[found.recipe[0]] == found.shown[found.recipe[1]]).all())
        assert same is (power == 0.0)


def test_servers_that_do_not_wait_make_workers_matter() -> None:
    stale = trained(by_power(-1.0), *LAYOUTS, servers=1, axes=axes_of({"asynchronous": True}))
    assert learning_outlook(JOB, stale).recipes.power == -1.0
    waiting = trained(by_power(-1.0), *LAYOUTS, servers=1, axes=axes_of({"asynchronous": False}))
    assert learning_outlook(JOB, waiting).recipes.power == 0.0
