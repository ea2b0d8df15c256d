"""Measured steps of models, kept so that new models can be compared with similar ones.

A fingerprint is what was counted of a step: operations, bytes, operators, parameters and which families
of operators move the bytes.
"""

from __future__ import annotations

from dataclasses import dataclass


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
