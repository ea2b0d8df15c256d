"""Measured steps of models, kept so that new models can be compared with similar ones.

A fingerprint is what was counted of a step: operations, bytes, operators, parameters and which families
of operators move the bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What makes steps alike; `mix` is the share of the bytes by family of operators."""

    flops: float
    bytes: float
    operators: int
    parameters: int
    mix: tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True)
class ModelStep:
    """Seconds of a step as measured, beside what its counts alone would have said."""

    model: str
    device: str
    precision: str
    workers: int
    batch_size: int
    seconds: float
    spread: float
    counted_seconds: float
    fingerprint: Fingerprint
    measured: str


def of_step(step: ModelStep) -> dict[str, Any]:
    """Return the columns of a step."""
    return asdict(step) | {"fingerprint": asdict(step.fingerprint)}


def step(row: Mapping[str, Any]) -> ModelStep:
    """Return the step of a row."""
    counted = dict(row["fingerprint"])
    mix = tuple((str(name), float(share)) for name, share in counted.pop("mix"))
    columns = {name: row[name] for name in ModelStep.__dataclass_fields__ if name != "fingerprint"}
    return ModelStep(**columns, fingerprint=Fingerprint(**counted, mix=mix))
