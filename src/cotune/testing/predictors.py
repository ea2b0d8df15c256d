"""What every predictor promises: finite, positive, repeatable, and a refusal where samples say nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from cotune.predict import AccuracyPredictor, SecondsPredictor, TooFewSamples
from cotune.space import Axis, Space
from cotune.testing.worlds import JOB, grid, plain_step, timed, trained
from cotune.types import Cause, Failure, Floats, Sample

SPACE = Space((Axis("workers", (1, 2, 3, 8, 16)), Axis("batch_size", (1, 16, 48, 128, 512)))).configs()
EPOCHS = np.array([0.5, 1.0, 5.0, 40.0])


class PredictorConformance:
    """Name your predictor: `algorithm = Nearest()`. What it does not learn is not asked of it."""

    algorithm: Any

    def seconds(self, samples: Sequence[Sample]) -> Floats:
        """Return the seconds per epoch of many configs, learnt from samples."""
        predicted: Floats = self.algorithm.fit_seconds(JOB, samples).predict(SPACE)
        return predicted

    def test_it_learns_seconds_or_accuracy(self) -> None:
        assert isinstance(self.algorithm, SecondsPredictor | AccuracyPredictor), "offer fit_seconds or fit_accuracy"

    def test_seconds_are_positive_finite_and_repeatable(self) -> None:
        if not isinstance(self.algorithm, SecondsPredictor):
            return
        samples = timed(plain_step, grid(), noise=0.05)
        predicted = self.seconds(samples)
        assert predicted.shape == (len(SPACE),), "one number for each config"
        assert np.all(np.isfinite(predicted) & (predicted > 0))
        np.testing.assert_array_equal(predicted, self.seconds(samples))

    def test_samples_that_say_nothing_of_speed_are_refused(self) -> None:
        if not isinstance(self.algorithm, SecondsPredictor):
            return
        failed = [replace(one, failure=Failure("out of memory", Cause.MEMORY)) for one in timed(plain_step, grid())]
        for useless in ([], failed, [replace(failed[0], failure=None, epoch_seconds=None)]):
            assert _refuses(lambda samples=useless: self.seconds(samples)), "raise TooFewSamples"

    def test_more_samples_never_break_it(self) -> None:
        if not isinstance(self.algorithm, SecondsPredictor):
            return
        samples = timed(plain_step, grid(), noise=0.05)
        answers = [not _refuses(lambda most=count: self.seconds(samples[:most])) for count in range(1, 17)]
        assert answers[-1], "sixteen samples of sixteen configs are enough for anything"
        assert answers == sorted(answers), "it could do with fewer"

    def test_accuracy_is_finite_and_repeatable(self) -> None:
        if not isinstance(self.algorithm, AccuracyPredictor):
            return
        samples = trained([16, 64, 256, 1024], noise=0.005)
        predicted = self.algorithm.fit_accuracy(JOB, samples).predict(SPACE, EPOCHS)
        assert predicted.shape == (len(SPACE), len(EPOCHS)), "one row for each config, one column for each epoch"
        assert np.all(np.isfinite(predicted))
        again = self.algorithm.fit_accuracy(JOB, samples).predict(SPACE, EPOCHS)
        np.testing.assert_array_equal(predicted, again)

    def test_samples_without_accuracy_are_refused(self) -> None:
        if isinstance(self.algorithm, AccuracyPredictor):
            assert _refuses(lambda: self.algorithm.fit_accuracy(JOB, timed(plain_step, grid())))


def _refuses(fit: Any) -> bool:
    try:
        fit()
    except TooFewSamples:
        return True
    return False
