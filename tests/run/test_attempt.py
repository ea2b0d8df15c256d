from __future__ import annotations

import os
from collections import deque
from dataclasses import replace
from pathlib import Path

import pytest

from cotune.identity import timestamp
from cotune.run.attempt import Growing, StopRule, attempt
from cotune.run.launch import Ended, Launch
from cotune.types import Config, Job, Sample
from run.clockwork import Clockwork, Printing, quick_epochs

CONFIG = Config.data_parallel(16, 2)
ALL = StopRule()


@pytest.fixture(autouse=True)
def nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """Count no processes of this machine: a clock that jumps would have it done thousands of times."""
    monkeypatch.setattr("cotune.run.load._others", lambda *_: 0)


def last(
    engine: Clockwork,
    until: StopRule = ALL,
    *,
    epochs: int = 5,
    target: float | None = None,
    pattern: str | None = None,
) -> Sample:
    launch = Launch("a", Job("made-up", pattern=pattern), CONFIG, epochs, Path("nowhere"), target)
    return list(attempt(engine, launch, until, Sample(CONFIG, id="a")))[-1]


def test_engine_start_up_training_and_evaluation_are_told_apart() -> None:
    sample = last(Clockwork())
    assert sample.epoch_seconds == pytest.approx(10.0)
    assert sample.terms.engine == pytest.approx(2.0)
    assert sample.terms.startup == pytest.approx(3.0)
    assert sample.terms.evaluation == pytest.approx(1.0)
    assert sample.seconds == pytest.approx(2 + 3 + 5 * 11)
    assert [point.epoch for point in sample.curve] == [1, 2, 3, 4, 5]
    assert sample.ended
    assert sample.failure is None


def test_a_probe_stops_as_soon_as_enough_epochs_were_seen() -> None:
    sample = last(Clockwork(), StopRule(epochs=0.5))
    assert sample.epochs == pytest.approx(0.5)
    assert sample.epoch_seconds == pytest.approx(10.0)
    assert sample.failure is None


def test_a_job_that_is_read_goes_on_until_its_lines_tell_the_pace_of_quick_epochs() -> None:
    """Two epochs of 10 ms were over at one look, and start-up was told as their time."""
    sample = last(quick_epochs(), StopRule(epochs=2), epochs=200, pattern="epoch")
    assert sample.epoch_seconds == pytest.approx(0.01, rel=0.3)
    assert sample.terms.startup == pytest.approx(3.0, rel=0.1)
    assert sample.epochs < 100
    assert sample.warning is None
    slow = Printing(evaluation=0.0)
    assert last(slow, StopRule(epochs=2), epochs=200, pattern="epoch").epochs == 2


def test_a_start_whose_lines_were_all_read_at_once_says_so() -> None:
    sample = last(quick_epochs(), StopRule(epochs=2), epochs=2, pattern="epoch")
    assert sample.warning == "all its 2 reports were read at once, so start-up counts as training"


def test_a_run_has_time_to_finish_after_its_last_epoch() -> None:
    engine = Clockwork()
    last(engine, StopRule(epochs=2, grace=60.0), epochs=3)
    assert engine.stops == {"a": 60.0}


@pytest.mark.parametrize(("pattern", "seconds"), [(None, 60.0), ("epoch", 2.5)])
def test_a_job_that_cannot_be_asked_for_a_checkpoint_is_stopped_early_in_its_next_epoch(
    pattern: str | None, seconds: float
) -> None:
    engine = Clockwork()
    last(engine, StopRule(epochs=1, grace=60.0), pattern=pattern)
    assert engine.stops == {"a": pytest.approx(seconds)}


@pytest.mark.parametrize(("until", "seconds"), [(StopRule(1, 100, grace=30), 30), (StopRule(9, 20, grace=30), 2)])
def test_the_time_to_come_to_an_end_is_part_of_the_budget(until: StopRule, seconds: float) -> None:
    engine = Clockwork()
    last(engine, until, epochs=9)
    assert engine.stops == {"a": seconds}
    assert engine.now() + seconds <= (until.budget or 0.0) + 0.5


def test_a_start_that_tells_its_pace_only_after_the_budget_ran_out_is_a_good_one() -> None:
    class Finishing(Clockwork):
        """Jobs that use the grace they are given to come to their end."""

        def stop(self, launch: str, grace: float = 5.0) -> None:
            self.stops[launch] = grace

    engine = Finishing()
    late = last(engine, StopRule(budget=3.0), epochs=2)
    assert engine.stops, "it had not said a word when its time was over"
    assert (late.failure, late.epochs) == (None, 2)


def test_running_out_of_budget_is_no_fault_of_the_config() -> None:
    cut_short = last(Clockwork(silent=True), StopRule(budget=30))
    assert not cut_short.failed
    assert str(cut_short.failure).endswith("no result within 30 s, its share of the budget for measuring")
    assert last(Clockwork(), StopRule(budget=30)).failure is None


@pytest.mark.parametrize("until", [StopRule(timeout=30), StopRule(silence=30)])
def test_a_job_that_says_nothing_is_timed_out(until: StopRule) -> None:
    sample = last(Clockwork(silent=True), until)
    assert sample.failed
    assert "timed out" in str(sample.failure)


def test_a_start_that_ends_early_by_itself_or_falls_silent_says_so() -> None:
    class Brief(Clockwork):
        """Jobs that end after two epochs, whatever they are told."""

        def start(self, launch: Launch) -> None:
            super().start(replace(launch, epochs=2))

    class Hanging(Brief):
        """Jobs that say no more after two epochs."""

        def start(self, launch: Launch) -> None:
            super().start(launch)
            self.coming.pop()

    assert last(Brief(), epochs=2).warning is None
    assert last(Brief(), epochs=5).warning == "ended by itself after 2 of 5 epochs"
    assert last(Clockwork(), StopRule(budget=200), epochs=30).warning is None
    assert "does it hang?" in (last(Hanging(), StopRule(budget=200), epochs=5).warning or "")


def test_the_time_before_a_job_s_code_runs_is_no_silence_of_the_job() -> None:
    class Queueing(Clockwork):
        """A cluster whose queue is longer than any job's silence."""

        def start(self, launch: Launch) -> None:
            self.time += 1000.0
            super().start(launch)
            self.time -= 1000.0

    assert last(Queueing(), StopRule(silence=30)).failure is None


def test_a_resumed_start_counts_its_pace_from_where_it_began() -> None:
    launch = Launch("a", Job("made-up"), CONFIG, 3, Path("nowhere"))
    sample = list(attempt(Clockwork(), launch, StopRule(), Sample(CONFIG, id="a", epochs=0.0, resumed_from="b")))[-1]
    assert sample.terms.startup == pytest.approx(3.0)


def test_what_a_job_saves_at_its_end_takes_as_long_as_it_takes_and_is_told_of() -> None:
    class Saving(Clockwork):
        """Jobs that are silent for two minutes after their last word."""

        def start(self, launch: Launch) -> None:
            super().start(launch)
            *said, ended = self.coming
            self.coming = deque([*said, replace(ended, at=ended.at + 120.0)])

        def stop(self, launch: str, grace: float = 5.0) -> None:  # it ends once it has saved
            self.stops[launch] = grace

    launch = Launch("a", Job("made-up"), CONFIG, 30, Path("nowhere"), target=0.3)
    samples = list(attempt(Saving(), launch, StopRule(silence=20.0), Sample(CONFIG, id="a")))
    assert samples[-1].failure is None
    lingering = [sample for sample in samples if sample.accuracy == 0.3 and not sample.ended]
    assert len(lingering) > 10
    assert lingering[-1].seconds > lingering[0].seconds + 100
    whole = replace(launch, target=None, epochs=5)
    *_, done = attempt(Saving(), whole, StopRule(epochs=5.0, grace=600.0), Sample(CONFIG, id="a"))
    assert done.epochs == 5
    assert "hang" not in (done.warning or "")


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("metrics.jsonl", "`log: metrics.jsonl` in the job file, with a pattern of its lines, reads it"),
        ("runs/a/events.out.tfevents.1", "`log: {tensorboard: runs/a}` in the job file reads it"),
        ("lightning_logs/version_0/metrics.csv", "`log: {lightning: lightning_logs/version_0}` in the job file"),
        (".cotune/runs/rank-0.jsonl", None),
        ("notes.md", None),
    ],
)
def test_a_start_that_only_wrote_a_log_is_told_how_to_name_it(written: str, said: str | None, tmp_path: Path) -> None:
    launch = Launch("a", Job("made-up", folder=str(tmp_path)), CONFIG, 5, Path("nowhere"))
    (tmp_path / "old.csv").touch()
    os.utime(tmp_path / "old.csv", (0, 0))
    begin = Sample(CONFIG, id="a", started=timestamp())
    (tmp_path / written).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / written).touch()
    growing = Growing(launch, 0.0, begin)
    failure = str(growing.finish(Ended("a", 1.0, "done"), None).failure)
    assert "name the log that it writes (`log:` in the job file)" in failure
    assert (said or "") in failure
    assert ("it wrote a log" in failure) == (said is not None)


def test_a_budget_that_counts_once_the_engine_is_up_is_the_job_s_own() -> None:
    """The engine takes 2 s to come up, the job 3 s more to begin, and a second later it tells its pace."""
    with_engine, without = (last(Clockwork(), StopRule(budget=5.5, once_up=once_up)) for once_up in (False, True))
    assert with_engine.epoch_seconds is None
    assert without.epoch_seconds == pytest.approx(10.0)
    assert without.seconds > 5.5
    assert with_engine.terms.engine == without.terms.engine == pytest.approx(2.0), "told by one that told nothing else"
    hangs = last(Clockwork(silent=True), StopRule(budget=5.5, once_up=True))
    assert hangs.seconds < 2.0 + 5.5 + 1.0
