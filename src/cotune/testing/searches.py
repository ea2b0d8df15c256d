"""What every search promises: the bottom of a bowl, within the space, the same again."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from cotune.space import Axis, Space
from cotune.types import Floats, Ints

SPACE = Space((Axis("workers", tuple(range(1, 9))), Axis("batch_size", tuple(range(16, 32)))))


class SearchConformance:
    """Name your search: `algorithm = Sampling(points=4000)`."""

    algorithm: Any

    def test_it_finds_the_bottom_of_a_bowl(self) -> None:
        assert self.algorithm.search(SPACE, _bowl, random.Random(0)) == (5, 9)

    def test_it_finds_the_same_again(self) -> None:
        first, second = (self.algorithm.search(SPACE, _bowl, random.Random(3)) for _ in range(2))
        assert first == second

    def test_it_stays_within_the_space(self) -> None:
        asked: list[Ints] = []

        def rank(points: Ints) -> Floats:
            asked.append(points)
            return _bowl(points)

        self.algorithm.search(SPACE, rank, random.Random(1))
        points = np.concatenate(asked)
        assert points.min() >= 0
        assert np.all(points < np.array(SPACE.shape))


def _bowl(points: Ints) -> Floats:
    height: Floats = ((points - np.array([5, 9])) ** 2).sum(axis=1, keepdims=True).astype(float)
    return height
