"""Callbacks that call `cotune.report` for those who do not write their own loop: one file for each framework.

    from cotune.callbacks.lightning import Report       Trainer(callbacks=[Report()])
    from cotune.callbacks.huggingface import Report     Trainer(..., callbacks=[Report()])

Without cotune around them they do nothing. Under it they tell progress at each step, the
metric and the seconds of each evaluation, and end the training on all ranks when cotune
says so.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import SupportsFloat

from cotune.errors import NotFound, suggestion

_PREFIXES = ("", "val_", "val/", "valid_", "valid/", "validation_", "validation/", "eval_", "eval/", "test_")


def is_heard() -> bool:
    """Say whether cotune runs this process."""
    return "COTUNE_REPORT" in os.environ


def evaluated(
    numbers: Mapping[str, SupportsFloat], name: str | None, *, required: bool = True
) -> dict[str, SupportsFloat]:
    """Return the job's metric by its own name, as `cotune.report` wants it; `name` is what it was evaluated as.

    It is found by its name, or as `val_...` and the like; one that is not `required` may be missing.
    """
    metric = os.environ.get("COTUNE_METRIC", "accuracy")
    wanted = name or metric
    found = next((prefix + wanted for prefix in _PREFIXES if prefix + wanted in numbers), None)
    if found is not None:
        return {metric: numbers[found]}
    if not required:
        return {}
    there = ", ".join(sorted(numbers)) or "none at all"
    raise NotFound(
        f"no metric {wanted!r} was evaluated, but {there}{suggestion(wanted, numbers)}; name it: Report(metric=...)"
    )
