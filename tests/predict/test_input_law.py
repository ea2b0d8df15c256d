"""What a loop waits for its data, from the waits of a few starts."""

from __future__ import annotations

import pytest

from cotune.predict.input_law import InputLaw
from cotune.types import Config, Job, Sample, Terms

JOB = Job("reading", examples=1000)


def started(batch: int, wait: float, busy: float, workers: int = 1) -> Sample:
    """A start whose steps wait and work for so many seconds."""
    steps = 1000 / (batch * workers)
    config = Config.data_parallel(batch, workers)
    return Sample(config, 1.0, steps * (wait + busy), terms=Terms(input=steps * wait))


def test_loading_in_line_grows_with_the_batch() -> None:
    law = InputLaw.of(JOB, [started(b, 0.002 * b, 0.01 + 0.001 * b) for b in (10, 20, 40)])
    assert law is not None
    assert (law.how, law.per_example) == ("in line", pytest.approx(0.002))
    assert law.epoch(JOB, [Config.data_parallel(80, 2)])[0] == pytest.approx(0.002 * 80 * 1000 / 160)


def test_a_loader_ahead_is_waited_for_only_beyond_the_step() -> None:
    def wait(b: int) -> float:
        return max(0.0, 0.004 * b - (0.06 + 0.001 * b))

    law = InputLaw.of(JOB, [started(b, wait(b), 0.06 + 0.001 * b) for b in (30, 40, 80)])
    assert law is not None
    assert law.how == "ahead"
    assert law.epoch(JOB, [Config.data_parallel(160, 1)])[0] == pytest.approx(wait(160) * 1000 / 160, rel=0.02)
    assert law.epoch(JOB, [Config.data_parallel(10, 1)])[0] == 0


def test_without_waits_there_is_no_law_and_little_waiting_is_none() -> None:
    assert InputLaw.of(JOB, [Sample(Config.data_parallel(10, 1), 1.0, 3.0)]) is None
    law = InputLaw.of(JOB, [started(10, 1e-5, 0.1)])
    assert law is not None
    assert law.epoch(JOB, [Config.data_parallel(99, 1)])[0] == 0
