"""What learns the milliseconds of single layers: the protocol of layer predictors."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from cotune.modelling.layer_rows import Layers
from cotune.types import Floats


class LayerModel(Protocol):
    """A fitted model of single layers."""

    def predict(self, layers: Layers) -> Floats:
        """Return the milliseconds of each layer."""
        ...


@runtime_checkable
class LayerPredictor(Protocol):
    """What can learn the milliseconds of layers; raises `TooFewSamples` when it cannot."""

    def fit_layers(self, layers: Layers) -> LayerModel: ...
