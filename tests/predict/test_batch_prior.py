"""What is expected of other batches depends on whether the learning rate follows them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cotune.plan.assess import assess
from cotune.predict.batch_prior import USUAL, batch_prior
from cotune.predict.learn import forecaster
from cotune.predict.predictors.curve import Curve
from cotune.space import Configs
from cotune.types import Cluster, Config, Floats, Goal, Job, ProgressUnit, RateScaling, Sample
from predict.worlds import JOB, trained

EPOCHS = np.array([1.0, 2.0, 4.0])
BATCHES = (16, 64, 256, 1024, 4096)
FEW = trained([64], epochs=20)


def epochs_to(target: float, samples: list[Sample], scaling: RateScaling, most: int = 200) -> Floats:
    """The median epochs of every batch to a target."""
    forecast = forecaster(replace(JOB, scaling=scaling), samples, Cluster())
    configs = Configs.of([Config.data_parallel(batch, 1) for batch in BATCHES])
    found = assess(forecast(configs, most), Goal(target, max_epochs=most), Cluster(), JOB.sign)
    return np.asarray(np.median(found.needed, axis=1))


def test_a_rate_that_is_scaled_or_not_known_changes_nothing() -> None:
    assert batch_prior(replace(JOB, scaling="scaled")) == batch_prior(JOB) == USUAL
    assert epochs_to(0.7, FEW, "scaled").tolist() == epochs_to(0.7, FEW, "unknown").tolist()


def test_at_a_fixed_rate_larger_batches_are_expected_to_take_more_epochs() -> None:
    usual, fixed = epochs_to(0.7, FEW, "unknown"), epochs_to(0.7, FEW, "fixed")
    assert fixed[1] == usual[1]  # what was measured
    assert np.all(fixed[2:] > usual[2:])


def test_what_was_measured_at_several_batches_counts_for_more_than_the_rule() -> None:
    samples = trained([16, 64, 256, 1024, 4096], epochs=30)
    assert epochs_to(0.7, samples, "fixed") == pytest.approx(epochs_to(0.7, samples, "unknown"), rel=0.15)


def test_the_more_steps_an_epoch_has_the_larger_the_batches_that_are_not_wasted() -> None:
    few, many = (batch_prior(Job("one", examples=count, scaling="fixed")) for count in (10_000, 1_000_000))
    assert many.critical_batch(64) == pytest.approx(10 * few.critical_batch(64))
    assert few.critical_batch(64) < USUAL.critical_batch(64)


def test_parts_of_an_epoch_are_counted_together_and_examples_need_not_be_known() -> None:
    whole = Job("one", examples=10_000, scaling="fixed")
    parts = replace(whole, examples=500, counting=ProgressUnit("steps", 20.0))
    assert batch_prior(parts) == batch_prior(whole)
    assert batch_prior(replace(whole, examples=None)).critical_batch(64) < USUAL.critical_batch(64)


def quickest(samples: list[Sample], batch: int, scaling: RateScaling) -> float:
    """The epochs that one run in ten of a batch needs at most to reach 0.7."""
    forecast = forecaster(replace(JOB, scaling=scaling), samples, Cluster())
    found = forecast(Configs.of([Config.data_parallel(batch, 1)]), 200)
    needed = assess(found, Goal(0.7, max_epochs=200), Cluster(), JOB.sign).needed[0]
    return float(np.quantile(needed, 0.1, method="higher"))


def test_at_a_fixed_rate_no_larger_batch_is_quicker_than_the_largest_that_was_trained() -> None:
    measured = quickest(FEW, 64, "fixed")
    assert quickest(FEW, 4096, "unknown") < measured
    assert quickest(FEW, 4096, "fixed") >= measured


def test_two_evaluations_tell_that_a_larger_batch_is_behind_and_more_so_at_a_fixed_rate() -> None:
    samples = trained([64], epochs=2)
    configs = Configs.of([Config.data_parallel(batch, 1) for batch in (64, 1024)])
    behind = {
        scaling: np.subtract(*Curve().fit_accuracy(replace(JOB, scaling=scaling), samples).predict(configs, EPOCHS))
        for scaling in ("unknown", "fixed")
    }
    assert np.all(behind["unknown"] > 0.02)
    assert np.all(behind["fixed"] >= behind["unknown"] - 1e-9)
