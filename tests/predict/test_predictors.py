"""What every predictor promises; a new file takes part by itself."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cotune import registry
from cotune.modelling.layer_predictor import LayerPredictor
from cotune.modelling.layer_rows import SHAPES, Layers
from cotune.predict import AccuracyPredictor, SecondsPredictor, TooFewSamples
from cotune.space import Axis, Configs, Space
from cotune.types import Cause, Failure, Sample
from predict.worlds import JOB, grid, layers, plain_step, timed, trained

NAMES = registry.names("predictor")
OF_SECONDS = [name for name in NAMES if isinstance(registry.create("predictor", name), SecondsPredictor)]
OF_ACCURACY = [name for name in NAMES if isinstance(registry.create("predictor", name), AccuracyPredictor)]
OF_LAYERS = [name for name in NAMES if isinstance(registry.create("predictor", name), LayerPredictor)]
SPACE = Space((Axis("workers", (1, 2, 3, 8, 16)), Axis("batch_size", (1, 16, 48, 128, 512)))).configs()
EPOCHS = np.array([0.5, 1.0, 5.0, 40.0])


def _seconds(name: str, samples: list[Sample]) -> np.ndarray:
    return registry.create("predictor", name).fit_seconds(JOB, samples).predict(SPACE)


def _brief(name: str) -> LayerPredictor:
    """A predictor of layers that takes less trouble than it would by itself."""
    made = registry.create("predictor", name)
    return replace(made, **{field.name: 25 for field in fields(made) if field.name in ("epochs", "trees")})


def test_the_box_holds_those_of_the_literature() -> None:
    assert {"isotonic", "log_isotonic", "ring", "pollux", "auto", "ernest", "amdahl", "eta"} <= set(OF_SECONDS)
    assert {"isotonic", "curve", "auto", "optimus"} <= set(OF_ACCURACY)
    assert {"layerwise", "layer_trees"} <= set(OF_LAYERS)


@pytest.mark.parametrize("name", NAMES)
def test_every_predictor_learns_something_and_says_what_it_is(name: str) -> None:
    assert name in OF_SECONDS + OF_ACCURACY + OF_LAYERS
    assert registry.summary("predictor", name).endswith(".") or registry.summary("predictor", name).endswith(").")


@pytest.mark.parametrize("name", OF_SECONDS)
def test_every_predictor_of_seconds_is_positive_finite_and_deterministic(name: str) -> None:
    samples = timed(plain_step, grid(), noise=0.05)
    found = _seconds(name, samples)
    assert found.shape == (len(SPACE),)
    assert np.all(np.isfinite(found) & (found > 0))
    np.testing.assert_array_equal(found, _seconds(name, samples))


@pytest.mark.parametrize("name", OF_SECONDS)
def test_every_predictor_of_seconds_refuses_what_says_nothing_of_speed(name: str) -> None:
    failed = [replace(sample, failure=Failure("out of memory", Cause.MEMORY)) for sample in timed(plain_step, grid())]
    for useless in ([], failed, [replace(failed[0], failure=None, epoch_seconds=None)]):
        with pytest.raises(TooFewSamples):
            _seconds(name, useless)


@pytest.mark.parametrize("name", OF_ACCURACY)
def test_every_predictor_of_accuracy_is_finite_and_deterministic(name: str) -> None:
    samples = trained([16, 64, 256, 1024], noise=0.005)
    fit = registry.create("predictor", name).fit_accuracy
    found = fit(JOB, samples).predict(SPACE, EPOCHS)
    assert found.shape == (len(SPACE), len(EPOCHS))
    assert np.all(np.isfinite(found))
    np.testing.assert_array_equal(found, fit(JOB, samples).predict(SPACE, EPOCHS))


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


@pytest.mark.parametrize("name", OF_SECONDS)
def test_more_samples_never_break_a_predictor(name: str) -> None:
    samples = timed(plain_step, grid(), noise=0.05)
    fitted = 0
    for count in range(1, len(samples) + 1):
        try:
            found = _seconds(name, samples[:count])
        except TooFewSamples:
            assert fitted == 0, "it could do with fewer"
            continue
        fitted += 1
        assert np.all(np.isfinite(found) & (found > 0))
    assert fitted


@pytest.mark.parametrize("kind", SHAPES)
@pytest.mark.parametrize("name", OF_LAYERS)
def test_every_predictor_of_layers_learns_every_kind_and_is_finite_and_deterministic(name: str, kind: str) -> None:
    made = layers(kind, 120)
    learnt = _brief(name).fit_layers
    found = learnt(made).predict(made)
    assert found.shape == (120,)
    assert np.all(np.isfinite(found) & (found >= 0))
    np.testing.assert_array_equal(found, learnt(made).predict(made))
    alone = made.take(made.device == "slow")
    assert np.all(np.isfinite(learnt(alone).predict(alone)))


@pytest.mark.parametrize("name", OF_LAYERS)
def test_every_predictor_of_layers_refuses_a_handful_and_devices_without_facts(name: str) -> None:
    made = layers("dense", 60)
    unknown = {fact: np.full(60, np.nan) for fact in made.facts}
    with pytest.raises(TooFewSamples, match="at least"):
        registry.create("predictor", name).fit_layers(made.take(np.arange(10)))
    with pytest.raises(TooFewSamples, match=r"devices\.csv"):
        registry.create("predictor", name).fit_layers(Layers("dense", made.shape, made.device, unknown, made.ms))


def test_repeats_count_as_one_config_by_their_median() -> None:
    samples = timed(plain_step, grid())
    wild = [replace(samples[0], epoch_seconds=1e4), samples[0], *samples]
    np.testing.assert_allclose(_seconds("ring", wild), _seconds("ring", samples))


def test_configs_as_records_and_as_columns_are_predicted_alike() -> None:
    model = registry.create("predictor", "ring").fit_seconds(JOB, timed(plain_step, grid()))
    np.testing.assert_allclose(model.predict(SPACE), model.predict(Configs.of(list(SPACE))))
