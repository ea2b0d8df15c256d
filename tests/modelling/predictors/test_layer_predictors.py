"""What every predictor of layers promises; a new file takes part by itself."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest

from cotune import registry
from cotune.modelling.layer_rows import SHAPES, LayerPredictor, Layers
from cotune.predict import TooFewSamples
from modelling.layer_worlds import layers

NAMES = registry.names("predictor")
OF_LAYERS = [name for name in NAMES if isinstance(registry.create("predictor", name), LayerPredictor)]


def _brief(name: str) -> LayerPredictor:
    """A predictor of layers that takes less trouble than it would by itself."""
    made = registry.create("predictor", name)
    return replace(made, **{field.name: 25 for field in fields(made) if field.name in ("epochs", "trees")})


def test_the_box_holds_those_of_the_literature() -> None:
    assert {"layerwise", "layer_trees"} <= set(OF_LAYERS)


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
