"""What the core asks of this room: what a step of the model that a job names counts."""

from __future__ import annotations

from collections.abc import Sequence

from cotune.modelling.counting.exposed import counted_model
from cotune.modelling.workloads.named import find
from cotune.types import CountedModel


def counted(model: str, inputs: Sequence[str]) -> CountedModel:
    """Return what is counted of a model by its name or import path."""
    return counted_model(find(model, inputs))
