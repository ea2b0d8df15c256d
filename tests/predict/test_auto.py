from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cotune.predict import forecaster
from cotune.predict.predictors.auto import Auto, _best
from cotune.space import Axis, Configs, Space
from cotune.types import Cause, Cluster, Config, Failure, Sample
from predict.worlds import JOB, grid, plain_step, timed, trained

SPACE = Space((Axis("workers", (1, 2, 3, 4, 8)), Axis("batch_size", (16, 24, 64, 256)))).configs()


def test_the_law_that_made_the_samples_is_chosen() -> None:
    chosen = Auto().fit_seconds(JOB, timed(plain_step, grid()))
    assert chosen.name == "ring"
    assert chosen.reason.startswith("ring: on configs it was not shown it is off by 0.0%")
    assert len(chosen.errors) == len(grid())


def test_it_is_said_why_the_least_error_did_not_win() -> None:
    chosen, words, why = _best({"gaussian": 0.05, "ring": 0.04}, "{:.1%}", ahead="gaussian")
    assert (chosen, words) == ("gaussian", "5.0%, ring by 4.0%")
    assert why == "; on so few, only one off by less than 3.5% replaces the usual gaussian"
    assert _best({"gaussian": 0.05, "ring": 0.03}, "{:.1%}", ahead="gaussian") == ("ring", "3.0%, gaussian by 5.0%", "")


def test_workers_that_share_cores_are_recognised() -> None:
    samples = timed(lambda batch, workers: 0.05 + 0.0005 * batch * workers, grid())
    assert Auto().fit_seconds(JOB, samples).name == "shared_ring"


def test_few_configs_are_said_to_be_few() -> None:
    chosen = Auto().fit_seconds(JOB, timed(plain_step, grid()[:3]))
    assert chosen.reason == "gaussian: 3 configs are too few to compare predictors"
    assert not chosen.assumed


def test_only_those_asked_for_are_compared() -> None:
    assert Auto(among=("log_isotonic",)).fit_seconds(JOB, timed(plain_step, grid())).name.startswith("log_isotonic")


def _of_batch(value: float, batch: int, count: int) -> list[Sample]:
    return [replace(sample, accuracy=value) for sample in trained([batch], epochs=count, value=lambda *_: value)]


@pytest.mark.parametrize(
    "samples",
    [
        timed(plain_step, grid(workers=(1,))),
        timed(plain_step, grid(batches=(64,))),
        timed(plain_step, [(64, 1)]) * 3,
        _of_batch(0.1, 64, 5),
        _of_batch(0.0, 64, 1),
        trained([64], epochs=1),
        [*trained([16, 64]), Sample(Config.data_parallel(512, 1), failure=Failure("out of memory", Cause.MEMORY))],
        trained([16, 64, 256], value=lambda _, epoch: 0.9 - 0.04 * epoch),
    ],
    ids=["one-worker", "one-batch", "repeats", "flat", "nothing-learnt", "one-point", "failed", "falling"],
)
def test_nothing_degenerates(samples: list[Sample]) -> None:
    outlook = forecaster(JOB, samples, Cluster())(SPACE, 10)
    possible = np.isfinite(outlook.epoch_seconds)
    assert possible.any()
    assert np.all(outlook.epoch_seconds[possible] > 0)
    assert np.all(np.isfinite(outlook.spread) & (outlook.spread > 0))
    if outlook.learning is not None:
        assert np.all(np.isfinite(outlook.learning.best))
        assert np.all(np.isfinite(outlook.learning.spread) & (outlook.learning.spread > 0))


def test_a_curve_that_only_falls_is_never_expected_to_rise() -> None:
    falling = trained([16, 64, 256], value=lambda _, epoch: 0.9 - 0.04 * epoch, epochs=10)
    outlook = forecaster(JOB, falling, Cluster())(Configs.of([Config.data_parallel(64, 1)]), 30)
    assert outlook.learning is not None
    assert outlook.learning.evaluation[0, 10:].max() <= 0.9 - 0.04 * 8
    assert outlook.learning.best[0] == pytest.approx(0.9 - 0.04, abs=0.005)  # its best was the first
