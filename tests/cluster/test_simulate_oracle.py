"""First come, first served, against SimPy and against its definition."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest
import simpy
from hypothesis import given, settings
from hypothesis import strategies as st

from cotune.cluster.policies.orders import Fifo
from cotune.cluster.policy import Submission
from cotune.cluster.simulate import simulate
from cotune.types import Cluster, Device

rows = st.lists(st.tuples(st.integers(0, 50), st.integers(1, 6), st.integers(1, 40)), min_size=1, max_size=25).map(
    sorted
)


def played_by_simpy(trace: list[Submission], gpus: int) -> list[float]:
    """Return the ends under strict fifo, with GPUs as a SimPy container, whose requests queue in order."""
    environment = simpy.Environment()
    pool = simpy.Container(environment, capacity=gpus, init=gpus)
    ends: dict[str, float] = {}

    def job(one: Submission) -> Generator[Any, Any, None]:
        yield environment.timeout(one.submit)
        yield pool.get(one.gpus)
        yield environment.timeout(one.seconds)
        ends[one.name] = float(environment.now)
        yield pool.put(one.gpus)

    for one in trace:
        environment.process(job(one))
    environment.run()
    return [ends[one.name] for one in trace]


@given(rows)
@settings(max_examples=150, deadline=None)
def test_fifo_ends_when_simpy_says(listed: list[tuple[int, int, int]]) -> None:
    trace = [
        Submission(str(place), float(submit), gpus, float(seconds))
        for place, (submit, gpus, seconds) in enumerate(listed)
    ]
    assert simulate(trace, Cluster((Device("gpu", 6),)), Fifo()).end.tolist() == played_by_simpy(trace, 6)


@pytest.mark.parametrize("gpus", [1, 3])
def test_jobs_that_never_queue_end_after_their_run_time(gpus: int) -> None:
    trace = [Submission(str(number), 10.0 * number, gpus, 10.0) for number in range(20)]
    assert simulate(trace, Cluster((Device("gpu", 3),)), Fifo()).waited.sum() == 0
