from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cotune.predict.predictors.curve import Curve
from cotune.space import Configs
from cotune.types import Config, Evaluation, Sample
from predict.worlds import JOB, accuracy, trained

EPOCHS = np.arange(1.0, 31)


def _at(samples: list[Sample], batch: int, job: object = JOB) -> np.ndarray:
    return Curve().fit_accuracy(job, samples).predict(Configs.of([Config.data_parallel(batch, 1)]), EPOCHS)[0]  # type: ignore[arg-type]


def test_batches_never_trained_follow_from_their_neighbours() -> None:
    samples = trained([16, 64, 256, 1024])
    for batch in (32, 128, 512):
        truth = [accuracy(batch, epoch) for epoch in EPOCHS]
        np.testing.assert_allclose(_at(samples, batch), truth, atol=0.01)


def test_a_short_curve_goes_on_like_the_long_ones() -> None:
    samples = trained([16, 64, 1024], epochs=30) + trained([256], epochs=6)
    assert _at(samples, 256)[-1] == pytest.approx(accuracy(256, 30), abs=0.015)


def test_a_lucky_first_epoch_does_not_stay_ahead_by_as_much() -> None:
    lucky = trained([512], epochs=1, value=lambda batch, epoch: accuracy(batch, epoch) + 0.08)
    ahead = _at(trained([16, 64, 1024]) + lucky, 512) - _at(trained([16, 64, 1024]), 512)
    assert ahead[0] > 0.05
    assert np.all(np.diff(ahead) < 1e-9)
    assert ahead[-1] < ahead[0] / 3


def test_a_level_of_its_own_stays_after_a_long_curve() -> None:
    better = trained([256], epochs=20, value=lambda batch, epoch: accuracy(batch, epoch) + 0.02)
    whole = trained([256], epochs=30, value=lambda batch, epoch: accuracy(batch, epoch) + 0.02)
    others = trained([16, 64, 1024])
    assert _at(others + better, 256)[-1] == pytest.approx(_at(others + whole, 256)[-1], abs=0.004)


def test_one_curve_alone_is_continued() -> None:
    curve = _at(trained([64], epochs=15), 64)
    assert np.all(np.diff(curve) >= -1e-9)
    assert curve[-1] == pytest.approx(accuracy(64, 30), abs=0.02)


def test_one_point_for_each_batch_is_enough_to_say_something() -> None:
    samples = [replace(sample, curve=sample.curve[-1:]) for sample in trained([16, 64, 256], epochs=5)]
    assert np.all(np.isfinite(_at(samples, 64)))
    assert _at(samples, 64)[4] == pytest.approx(accuracy(64, 5), abs=0.01)


def test_a_single_evaluation_is_expected_to_stay_where_it_is() -> None:
    model = Curve().fit_accuracy(JOB, trained([64], epochs=1))
    found = model.predict(Configs.of([Config.data_parallel(64, 1)]), np.array([1.0, 9.0]))
    np.testing.assert_allclose(found[0], accuracy(64, 1))


def test_a_share_never_exceeds_one() -> None:
    rising = trained([64], epochs=6, value=lambda _, epoch: 0.1 + 0.15 * epoch)
    assert _at(rising, 64).max() <= 1.0


@pytest.mark.parametrize("scale", [1.0, 100.0, 1e-3])
def test_any_scale_of_the_metric_gives_the_same_curve(scale: float) -> None:
    samples = trained([16, 64, 256], value=lambda batch, epoch: scale * (accuracy(batch, epoch) - 0.5))
    np.testing.assert_allclose(_at(samples, 128), [scale * (accuracy(128, e) - 0.5) for e in EPOCHS], atol=0.02 * scale)


def test_a_loss_falls_and_stays_above_zero() -> None:
    loss = replace(JOB, metric="loss", better="lower")
    samples = trained([16, 64, 256], value=lambda batch, epoch: 3 / (1 + epoch / (1 + batch / 300)))
    signed = _at(samples, 64, loss)
    assert np.all(np.diff(signed) >= -1e-6)
    assert signed.max() <= 0
    assert -signed[19] == pytest.approx(3 / (1 + 20 / (1 + 64 / 300)), rel=0.1)


def test_a_perplexity_stays_above_one() -> None:
    job = replace(JOB, metric="val_ppl", better="lower")
    points = tuple(Evaluation(epoch, 1.0 + 8.0 / epoch, epoch) for epoch in (1.0, 2.0, 3.0, 4.0))
    curve = _at([Sample(Config.data_parallel(64, 1), 4.0, 1.0, 3.0, curve=points)], 64, job)
    assert curve.max() <= -1.0


def test_a_collapsed_curve_never_rises_again() -> None:
    def collapse(batch: float, epoch: float) -> float:
        return accuracy(batch, epoch) if epoch <= 12 or batch > 16 else 0.1

    samples = trained([16, 64, 256], epochs=20, value=collapse)
    fallen = _at(samples, 16)
    assert fallen[10] == pytest.approx(accuracy(16, 11), abs=0.05)
    assert np.all(fallen[20:] <= 0.1 + 1e-6)
    assert _at(samples, 64)[-1] == pytest.approx(accuracy(64, 30), abs=0.02)


def test_values_that_are_not_numbers_are_left_out() -> None:
    samples = trained([16, 64])
    torn = replace(samples[0], curve=(*samples[0].curve, Evaluation(21, float("nan"), 0.0)))
    np.testing.assert_allclose(_at([torn, samples[1]], 16), _at(samples, 16))


def test_one_outlier_does_not_move_a_law() -> None:
    samples = trained([16, 64, 256], noise=0.002)
    points = list(samples[1].curve)
    points[9] = replace(points[9], accuracy=0.2)
    moved = _at([samples[0], replace(samples[1], curve=tuple(points)), samples[2]], 64)
    assert moved[-1] == pytest.approx(accuracy(64, 30), abs=0.02)
