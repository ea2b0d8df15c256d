"""cotune: how many workers, which batch size, which devices?

    project = cotune.open("cotune.yaml")
    project.profile(budget="5m")
    plan = project.plan(target=0.98, deadline="2h")
    project.run(plan).result()

A training script imports this package too, for `cotune.report` alone: every other name is looked up when it
is first used, so that a worker needs nothing but the standard library.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from cotune.worker.report import report

if TYPE_CHECKING:
    from cotune.errors import CotuneError, EngineError, Infeasible, InvalidFile, Missed, NotFound, OverBudget
    from cotune.project.project import Project
    from cotune.project.project import open_project as open
    from cotune.project.run import RunLayout, RunOptions
    from cotune.space import Axis, Space
    from cotune.types import Cluster, Config, Device, Forecast, Goal, Job, Plan, Quantity, Sample

__version__ = "0.1.0"
__all__ = [
    "Axis",
    "Cluster",
    "Config",
    "CotuneError",
    "Device",
    "EngineError",
    "Forecast",
    "Goal",
    "Infeasible",
    "InvalidFile",
    "Job",
    "Missed",
    "NotFound",
    "OverBudget",
    "Plan",
    "Project",
    "Quantity",
    "RunLayout",
    "RunOptions",
    "Sample",
    "Space",
    "open",
    "report",
]

_HOMES = {
    "cotune.errors": ("CotuneError", "EngineError", "Infeasible", "InvalidFile", "Missed", "NotFound", "OverBudget"),
    "cotune.project.project": ("Project",),
    "cotune.project.run": ("RunLayout", "RunOptions"),
    "cotune.space": ("Axis", "Space"),
    "cotune.types": ("Cluster", "Config", "Device", "Forecast", "Goal", "Job", "Plan", "Quantity", "Sample"),
}
_PLACES = {name: (home, name) for home, names in _HOMES.items() for name in names}
_PLACES["open"] = ("cotune.project.project", "open_project")


def __getattr__(name: str) -> Any:
    """Return a public name, its module imported now."""
    if name not in _PLACES:
        raise AttributeError(f"module 'cotune' has no attribute {name!r}")
    module, attribute = _PLACES[name]
    return globals().setdefault(name, getattr(importlib.import_module(module), attribute))


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
