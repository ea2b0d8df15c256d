"""The incremental line against its definition, and both against the rules of a cluster."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from cotune.cluster.ordered import Ordered
from cotune.cluster.policies.gittins import Gittins
from cotune.cluster.policies.las import Las
from cotune.cluster.policies.orders import Edf, Fifo, FifoSkip, Sjf, Smallest, Srsf, Srtf
from cotune.cluster.policy import Submission
from cotune.cluster.simulate import simulate
from cotune.cluster.simulate.world import mistaken
from cotune.types import Cluster, Device

GPUS = 11  # and jobs of powers of two, so that attained service is exact
CLUSTER = Cluster((Device("gpu", GPUS),))
ORDERS: list[Ordered] = [
    Fifo(),
    FifoSkip(),
    Sjf(),
    Srtf(),
    Srsf(),
    Smallest(),
    Edf(),
    Las(thresholds=(16, 64)),
    Las(thresholds=(16, 64), order="submit", knob=2.0),
    Las(variant="paper", thresholds=(16, 64)),
    Las(variant="pollux", thresholds=(32,), interval=4.0),
    Gittins(history=(4.0, 8.0, 8.0, 64.0, 128.0), quantum=8.0),
]

jobs = st.lists(
    st.builds(
        Submission,
        name=st.just(""),
        submit=st.integers(0, 40).map(float),
        gpus=st.sampled_from([1, 1, 2, 4, 8]),
        seconds=st.integers(1, 30).map(float),
        deadline=st.one_of(st.none(), st.integers(1, 90).map(float)),
    ),
    min_size=1,
    max_size=14,
).map(lambda listed: [replace(job, name=str(place)) for place, job in enumerate(listed)])


def by_definition(policy: Ordered) -> Ordered:
    """Return the same policy, made to sort everybody at every event."""

    @dataclass(frozen=True)
    class Definition(type(policy)):  # type: ignore[misc]
        steady = False

    return Definition(**{name: getattr(policy, name) for name in (field.name for field in fields(policy))})


@pytest.mark.parametrize("policy", ORDERS, ids=str)
@given(trace=jobs, restart=st.sampled_from([0.0, 1.0]), noise=st.sampled_from([0.0, 0.5]))
@settings(max_examples=40, deadline=None, phases=[Phase.explicit, Phase.generate])
def test_the_line_is_the_sorted_order_at_every_event(
    policy: Ordered, trace: list[Submission], restart: float, noise: float
) -> None:
    believe = mistaken(noise, len(trace), seed=1)
    fast = simulate(trace, CLUSTER, policy, restart=restart, believe=believe)
    slow = simulate(trace, CLUSTER, by_definition(policy), restart=restart, believe=believe)
    assert np.allclose(fast.end, slow.end)
    assert np.allclose(fast.start, slow.start)
    assert np.array_equal(fast.starts, slow.starts)


EIGHT = Cluster((Device("gpu", 8),))


def test_a_strict_line_waits_for_its_head() -> None:
    trace = [
        Submission("wide", 0.0, 5, 10.0),
        Submission("wider", 1.0, 8, 10.0),
        Submission("narrow", 2.0, 1, 1.0),
    ]
    assert simulate(trace, EIGHT, Fifo()).start.tolist() == [0.0, 10.0, 20.0]
    assert simulate(trace, EIGHT, FifoSkip()).start.tolist() == [0.0, 10.0, 2.0]


def test_a_stopped_job_keeps_its_work() -> None:
    trace = [Submission("long", 0.0, 8, 10.0), Submission("short", 4.0, 8, 2.0)]
    found = simulate(trace, EIGHT, Srtf())
    assert found.end.tolist() == [12.0, 6.0]
    assert found.starts.tolist() == [2, 1]


def test_ties_go_to_the_earlier_line_of_the_trace() -> None:
    trace = [Submission(name, 0.0, 8, 5.0) for name in "cab"]
    assert simulate(trace, EIGHT, Srtf()).start.tolist() == [0.0, 5.0, 10.0]
