"""SkyPilot's time estimator: how long a job takes on the machines that its optimiser considers.

    task = sky.Task.from_yaml("sky.yaml")
    task.set_time_estimator(time_estimator("cotune.yaml", num_nodes=task.num_nodes))

Without one SkyPilot takes an hour for every machine, so it finds the cheapest hour. With
it the cheapest machine is the one on which the whole job costs least. The seconds are
those of the best plan for that device and that many workers; where the goal cannot be
met there, they are infinite.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from cotune.errors import Infeasible, NotFound, suggestion
from cotune.jobfile.settings import Settings
from cotune.predict.evidence import Predictors
from cotune.project.opening import open_project


class SkyResources(Protocol):
    """What of `sky.SkyResources` is asked for."""

    @property
    def accelerators(self) -> Mapping[str, float] | None: ...
    @property
    def cpus(self) -> str | None: ...


def time_estimator(
    file: str | Path | None = None, *, num_nodes: int = 1, store: str | None = None, seed: int = 0
) -> Callable[[SkyResources], float]:
    """Return a function from SkyPilot's resources to the seconds that the job of a job file takes on them."""
    with open_project(file, store=store) as project:
        settings, planner = project.settings, project.planner(predictors=Predictors(seed=seed))
    free = planner.asking(replace(settings.goal, max_cost=None))  # SkyPilot's prices count, not ours

    def seconds(resources: SkyResources) -> float:
        device, workers = _asked(settings, resources)
        try:
            plan = free.within(
                settings.space.with_axes({"device": (device,), "workers": (workers * num_nodes,)})
            ).plan()
        except Infeasible:
            return math.inf
        return plan.forecast.seconds.mid

    return seconds


def _asked(settings: Settings, resources: SkyResources) -> tuple[str, int]:
    """Return the device, as the job file calls it, and how many there are on a node."""
    wanted = dict(resources.accelerators or {})
    if not wanted:
        cores = str(resources.cpus or "1").rstrip("+")
        return _known(settings, "cpu"), int(float(cores))
    ((name, count),) = wanted.items()
    return _known(settings, name), int(count)


def _known(settings: Settings, name: str) -> str:
    devices = {device.name.lower(): device.name for device in settings.cluster.devices}
    if name.lower() not in devices:
        there = ", ".join(devices.values())
        raise NotFound(
            f"the job file has no device {name!r}; there are {there}{suggestion(name.lower(), devices)}. "
            "Add it under `devices:` and measure it, or import what was measured on it"
        )
    return devices[name.lower()]
