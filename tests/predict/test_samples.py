"""Which samples say something of their config."""

from __future__ import annotations

from cotune.predict.samples import informative
from cotune.types import Cause, Config, Failure, Sample

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
