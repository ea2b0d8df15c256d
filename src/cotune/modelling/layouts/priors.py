"""What coefficients are before a model is measured: physical guesses, or those of models measured elsewhere.

`fitted.yaml` holds the coefficients of models of public tables, each fitted to its own rows alone
(`benchmarks/layout_coefficients.py`). The prior for a model is their average, the model itself left out: a shape is
never predicted with coefficients that its own rows made. `cores.yaml` and `slices.yaml` hold those of decoders on
emulated nodes and on slices of a GPU: what machines that exchange in the host's memory have in common, where nothing is
known of one but that it has cores, or GPUs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
import yaml

from cotune.modelling.layouts.fitting import Coefficient, LogPrior
from cotune.modelling.layouts.memory import MEMORY
from cotune.modelling.layouts.seconds import COEFFICIENTS
from cotune.modelling.layouts.setting import Transformer

BETWEEN_MODELS = 0.15  # of a coefficient between a model of a table and another, as a deviation of its logarithm
# the same between decoders on machines that no table has, beside the pace of each resource; of slices three were seen
_STRANGE_SPREAD = {"cores.yaml": 0.3, "slices.yaml": 0.5}
_TOLD = 1e-3  # how far a coefficient moves at least that rows say something of, as a logarithm


@dataclass(frozen=True, slots=True)
class LayoutPriors:
    """Of the laws of seconds and of memory, and the models they come from."""

    seconds: LogPrior
    memory: LogPrior
    models: tuple[str, ...] = ()

    @classmethod
    def physical(cls) -> LayoutPriors:
        """Return the guesses that no table of layouts has had a part in."""
        return cls(LogPrior.of(COEFFICIENTS), LogPrior.of(MEMORY))

    @classmethod
    def measured_elsewhere(cls, model: Transformer) -> LayoutPriors:
        """Return the average of the models in `fitted.yaml` that are not this one; the guesses where there is none."""
        others = _others("fitted.yaml", model)
        if not others:
            return cls.physical()
        parts = list(others.values())
        return cls(
            _average(COEFFICIENTS, [one["seconds"] for one in parts], BETWEEN_MODELS),
            _average(MEMORY, [one["memory"] for one in parts], BETWEEN_MODELS),
            tuple(others),
        )

    @classmethod
    def of_strange(cls, model: Transformer, device: str) -> LayoutPriors:
        """Return the average of decoders on cores, or on slices where the device is no `cpu`; of memory the guesses."""
        file = "cores.yaml" if device == "cpu" else "slices.yaml"
        others = _others(file, model)
        seconds = _average(COEFFICIENTS, [one["seconds"] for one in others.values()], _STRANGE_SPREAD[file])
        return cls(seconds, LogPrior.of(MEMORY), models=tuple(others))


def _others(file: str, model: Transformer) -> dict[str, Any]:
    return {name: one for name, one in _fitted(file).items() if tuple(one["shape"]) != astuple(model)}


def _average(coefficients: Sequence[Coefficient], fitted: Sequence[Mapping[str, float]], spread: float) -> LogPrior:
    guess = LogPrior.of(coefficients)
    logs = np.array([[np.log(one[part.name]) for part in coefficients] for one in fitted])
    measured = np.any(np.abs(logs - guess.centre) > _TOLD, axis=0)  # the others no row of these models has a part in
    return LogPrior(np.mean(logs, axis=0), np.where(measured, np.minimum(guess.spread, spread), guess.spread))


@cache
def _fitted(file: str) -> Mapping[str, Any]:
    written: Mapping[str, Any] = yaml.safe_load((files(__package__) / file).read_text(encoding="utf-8"))
    return written
