from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtr

from cotune.forecast import standard_draws


@pytest.mark.parametrize("count", [32, 128, 256])
def test_the_quantiles_of_the_draws_are_those_of_a_normal(count: int) -> None:
    draws = standard_draws(count, 0)
    for bound in (-1.0, 0.0, 0.8, 1.3):
        assert abs((draws <= bound).mean() - ndtr(bound)) <= 0.5 / count + 1e-9


def test_draws_that_follow_one_another_are_spread_over_all_values() -> None:
    for seed in range(20):
        shares = ndtr(standard_draws(256, seed)).reshape(16, 16)
        assert np.ptp(shares, axis=1).min() > 0.8
        assert np.abs(shares.mean(axis=1) - 0.5).max() < 0.1


def test_the_same_seed_gives_the_same_draws_and_another_seed_others() -> None:
    assert np.array_equal(standard_draws(16, 3), standard_draws(16, 3))
    assert not np.array_equal(standard_draws(16, 3), standard_draws(16, 4))
