"""Examples to a target, as a line in the batch."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from cotune.lab.predictors.samples_to_target import SamplesToTarget, line
from cotune.space import Configs
from cotune.types import Config, Evaluation, Sample
from predict.worlds import JOB


@settings(max_examples=30, deadline=None)
@given(st.floats(1e3, 1e8), st.floats(0.1, 1e4))
def test_a_line_of_examples_to_a_target_is_found_again(a: float, c: float) -> None:
    batches = np.array([64.0, 256.0, 1024.0])
    np.testing.assert_allclose(line(batches, a + c * batches)(np.array([4096.0])), a + c * 4096, rtol=1e-6)


def test_accuracy_of_a_batch_between_two_follows_the_lines_of_every_level() -> None:
    def sample(batch: int) -> Sample:
        pace = 2 + batch / 256  # epochs to a tenth of accuracy
        curve = tuple(Evaluation(e, min(0.9, e / pace / 10), 0.0) for e in range(1, 31))
        return Sample(Config.data_parallel(batch, 1), 30.0, curve=curve)

    model = SamplesToTarget().fit_accuracy(JOB, [sample(64), sample(512)])
    found = model.predict(Configs.of([Config.data_parallel(256, 1)]), np.array([6.0, 15.0]))[0]
    np.testing.assert_allclose(found, [0.2, 0.5], atol=0.02)
