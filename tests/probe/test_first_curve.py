"""Which recipe is trained first, before anything is known of its epochs."""

from __future__ import annotations

import numpy as np
import pytest

from cotune.probe.first_curve import MARGIN, least_wasted
from cotune.space import Configs
from cotune.types import Config, Floats, Goal

BATCHES = (32, 64, 128, 256)
CONFIGS = Configs.of([Config.data_parallel(size, workers) for workers in (1, 2, 4, 8) for size in BATCHES])


def seconds(per_step: float = 0.5) -> Floats:
    """Return seconds per epoch of 10,000 examples where a step takes a little longer for each worker."""
    steps = 10_000 / CONFIGS.global_batch
    return np.asarray(steps * (0.01 * CONFIGS.batch_size + per_step * np.log2(CONFIGS.workers + 1)))


def first(goal: Goal) -> int:
    return least_wasted(CONFIGS, seconds(), CONFIGS.workers.astype(np.float64), goal)


def more_epochs() -> Floats:
    """Return how many times the epochs of the smallest batch each config is expected to need."""
    batches = CONFIGS.global_batch
    pace = 1 + batches / np.sqrt(batches.min() * batches.max())
    return np.asarray(pace / pace.min())


def test_with_all_the_time_there_is_the_cheapest_recipe_is_trained() -> None:
    cheapest = int(np.argmin(seconds() * CONFIGS.workers * more_epochs()))
    assert first(Goal(0.9, None, max_epochs=50)) == CONFIGS.global_batch[cheapest]


def test_where_one_recipe_alone_can_be_in_time_it_is_trained() -> None:
    taken = np.ceil(more_epochs()) * seconds()
    quickest = int(np.argmin(taken))
    goal = Goal(0.9, 1.001 * MARGIN * float(taken[quickest]), max_epochs=50)
    assert first(goal) == CONFIGS.global_batch[quickest]
    assert first(goal) != first(Goal(0.9, None, max_epochs=50))


def test_a_goal_that_nothing_meets_still_has_a_first_curve() -> None:
    assert first(Goal(0.9, 1e-3, max_epochs=50)) in CONFIGS.global_batch


@pytest.mark.parametrize("deadline", [3.0, 40.0, 700.0])
def test_no_unit_of_time_or_price_changes_the_choice(deadline: float) -> None:
    rate = CONFIGS.workers.astype(np.float64)
    other = least_wasted(CONFIGS, 60 * seconds(), 3 * rate, Goal(0.9, 60 * deadline, max_epochs=50))
    assert other == first(Goal(0.9, deadline, max_epochs=50))
