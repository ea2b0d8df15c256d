"""How long a run is told to be, where its learning rate falls to its end: then the length is part of the plan.

    n = the least length whose end meets the target with a little more than the confidence that is asked

A longer run costs more and ends better; a shorter one does not get there. A run that is told n epochs meets its target
close to its end, as its rate falls, and hardly before: what it shows on the way is `Learning.of_length`.
"""

from __future__ import annotations

import numpy as np

from cotune.forecast import Learning
from cotune.types import Floats, Goal

_SPARE = 0.4  # of the doubt that is allowed, for seconds that come late


def lengths(learning: Learning, goal: Goal, needed: Floats, cap: Floats) -> Floats:
    """Return the epochs that a run of each recipe is told, given those its draws need to end well enough.

    No config of a recipe is told more than the longest that deadline and budget allow any of them (`cap`). Where the
    goal fixes the epochs, every run is told these.
    """
    if goal.epochs is not None:
        return np.full(len(needed), float(goal.epochs))
    share = 1 - (1 - goal.confidence) * (1 - _SPARE)
    enough = np.quantile(needed, share, axis=1, method="higher")
    longest = np.zeros(len(needed))
    np.maximum.at(longest, learning.recipe, cap)
    wanted = np.minimum(np.where(np.isfinite(enough), enough, goal.max_epochs), longest)
    grain = np.maximum(learning.steps, learning.grain)  # a run ends with an evaluation, and has one at least
    most = np.maximum(np.floor(goal.max_epochs / grain), 1.0)
    return np.asarray(np.clip(np.ceil(wanted / grain * (1 - 1e-9)), 1.0, most) * grain)
