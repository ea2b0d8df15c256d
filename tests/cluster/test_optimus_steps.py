"""The way up that Optimus climbs: one config per size, whatever batches and servers a job may have."""

from __future__ import annotations

import math

from cotune.cluster.policies.optimus import Ladder, climb
from cotune.types import Config


def config(batch: int, workers: int, servers: int = 0) -> Config:
    return Config.data_parallel(batch, workers, servers=servers)


def test_of_several_batches_the_fastest_is_climbed() -> None:
    configs = [config(batch, workers) for batch in (16, 64) for workers in (1, 2, 4)]
    left = {one: 100 / one.workers / (2 if (one.batch_size == 64) == (one.workers > 1) else 1) for one in configs}
    assert climb(configs, left.__getitem__) == (config(16, 1), config(64, 2), config(64, 4))


def test_gaps_between_sizes_are_climbed_by_what_saves_most_per_unit() -> None:
    configs = [config(8, workers, servers) for workers in (1, 4) for servers in (1, 2)]
    left = {configs[0]: 100.0, configs[1]: 80.0, configs[2]: 55.0, configs[3]: 50.0}
    way = climb(configs, left.__getitem__)
    assert [(one.workers, one.servers) for one in way] == [(1, 1), (1, 2), (4, 2)], "20 per unit, then 10; not 15 first"


def test_a_step_between_two_that_never_end_gains_nothing() -> None:
    assert Ladder([config(8, 1), config(8, 2)], lambda _: math.inf).look() == 0.0
