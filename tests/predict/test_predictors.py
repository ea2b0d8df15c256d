"""What predictors promise beyond the suite of `cotune.testing`, whatever was measured."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cotune import registry
from cotune.predict import AccuracyPredictor, SecondsPredictor, TooFewSamples
from cotune.space import Axis, Configs, Space
from cotune.types import Sample
from predict.worlds import JOB, grid, plain_step, timed

NAMES = registry.names("predictor")
OF_SECONDS = [name for name in NAMES if isinstance(registry.create("predictor", name), SecondsPredictor)]
OF_ACCURACY = [name for name in NAMES if isinstance(registry.create("predictor", name), AccuracyPredictor)]
SPACE = Space((Axis("workers", (1, 2, 3, 8, 16)), Axis("batch_size", (1, 16, 48, 128, 512)))).configs()
EPOCHS = np.array([0.5, 1.0, 5.0, 40.0])


def _seconds(name: str, samples: list[Sample]) -> np.ndarray:
    return registry.create("predictor", name).fit_seconds(JOB, samples).predict(SPACE)


@pytest.mark.parametrize("name", OF_ACCURACY)
def test_every_predictor_of_accuracy_refuses_samples_without_any(name: str) -> None:
    with pytest.raises(TooFewSamples, match="accuracy"):
        registry.create("predictor", name).fit_accuracy(JOB, timed(plain_step, grid()))


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_whatever_was_measured_predictions_are_positive_and_finite(data: st.DataObject) -> None:
    configs = data.draw(
        st.lists(st.tuples(st.integers(1, 512), st.integers(1, 16)), min_size=1, max_size=10, unique=True)
    )
    seconds = data.draw(st.lists(st.floats(1e-2, 1e5), min_size=len(configs), max_size=len(configs)))
    samples = [
        replace(sample, epoch_seconds=value) for sample, value in zip(timed(plain_step, configs), seconds, strict=True)
    ]
    for name in OF_SECONDS:
        try:
            found = _seconds(name, samples)
        except TooFewSamples:
            continue
        assert np.all(np.isfinite(found) & (found > 0)), name


def test_repeats_count_as_one_config_by_their_median() -> None:
    samples = timed(plain_step, grid())
    wild = [replace(samples[0], epoch_seconds=1e4), samples[0], *samples]
    np.testing.assert_allclose(_seconds("gaussian", wild), _seconds("gaussian", samples), rtol=3e-3)


def test_configs_as_records_and_as_columns_are_predicted_alike() -> None:
    model = registry.create("predictor", "gaussian").fit_seconds(JOB, timed(plain_step, grid()))
    np.testing.assert_allclose(model.predict(SPACE), model.predict(Configs.of(list(SPACE))))
