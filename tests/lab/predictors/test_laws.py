"""The laws of time find their own coefficients again."""

from __future__ import annotations

import numpy as np
import pytest

from cotune.lab.predictors.pollux import Pollux
from cotune.lab.predictors.ring import Ring
from cotune.space import Configs
from cotune.types import Config, Job, Sample
from predict.worlds import EXAMPLES, JOB, grid, plain_step, timed

UNSEEN = [(24, 3), (48, 5), (96, 6), (200, 16), (256, 12)]


def _ring_step(batch: int, workers: int) -> float:
    nodes = -(-workers // 4)
    local = workers / nodes
    return 0.01 + 0.0005 * batch + 0.02 * (local - 1) / local + 0.08 * (nodes - 1) / nodes


def _pollux_step(batch: int, workers: int) -> float:
    compute = 0.02 + 0.001 * batch
    if workers == 1:
        return compute
    first, growth = (0.03, 0.001) if workers <= 4 else (0.09, 0.004)
    network = first + growth * (workers - 2)
    return float((compute**2 + network**2) ** 0.5)


def _accumulated_ring(accumulate: int) -> list[Sample]:
    return [
        Sample(
            Config.data_parallel(batch, workers, accumulate=accumulate),
            epoch_seconds=EXAMPLES
            / (batch * workers * accumulate)
            * (accumulate * (0.01 + 0.0005 * batch) + 0.02 * (workers - 1) / workers),
        )
        for batch, workers in grid()
    ]


@pytest.mark.parametrize(
    ("law", "step", "tolerance"),
    [
        (Ring(per_node=4), _ring_step, 0.002),
        (Pollux(per_node=4), _pollux_step, 0.02),
    ],
    ids=["ring", "pollux"],
)
def test_a_law_recovers_itself_from_noiseless_samples(law: Ring, step: object, tolerance: float) -> None:
    truth = timed(step, UNSEEN)  # type: ignore[arg-type]
    model = law.fit_seconds(JOB, timed(step, grid(workers=(1, 2, 3, 4, 8, 12))))  # type: ignore[arg-type]
    predicted = model.predict(Configs.of([sample.config for sample in truth]))
    np.testing.assert_allclose(predicted, [sample.epoch_seconds for sample in truth], rtol=tolerance)


def test_the_ring_law_reads_its_letters_from_four_designed_samples() -> None:
    model = Ring(per_node=4).fit_seconds(JOB, timed(_ring_step, [(16, 1), (128, 1), (64, 4), (64, 8)]))
    np.testing.assert_allclose(model.coefficients, [0.01, 0.0005, 0.02, 0.08], rtol=0.01)


def test_accumulation_pays_for_compute_each_time_and_for_the_ring_once() -> None:
    model = Ring().fit_seconds(JOB, _accumulated_ring(1) + _accumulated_ring(2))
    unseen = _accumulated_ring(4)
    predicted = model.predict(Configs.of([sample.config for sample in unseen]))
    np.testing.assert_allclose(predicted, [sample.epoch_seconds for sample in unseen], rtol=0.002)


def test_one_batch_size_is_shared_out_between_step_and_example() -> None:
    model = Ring().fit_seconds(JOB, timed(plain_step, [(64, 1), (64, 2), (64, 4)]))
    a, c = model.coefficients[:2]
    assert a == pytest.approx(64 * c, rel=0.05)


def test_pollux_expects_nodes_never_seen_to_be_slower_than_one_node() -> None:
    model = Pollux(per_node=4).fit_seconds(JOB, timed(_pollux_step, grid(workers=(1, 2, 4))))
    assert model.coefficients[2] == pytest.approx(1.1 * model.coefficients[4])


def test_unknown_examples_change_nothing() -> None:
    samples, configs = timed(_ring_step, grid()), Configs.of([Config.data_parallel(*pair) for pair in UNSEEN])
    for law in (Ring(4), Pollux(4)):
        known = law.fit_seconds(JOB, samples).predict(configs)
        unknown = law.fit_seconds(Job("unknown"), samples).predict(configs)
        np.testing.assert_allclose(known, unknown, rtol=1e-6)
