"""Laws of the batch: a device that is not full, and examples to a target."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cotune.predict import TooFewSamples
from cotune.predict.predictors.samples_to_target import SamplesToTarget, line
from cotune.predict.predictors.saturating import Saturating
from cotune.space import Configs
from cotune.types import Config, Evaluation, Sample
from predict.worlds import EXAMPLES, JOB, timed


def _bent(batch: int, workers: int) -> float:
    return float(0.001 * (64**2.2 + batch**2.2) ** (1 / 2.2) + 0.02 * (workers - 1) / workers)


def test_a_bend_between_flat_and_growing_steps_is_found() -> None:
    seen = timed(_bent, [(b, n) for b in (8, 32, 128, 512) for n in (1, 4)])
    unseen = timed(_bent, [(b, n) for b in (16, 64, 256) for n in (1, 2, 8)])
    model = Saturating().fit_seconds(JOB, seen)
    predicted = model.predict(Configs.of([sample.config for sample in unseen]))
    np.testing.assert_allclose(predicted, [sample.epoch_seconds for sample in unseen], rtol=0.02)


def test_an_affine_step_is_a_bend_of_one_and_one_batch_size_is_enough_to_scale() -> None:
    affine = timed(lambda b, _: 0.01 + 0.001 * b, [(b, 1) for b in (4, 16, 64, 256)])
    model = Saturating().fit_seconds(JOB, affine)
    predicted = model.predict(Configs.of([Config.data_parallel(b, 1) for b in (8, 32, 128)]))
    np.testing.assert_allclose(predicted, [EXAMPLES / b * (0.01 + 0.001 * b) for b in (8, 32, 128)], rtol=0.03)
    one = Saturating().fit_seconds(JOB, timed(_bent, [(32, 1), (32, 2), (32, 8)]))
    assert one.predict(Configs.of([Config.data_parallel(32, 4)]))[0] == pytest.approx(
        EXAMPLES / 128 * _bent(32, 4), rel=0.01
    )
    with pytest.raises(TooFewSamples):
        Saturating().fit_seconds(JOB, affine[:2])


@settings(max_examples=30, deadline=None)
@given(st.floats(1e3, 1e8), st.floats(0.1, 1e4))
def test_a_line_of_examples_to_a_target_is_found_again(a: float, c: float) -> None:
    batches = np.array([64.0, 256.0, 1024.0])
    np.testing.assert_allclose(line(batches, a + c * batches)(np.array([4096.0])), a + c * 4096, rtol=1e-6)


def test_accuracy_of_a_batch_between_two_follows_the_lines_of_every_level() -> None:
    def sample(batch: int) -> Sample:
        pace = 2 + batch / 256  # epochs to a tenth of accuracy
        curve = tuple(Evaluation(e, min(0.9, e / pace / 10), 0.0) for e in range(1, 31))
        return Sample(Config.data_parallel(batch, 1), 30.0, curve=curve)

    model = SamplesToTarget().fit_accuracy(JOB, [sample(64), sample(512)])
    found = model.predict(Configs.of([Config.data_parallel(256, 1)]), np.array([6.0, 15.0]))[0]
    np.testing.assert_allclose(found, [0.2, 0.5], atol=0.02)
