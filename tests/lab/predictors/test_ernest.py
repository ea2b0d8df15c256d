"""Ernest's coefficients are the best there are, and its design is what its authors' would be."""

from __future__ import annotations

import csv
import itertools
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import lsq_linear

from cotune.lab.predictors.ernest import WORTH_RUNNING, design, fit, terms, worth_running
from cotune.types import Floats

PUBLISHED = {16: 16.4412832993, 32: 12.4735312069, 48: 11.4279763052, 64: 11.040126181}  # by its authors


def _rcv1() -> tuple[Floats, Floats]:
    if "COTUNE_DATA" not in os.environ:
        pytest.skip("needs COTUNE_DATA")
    with (Path(os.environ["COTUNE_DATA"]) / "ernest_rcv1" / "train.csv").open() as file:
        rows = [[float(row[name]) for name in ("cores", "input_fraction", "seconds")] for row in csv.DictReader(file)]
    cores, fraction, seconds = np.array(rows).T
    return terms(fraction, cores), seconds


def _best_by_trying_all(rows: Floats, seconds: Floats) -> float:
    """The least squared error over every set of coefficients that may differ from zero: no bounded solver involved."""
    best = float(seconds @ seconds)
    for count in range(1, rows.shape[1] + 1):
        for chosen in itertools.combinations(range(rows.shape[1]), count):
            coefficients = np.linalg.lstsq(rows[:, chosen], seconds, rcond=None)[0]
            if (coefficients >= 0).all():
                best = min(best, float(((rows[:, chosen] @ coefficients - seconds) ** 2).sum()))
    return best


def test_the_fit_of_the_authors_runs_is_optimal_by_two_other_ways() -> None:
    rows, seconds = _rcv1()
    coefficients = fit(rows, seconds)
    error = float(((rows @ coefficients - seconds) ** 2).sum())
    assert (coefficients >= 0).all()
    assert error == pytest.approx(_best_by_trying_all(rows, seconds), rel=1e-9)
    bounded = lsq_linear(rows, seconds, bounds=(0, np.inf), method="bvls", tol=1e-15)
    np.testing.assert_allclose(coefficients, bounded.x, rtol=1e-9, atol=1e-9)


def test_the_predictions_of_its_authors_come_out_again() -> None:
    coefficients = fit(*_rcv1())
    cores = np.array(list(PUBLISHED), dtype=np.float64)
    np.testing.assert_allclose(terms(np.ones(4), cores) @ coefficients, list(PUBLISHED.values()), rtol=1e-10)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000))
def test_no_letters_fit_better(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = terms(rng.uniform(0.01, 1, 8), rng.integers(1, 32, 8).astype(np.float64))
    seconds = rng.uniform(1, 100, 8)
    error = float(((rows @ fit(rows, seconds) - seconds) ** 2).sum())
    assert error == pytest.approx(_best_by_trying_all(rows, seconds), rel=1e-9)


def _candidates(parts: int = 20, machines: int = 8) -> tuple[Floats, Floats]:
    """What its authors' command for RCV1 chooses from: inputs of 4 to 32 of 256 parts, 1 to 8 machines of 4 cores."""
    pairs = [
        (share, count)
        for share in np.linspace(4 / 256, 32 / 256, parts)
        for count in range(1, machines + 1)
        if round(share * 256) >= 4 * count
    ]
    share, count = np.array(pairs).T
    return terms(share, count), share / (4 / 256) / count


def test_a_design_within_its_budget_cannot_be_bettered() -> None:
    rows, costs = _candidates()
    weights = design(rows, costs, 20.0)
    assert costs @ weights <= 20 * (1 + 1e-6)
    features = rows / rows.mean(axis=0)
    inverse = np.linalg.inv((features * weights[:, None]).T @ features)
    gain = ((features @ inverse) ** 2).sum(axis=1)  # what one more of each candidate would take off the variance
    # The bound that convexity gives: the best reply to these gains is a fractional knapsack.
    order, left, reply = np.argsort(-gain / costs), 20.0, np.zeros(len(costs))
    for place in order:
        reply[place] = min(1.0, left / costs[place])
        left -= reply[place] * costs[place]
    gap = float(gain @ (reply - weights))
    assert gap <= 1e-3 * float(np.trace(inverse))


def test_the_design_begins_with_the_runs_its_authors_made() -> None:
    rows, costs = _candidates()
    weights = design(rows, costs, 20.0)
    chosen = worth_running(weights)
    assert (weights[chosen] > WORTH_RUNNING).all()
    runs = {(round(float(rows[place, 3])), round(float(rows[place, 1] * rows[place, 3]), 6)) for place in chosen}
    assert {(8, 0.125), (1, 0.015625), (1, 0.021382)} <= runs


def test_enough_budget_runs_everything_and_too_few_candidates_are_refused() -> None:
    rows, costs = _candidates(parts=3, machines=3)
    np.testing.assert_array_equal(design(rows, costs, 1e6), np.ones(len(rows)))
    with pytest.raises(ValueError, match="cannot tell 4 terms apart"):
        design(rows[:3], costs[:3], 1.0)
