"""What is asked of a plan in Python, in the job file's own terms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from cotune.types import Prefer, Value


class PlanRequest(TypedDict, total=False):
    """What may be asked of a plan, over what the job file says; durations are seconds or words such as "2h"."""

    target: float | str
    deadline: float | str
    max_cost: float
    prefer: Prefer
    confidence: float
    epochs: int
    max_epochs: int
    workers: int | str | Sequence[int]
    batch_size: int | str | Sequence[int]
    axes: Mapping[str, Value | Sequence[Value]]


def as_job_file(asked: PlanRequest | Mapping[str, Any]) -> dict[str, Any]:
    """Return what is asked by the keys of the job file."""
    axes = {"workers": asked.get("workers"), "batch_size": asked.get("batch_size"), **asked.get("axes", {})}
    search = {name: _listed(values) for name, values in axes.items() if values is not None}
    nested: dict[str, Any] = {
        "search": search or None,
        "budget": {"max_cost": asked["max_cost"]} if asked.get("max_cost") is not None else None,
    }
    plain = {name: value for name, value in asked.items() if name not in ("workers", "batch_size", "axes", "max_cost")}
    return {name: value for name, value in (plain | nested).items() if value is not None}


def _listed(values: object) -> object:
    return list(values) if isinstance(values, Sequence) and not isinstance(values, str) else values
