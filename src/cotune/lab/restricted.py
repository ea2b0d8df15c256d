"""What the strategies share: the planner on a part of the space, with one law or another."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cotune.errors import Infeasible
from cotune.forecast import Forecaster
from cotune.lab.strategy import Decision, Lab
from cotune.plan.assess import assess
from cotune.plan.choose import choose
from cotune.plan.searches.grid import Grid
from cotune.space import Configs, Space
from cotune.types import Floats, Prefer, Value

POINT_FORECAST = 0.5  # the confidence of a rival: its paper takes the middle of a forecast for what will come


def planned(
    lab: Lab, space: Space, forecast: Forecaster, prefer: Prefer = "cheap", confidence: float = 0.0
) -> Decision:
    """Return the best plan in a part of the space, or refuse the goal where `cotune plan` refuses it.

    A rival has another confidence than the goal's. Where a recording holds one run of each recipe, what a probe has met
    is met again: that is surer than any forecast.
    """
    goal = replace(lab.goal, prefer=prefer, confidence=confidence or lab.goal.confidence)

    def trained(configs: Configs) -> Floats:
        return np.where(np.isinf(lab.trained(configs)), np.inf, 0.0)

    try:
        plan = choose(
            *(lab.job, goal, space, lab.cluster),
            forecast=forecast,
            search=Grid(),
            trained=trained,
            go_on=lab.job.seeds == 1,
            seed=lab.seed,
        )
    except Infeasible as error:
        return Decision(None, 0, str(error))
    sure_from_scratch = plan.forecast.probability >= goal.confidence
    promised = plan.forecast if sure_from_scratch else plan.rest or plan.forecast
    return Decision(plan.config, plan.epochs, plan.reason, promised.probability)


def fewest_workers(lab: Lab, space: Space, forecast: Forecaster) -> Decision:
    """Return the plan with the fewest workers that is forecast to meet the goal."""
    configs = space.configs()
    found = assess(forecast(configs, lab.goal.max_epochs), lab.goal, lab.cluster, lab.job.sign)
    able = found.probability >= POINT_FORECAST
    if not able.any():
        return Decision(None, 0, "no number of workers is forecast to meet the goal")
    fewest = int(configs.workers[able].min())
    row = int(np.argmin(np.where(able & (configs.workers == fewest), found.cost, np.inf)))
    reason = f"{fewest} is the fewest workers that is forecast to meet the goal"
    return Decision(configs[row], int(found.epochs[row]), reason, float(found.probability[row]))


def values(space: Space, axis: str) -> list[Value]:
    """Return the values of an axis that some point of the space has, in rising order."""
    place = next(place for place, one in enumerate(space.axes) if one.name == axis)
    found = np.unique(space.points[:, place])
    return [space.axes[place].values[index] for index in found]


def nearest_batch(space: Space, batch_size: int) -> Space:
    """Return the part of the space with the batch size nearest to the one wanted."""
    near = min(values(space, "batch_size"), key=lambda value: abs(np.log(float(value) / batch_size)))
    return space.pinned(batch_size=[near])
