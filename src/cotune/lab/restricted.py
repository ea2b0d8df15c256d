"""What the strategies share: the planner on a part of the space, with one law or another."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cotune.errors import Infeasible
from cotune.forecast import Forecaster
from cotune.lab.strategy import Decision, Lab
from cotune.plan.assess import assess
from cotune.plan.choose import Trained, choose
from cotune.plan.searches.grid import Grid
from cotune.space import Space
from cotune.types import Plan, Prefer, Value

LEAST_PROBABILITY = 0.5  # a goal that is rather missed than met is refused
MISSED = 3.0  # what a goal that is missed costs, in runs of the cheapest config that is likely to meet it


def planned(lab: Lab, space: Space, forecast: Forecaster, prefer: Prefer = "cheap") -> Decision:
    """Return the best plan in a part of the space; when none is sure enough, the surest one that is likely.

    Where a recording holds one run of each recipe, what a probe has met is met again: that is surer than any forecast.
    """
    goal = replace(lab.goal, prefer=prefer)

    def chosen(trained: Trained) -> Plan:
        return choose(
            *(lab.job, goal, space, lab.cluster),
            forecast=forecast,
            search=Grid(),
            trained=trained,
            go_on=lab.job.seeds == 1,
            seed=lab.seed,
        )

    try:
        plan = chosen(lambda configs: np.where(np.isinf(lab.trained(configs)), np.inf, 0.0))
    except Infeasible as error:
        return _likely(lab, space, forecast) or Decision(None, 0, str(error))
    return Decision(plan.config, plan.epochs, plan.reason)


def fewest_workers(lab: Lab, space: Space, forecast: Forecaster) -> Decision:
    """Return the plan with the fewest workers that meets the goal, else with the fewest that likely do."""
    configs = space.configs()
    found = assess(forecast(configs, lab.goal.max_epochs), lab.goal, lab.cluster, lab.job.sign)
    sure, likely = found.feasible, found.probability >= LEAST_PROBABILITY
    able = sure if sure.any() else likely
    if not able.any():
        return Decision(None, 0, "no number of workers is likely to meet the goal")
    fewest = int(configs.workers[able].min())
    rank = found.cost if sure.any() else -found.probability
    row = int(np.argmin(np.where(able & (configs.workers == fewest), rank, np.inf)))
    words = "meet the goal" if sure.any() else f"are likely to ({found.probability[row]:.0%})"
    return Decision(configs[row], int(found.epochs[row]), f"{fewest} is the fewest workers that {words}")


def values(space: Space, axis: str) -> list[Value]:
    """Return the values of an axis that some point of the space has, in rising order."""
    place = next(place for place, one in enumerate(space.axes) if one.name == axis)
    found = np.unique(space.points[:, place])
    return [space.axes[place].values[index] for index in found]


def nearest_batch(space: Space, batch_size: int) -> Space:
    """Return the part of the space with the batch size nearest to the one wanted."""
    near = min(values(space, "batch_size"), key=lambda value: abs(np.log(float(value) / batch_size)))
    return space.pinned(batch_size=[near])


def _likely(lab: Lab, space: Space, forecast: Forecaster) -> Decision | None:
    """Return the config that is likely to meet the goal and costs the least, missing it counted; None without any."""
    configs = space.configs()
    found = assess(forecast(configs, lab.goal.max_epochs), lab.goal, lab.cluster, lab.job.sign)
    likely = found.probability >= LEAST_PROBABILITY
    if not likely.any():
        return None
    cost = found.cost / found.cost[likely].min()
    row = int(np.argmin(np.where(likely, cost + MISSED * (1 - found.probability), np.inf)))
    words = f"nothing is sure enough; this is met with {found.probability[row]:.0%}"
    return Decision(configs[row], int(found.epochs[row]), words)
