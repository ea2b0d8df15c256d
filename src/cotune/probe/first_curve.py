"""Which recipe to train first, while nobody knows how many epochs the target takes.

    N(B) = n (1 + B / B') / (1 + B0 / B')        n: 1 to the most epochs, evenly in logarithms; B' between the batches
    plan = cheapest config with  N(B) seconds <= deadline / MARGIN
    wasted(recipe) = mean over n of  cost of its curve / cost of the plan,  nothing where the plan has that recipe

Its curve shows the others how the job learns, and a run continues it where its recipe is the plan's. The cheapest
epochs are no bargain where no layout of their recipe is in time.
"""

from __future__ import annotations

import numpy as np

from cotune.space import Configs
from cotune.types import Floats, Goal, Ints

MARGIN = 1.15  # on epochs and seconds that few probes told, before a config counts as in time or a recipe as beaten
_LENGTHS = 40


def least_wasted(configs: Configs, seconds: Floats, rate: Floats, goal: Goal) -> int:
    """Return the global batch whose learning curve wastes the least, as far as is known."""
    batches, recipe = np.unique(configs.global_batch, return_inverse=True)
    pace = 1 + batches / np.sqrt(batches[0] * batches[-1])
    per_epoch = _least(seconds * rate, recipe, len(batches))
    wasted, told = np.zeros(len(batches)), False
    for fewest in np.geomspace(1.0, goal.max_epochs, _LENGTHS):
        epochs = np.ceil(fewest * pace / pace[0])
        spent = epochs[recipe] * seconds
        late = (epochs[recipe] > goal.max_epochs) | (MARGIN * spent > (goal.deadline or np.inf))
        plans = _least(np.where(late, np.inf, spent * rate), recipe, len(batches))
        plan = int(np.argmin(plans))
        if np.isfinite(plans[plan]):
            curves = epochs * per_epoch / plans[plan]
            curves[plan] = 0.0
            wasted, told = wasted + curves, True
    return int(batches[np.argmin(wasted if told else pace * per_epoch)])


def _least(values: Floats, recipe: Ints, count: int) -> Floats:
    """Return the least value of each recipe."""
    found = np.full(count, np.inf)
    np.minimum.at(found, recipe, values)
    return found
