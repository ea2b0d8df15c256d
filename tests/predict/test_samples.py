"""Which samples say something of their config."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cotune.predict.samples import informative, timed
from cotune.types import Cause, Config, Evaluation, Failure, Sample, Terms

RAN = Sample(Config(1, 32), epochs=1, epoch_seconds=2.0)


def failed(cause: Cause) -> Sample:
    return Sample(Config(2, 64), failure=Failure("it ended", cause))


def test_a_failure_before_the_job_ever_ran_says_nothing_of_its_config() -> None:
    before, after = failed(Cause.JOB), failed(Cause.JOB)
    assert informative([before, RAN, after]) == (RAN, after)
    assert informative([before]) == ()


def test_a_lack_of_memory_always_says_something() -> None:
    assert informative([failed(Cause.MEMORY)]) == (failed(Cause.MEMORY),)


def test_a_start_that_nobody_could_read_never_does() -> None:
    assert informative([RAN, failed(Cause.UNHEARD)]) == (RAN,)


def _start(batch_size: int, epochs: float, pace: float, start_up: float) -> Sample:
    """Return a start that was evaluated every other epoch."""
    curve = tuple(Evaluation(epoch, 0.5, epoch) for epoch in np.arange(2.0, epochs + 1, 2.0).tolist())
    terms = Terms(engine=0.1, startup=start_up)
    return Sample(Config.data_parallel(batch_size, 1), epochs, pace, 0.5, curve=curve, terms=terms)


def test_one_report_holds_the_start_up_which_other_starts_tell() -> None:
    """A script that evaluates every other epoch was told three times its seconds, and goals it had met were refused."""
    whole, once = _start(64, 18, 0.5, 2.4), _start(64, 2, 1.7, 0.0)
    other = _start(128, 2, 1.6, 0.0)
    assert timed([whole, once]) == [whole]
    assert [sample.epoch_seconds for sample in timed([whole, other])] == [0.5, pytest.approx(0.4)]
    assert timed([once, other]) == [once, other]
    assert timed([whole, _start(128, 2, 1.2, 0.0)])[1].epoch_seconds == pytest.approx(0.24)


def _quick(batch_size: int, pace: float, start_up: float, seconds: list[float]) -> Sample:
    """Return a start whose lines were read at these seconds, one an epoch."""
    curve = tuple(Evaluation(epoch, 0.5, at) for epoch, at in enumerate(seconds, 1))
    terms = Terms(engine=0.02, startup=start_up)
    return Sample(Config.data_parallel(batch_size, 1), len(seconds), pace, 0.5, curve=curve, terms=terms)


def test_lines_that_were_read_at_once_tell_no_pace_where_another_start_does() -> None:
    """Batch 64 was told 0.84 s an epoch: the mean of its learning curve's 0.0114 and of a start-up as two epochs."""
    curve = _quick(64, 0.0114, 3.34, [3.37, 3.37, 3.41, 3.44])
    once = _quick(64, 1.67, 0.0, [3.358, 3.358])
    other = _quick(128, 1.64, 0.0, [3.3, 3.3])
    assert timed([once, curve, other]) == [curve]
    assert timed([once, other]) == [once, other]
    slow = _quick(128, 20.0, 0.0, [3600.0] * 180)  # what was printed in an hour came at its end
    (_, less) = timed([curve, slow])
    assert less.epoch_seconds == pytest.approx(20.0 - 3.34 / 180)


def test_a_start_whose_lines_were_apart_outweighs_brief_ones_of_its_config() -> None:
    brief, long = _quick(64, 0.02, 3.1, [3.14, 3.16]), _quick(64, 0.009, 3.1, [3.1, 3.8])
    elsewhere = _quick(32, 0.02, 3.1, [3.14, 3.16])
    assert timed([brief, long, elsewhere]) == [long, elsewhere]


def test_workers_that_never_met_say_that_even_before_anything_else_ran_and_nothing_more() -> None:
    met = Sample(Config.data_parallel(16, 4), epochs=2, epoch_seconds=1.0, accuracy=0.7, warning="4 workers never met")
    copies = replace(met, curve=(Evaluation(2, 0.7, 2.0),), purpose="run", copies=True)
    (told,) = informative([copies])
    assert (told.epoch_seconds, told.accuracy, told.curve) == (None, None, ())
    assert told.failure == Failure("4 workers never met", Cause.APART)
    assert informative([met]) == (met,)
