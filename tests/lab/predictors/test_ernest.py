"""Ernest's coefficients are the best there are, and its predictions those of its authors."""

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

from cotune.lab.predictors.ernest import fit, terms
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
