"""Room is promised as late as possible, and given back as a job gets on."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cotune.cluster.candidates import Ladder, candidates_of
from cotune.cluster.policy import Active, Promise, Submission, rigid_config
from cotune.cluster.promises import Room, StartCost, held_at, next_change, trimmed
from cotune.cluster.work import Steady
from cotune.types import Cluster, Device

CLUSTER = Cluster((Device("gpu", 8),))
WAITING = StartCost(0.0, -1, 0.0)


def ladder(seconds: float = 80.0, sizes: tuple[int, ...] = (1, 2, 4, 8), shape: float = 0.8) -> Ladder:
    """Return what a job can run in that needs so many seconds on one GPU."""
    job = Submission("one", 0.0, 1, seconds, 1e6, Steady(seconds, {rigid_config(g): g**shape for g in sizes}))
    return candidates_of(Active(job, 0, seconds, job.work), CLUSTER, 0.0, 0.0).ladders[0]


def test_the_cheapest_that_ends_in_time_is_promised_just_before_the_deadline() -> None:
    found = Room(10.0, 8, ()).latest(ladder(), 110.0, WAITING)
    assert found == Promise((30.0, 110.0), (0, 1))


def test_a_job_in_a_hurry_gets_more() -> None:
    found = Room(0.0, 8, ()).latest(ladder(), 30.0, WAITING)
    assert found is not None
    assert found.units == (0, 4)
    assert found.ends == pytest.approx((30.0 - 80.0 / 4**0.8, 30.0))


def test_what_was_promised_before_is_left_alone() -> None:
    taken = Promise((50.0, 110.0), (0, 8))
    found = Room(0.0, 8, [taken]).latest(ladder(), 110.0, WAITING)
    assert found is not None
    assert found.ends[-2:] == (50.0, 110.0)
    assert found.units[-1] == 0
    assert Room(60.0, 8, [taken]).latest(ladder(), 110.0, WAITING) is None


def test_every_start_within_a_promise_takes_a_restart() -> None:
    between = Promise((60.0, 70.0), (0, 8))
    found = Room(0.0, 8, [between]).latest(ladder(), 110.0, StartCost(5.0, -1, 5.0))
    assert found == Promise((60.0 - 5.0 - 80.0 + 35.0, 60.0, 70.0, 110.0), (0, 1, 0, 1))


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(
    st.lists(st.tuples(st.floats(0, 200), st.floats(1, 100), st.integers(1, 4)), max_size=8),
    st.floats(20, 300),
    st.sampled_from([0.0, 3.0]),
)
def test_a_promise_is_enough_and_never_takes_what_is_not_free(
    others: list[tuple[float, float, int]], until: float, restart: float
) -> None:
    room = Room(0.0, 8, ())
    for begin, lasts, units in others:
        promise = Promise((begin, begin + lasts), (0, units))
        starts, free = room.stretches()
        ends = np.append(starts[1:], np.inf)
        if (free[(starts < begin + lasts) & (ends > begin)] >= units).all():
            room.take(promise)
    steps = ladder()
    found = room.latest(steps, until, StartCost(restart, -1, restart))
    if found is None:
        return
    room.take(found)
    assert (room.stretches()[1] >= 0).all()
    done, before, held = 0.0, 0.0, 0
    for end, units in zip(found.ends, found.units, strict=True):
        if units:
            lost = restart if units != held else 0.0
            done += (end - before - lost) / steps.sure[steps.row(units)]
        before, held = end, units
    assert done >= 1.0 - 1e-6


def test_as_a_job_gets_on_its_promise_begins_later() -> None:
    promise = Promise((30.0, 110.0), (0, 1))
    assert trimmed(promise, ladder(50.0), 20.0, StartCost(0.0, 0, 0.0)) == Promise((60.0, 110.0), (0, 1))
    assert trimmed(promise, ladder(80.0), 40.0, WAITING) is None


def test_who_has_begun_goes_on_in_less_if_that_is_enough() -> None:
    promise = Promise((30.0, 110.0), (0, 4))
    steps = ladder(60.0)
    assert trimmed(promise, steps, 50.0, StartCost(5.0, 0, 0.0)) == Promise((50.0, 110.0), (0, 1))


def test_a_promise_tells_what_it_holds_and_when_that_changes() -> None:
    promise = Promise((10.0, 20.0, 40.0), (0, 4, 2))
    assert [held_at(promise, now) for now in (0.0, 10.0, 25.0, 40.05, 41.0)] == [0, 4, 2, 2, 0]
    assert next_change(promise, 0.0, 0, exactly=False) == 10.0
    assert next_change(promise, 0.0, 4, exactly=False) == np.inf
    assert next_change(promise, 0.0, 4, exactly=True) == 20.0
