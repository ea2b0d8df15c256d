"""What is believed of the way to a target, before a run and while it trains."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cotune.predict.way import FIXED_RATE, Leg, Way, renewed, usual_ways
from cotune.types import Floats

BATCHES = np.array([32.0, 64.0, 256.0, 1024.0])


def median_epochs(found: Way, column: int) -> float:
    order = np.argsort(found.whole[:, column])
    total = np.cumsum(found.weights[order])
    return float(found.whole[order, column][np.searchsorted(total, 0.5)])


def gaps(whole: float, epochs: Floats, power: float = 0.6) -> Floats:
    """The gap of a power law that is closed after `whole` epochs."""
    values = (epochs / whole + 0.05) ** -power - 1.05**-power
    return np.asarray(0.3 * values / values.max())


@pytest.mark.parametrize("whole", [12.0, 25.0, 60.0])
def test_half_of_a_smooth_curve_tells_how_long_the_way_is(whole: float) -> None:
    epochs = np.arange(1.0, whole // 2 + 1)
    leg = Leg(1, float(epochs[-1]), tuple(zip(epochs.tolist(), gaps(whole, epochs).tolist(), strict=True)))
    found = renewed(usual_ways(100, BATCHES), [leg])
    assert median_epochs(found, 1) == pytest.approx(whole, rel=0.4)
    far = Leg(1, float(epochs[-1]) + 1, leg.evaluations)
    assert float(renewed(usual_ways(100, BATCHES), [far]).left.min()) >= 0


def test_larger_batches_are_expected_to_take_no_fewer_epochs() -> None:
    found = usual_ways(30, BATCHES)
    assert np.all(np.diff(found.whole, axis=1) >= 0)
    assert median_epochs(found, 0) < median_epochs(found, 3)


def test_a_config_that_takes_more_epochs_than_allowed_never_gets_there() -> None:
    found = usual_ways(10, BATCHES)
    assert np.isinf(found.left[found.whole > 10]).all()
    assert np.isfinite(found.left[found.whole <= 10]).all()


def test_a_target_that_is_overdue_may_take_as_long_again_as_it_has() -> None:
    found = Way(np.array([[10.0, 20.0]]), np.ones(1), np.zeros(1), 30)
    assert renewed(found, [Leg(0, 14.0)]).left[0].tolist() == pytest.approx([4.0, 8.0])


def test_a_change_of_batch_keeps_the_share_of_the_way() -> None:
    found = Way(np.array([[10.0, 20.0]]), np.ones(1), np.zeros(1), 30)
    after = renewed(found, [Leg(0, 5.0), Leg(1, 5.0)])
    assert after.done[0] == pytest.approx(0.75)
    assert after.left[0].tolist() == pytest.approx([2.5, 5.0])


@settings(max_examples=50)
@given(st.lists(st.floats(-0.25, 2.0, width=32), min_size=1, max_size=40), st.integers(1, 200))
def test_whatever_is_evaluated_the_weights_are_those_of_a_probability(values: list[float], most: int) -> None:
    leg = Leg(2, float(len(values)), tuple((float(place + 1), value) for place, value in enumerate(values)))
    found = renewed(usual_ways(most, BATCHES), [leg])
    assert float(found.weights.sum()) == pytest.approx(1.0)
    assert np.all(found.weights >= 0)


def test_at_a_fixed_rate_large_batches_are_expected_to_take_longer_the_less_data_there_is() -> None:
    usual, rich, poor = (
        usual_ways(30, BATCHES),
        usual_ways(30, BATCHES, FIXED_RATE, 1_000_000),
        usual_ways(30, BATCHES, FIXED_RATE, 10_000),
    )
    slower = [median_epochs(found, 3) / median_epochs(found, 0) for found in (usual, rich, poor)]
    assert slower[2] > 2 * slower[0]
    assert slower[1] < slower[2]


def test_at_a_fixed_rate_the_largest_batch_stands_for_examples_that_are_not_known() -> None:
    found = usual_ways(30, BATCHES, FIXED_RATE)
    alike = usual_ways(30, BATCHES, replace(FIXED_RATE, by_examples=False), 10_000)
    assert found.whole == pytest.approx(alike.whole)
