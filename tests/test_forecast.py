from __future__ import annotations

import numpy as np
from scipy.special import ndtr

from cotune.forecast import standard_draws


def test_probabilities_from_the_draws_are_off_by_a_hundredth() -> None:
    errors = []
    for seed in range(200):
        time, accuracy = standard_draws(128, seed)
        for angle in np.linspace(0, 3, 7):
            along = np.cos(angle) * time + np.sin(angle) * accuracy
            errors += [(along <= bound).mean() - ndtr(bound) for bound in (-1, 0, 0.8, 1.3)]
    assert np.sqrt(np.mean(np.square(errors))) < 0.012


def test_the_same_seed_gives_the_same_draws_and_another_seed_others() -> None:
    assert np.array_equal(standard_draws(16, 3), standard_draws(16, 3))
    assert not np.array_equal(standard_draws(16, 3), standard_draws(16, 4))
