"""The recorded engine: probes and runs cost what the rules say, and tell what was recorded."""

from __future__ import annotations

from pathlib import Path

import pytest

from cotune.recording import read
from cotune.run.attempt import StopRule, attempt
from cotune.run.engines.recorded import Recorded, Replay
from cotune.run.launch import Ended, Launch, Reported, Started
from cotune.run.supervise import Move, supervise
from cotune.types import Config, Sample
from recording.folders import recording


@pytest.fixture
def engine(tmp_path: Path) -> Recorded:
    return Recorded(recording(tmp_path / "small"))


def launch(engine: Recorded, config: Config, epochs: int, **more: object) -> Launch:
    job = read(Path(engine.folder)).job
    return Launch("one", job, config, epochs, Path("one"), **more)  # type: ignore[arg-type]


def start(engine: Recorded, config: Config, epochs: int, until: float | None = None, **more: object) -> Sample:
    *_, last = attempt(engine, launch(engine, config, epochs, **more), StopRule(until), Sample(config, id="one"))
    return last


ONE = Config.data_parallel(10, 1, "t4")  # 80 s an epoch, thirty steps are 0.25 epochs
FOUR = Config.data_parallel(40, 4, "t4")  # 10 s an epoch, thirty steps are 4 epochs


def test_a_probe_costs_workers_times_seconds_times_its_epochs(engine: Recorded) -> None:
    sample = start(engine, ONE, 1, until=0.5, probe_epochs=0.5)
    assert (sample.epochs, sample.epoch_seconds, sample.seconds) == (0.5, pytest.approx(80), pytest.approx(40))
    assert sample.device_seconds == pytest.approx(1 * 80 * 0.5)


def test_a_probe_pays_for_thirty_steps_at_least(engine: Recorded) -> None:
    short = start(engine, ONE, 1, until=0.01, probe_epochs=0.01)
    assert short.device_seconds == pytest.approx(1 * 80 * 30 * 10 / 1200)
    long = start(engine, FOUR, 1, until=1.0, probe_epochs=1.0)
    assert long.device_seconds == pytest.approx(4 * 10 * 30 * 160 / 1200)
    run = start(engine, FOUR, 1)
    assert run.device_seconds == pytest.approx(4 * 10)


def test_a_run_stops_at_the_first_whole_epoch_that_meets_the_target(engine: Recorded) -> None:
    sample = start(engine, ONE, 3, target=0.35)
    assert (sample.epochs, sample.accuracy, sample.seconds) == (2.0, pytest.approx(0.4), pytest.approx(160))
    assert [point.epoch for point in sample.curve] == [1.0, 2.0]


def test_a_config_that_was_not_recorded_fails(engine: Recorded) -> None:
    sample = start(engine, Config.data_parallel(80, 1, "t4"), 1)
    assert sample.failed
    assert "not recorded" in str(sample.failure)


def test_the_clock_jumps_and_events_come_in_order(engine: Recorded) -> None:
    engine.start(launch(engine, ONE, 2))
    events = [engine.wait(0.5) for _ in range(6)]
    assert isinstance(events[0], Started)
    assert [event.epoch for event in events if isinstance(event, Reported)] == [0.0, 0.25, 1.0, 2.0]
    assert isinstance(events[-1], Ended)
    assert engine.now() == pytest.approx(160)
    assert engine.wait(5.0) is None


def test_a_budget_is_never_exceeded_and_blames_no_config(tmp_path: Path) -> None:
    engine = Recorded(recording(tmp_path / "small"), budget=100.0)
    first = start(engine, ONE, 3)
    assert first.device_seconds == pytest.approx(100)
    assert first.epochs == pytest.approx(1.25)
    second = start(engine, ONE, 3)
    assert second.device_seconds == 0
    assert not second.failed
    assert "budget" in str(second.failure)


def test_a_run_goes_on_where_the_start_before_it_ended(engine: Recorded) -> None:
    start(engine, ONE, 2)
    begun = engine.now()
    engine.start(launch(engine, ONE, 3, resume=True, trained=2.0))
    events = [engine.wait(1.0) for _ in range(5)]
    told = [event.epoch for event in events if isinstance(event, Reported) and event.accuracy is not None]
    assert told == [3.0]
    assert isinstance(events[-1], Ended)
    assert engine.now() - begun == pytest.approx(80)


@pytest.mark.parametrize("config", [ONE, FOUR, Config.data_parallel(20, 2, "t4")])
@pytest.mark.parametrize("epochs", [1, 3])
def test_the_whole_start_at_once_is_what_attempt_sees(engine: Recorded, config: Config, epochs: int) -> None:
    replay = engine.replay(config, 0)
    assert isinstance(replay, Replay)
    quick = replay.sample(float(epochs), "one")
    slow = start(engine, config, epochs, probe_epochs=float(epochs))
    assert quick.seconds == pytest.approx(slow.seconds)
    assert quick.epoch_seconds == pytest.approx(slow.epoch_seconds)
    assert [(p.epoch, p.accuracy) for p in quick.curve] == [(p.epoch, p.accuracy) for p in slow.curve]


def test_a_replayed_probe_is_not_blamed_for_reporting_once(engine: Recorded) -> None:
    assert start(engine, ONE, 1, probe_epochs=0.25).warning is None


# 0.8 after 5 epochs of batch 10 (80 s each on one worker), and after 8 of batch 160 (10 s each on four).
WHOLE = (
    "global_batch,epoch,accuracy\n10,1,0.2\n10,2,0.4\n10,3,0.6\n10,4,0.7\n10,5,0.8\n"
    "160,1,0.1\n160,2,0.2\n160,3,0.3\n160,4,0.4\n160,5,0.5\n160,6,0.6\n160,7,0.7\n160,8,0.8\n"
)


def moved(folder: Path, first: Config, then: Config, epochs: float) -> list[Sample]:
    """Return the starts of a run for 0.8 that changes its config after so many epochs."""
    engine = Recorded(recording(folder, accuracy=WHOLE))
    change = lambda sample: Move(then, "to see") if sample.config == first and sample.epochs == epochs else None  # noqa: E731
    begun = launch(engine, first, 8, target=0.8)
    found = supervise(engine, begun, StopRule(8), Sample(first, id="one", engine="recorded"), change=change)
    return list({moment.sample.id: moment.sample for moment in found}.values())


def test_a_run_that_moves_lands_by_rule_six_and_pays_for_it_on_all_workers(tmp_path: Path) -> None:
    first, then = moved(tmp_path / "one", ONE, FOUR, 2.0)
    assert (first.epochs, first.accuracy, first.seconds) == (2.0, pytest.approx(0.4), pytest.approx(160))
    # The large batch has 0.4 after 4 epochs, but two fifths of its way of 8 are 3.2. Moving takes a tenth of an epoch.
    assert (then.epochs, then.accuracy, then.seconds) == (8.0, pytest.approx(0.8), pytest.approx(1 + (8 - 3.2) * 10))
    assert (then.resumed_from, then.terms.engine) == (first.id, pytest.approx(1.0))
    assert [point.epoch for point in then.curve] == [4.0, 5.0, 6.0, 7.0, 8.0]


def test_another_layout_of_the_same_batch_resumes_where_the_run_was(tmp_path: Path) -> None:
    wide, narrow = Config.data_parallel(40, 1, "t4"), Config.data_parallel(10, 4, "t4")
    _, then = moved(tmp_path / "one", wide, narrow, 1.0)
    assert then.curve[0].epoch == 2.0


def test_a_run_ends_at_the_deadline_of_its_engine(tmp_path: Path) -> None:
    engine = Recorded(recording(tmp_path / "one", accuracy=WHOLE), deadline=200.0)
    sample = start(engine, ONE, 8, target=0.8)
    assert (sample.seconds, sample.epochs, sample.failure) == (pytest.approx(200.0), pytest.approx(2.5), None)


def test_a_run_for_a_target_ends_where_its_curve_ends(tmp_path: Path) -> None:
    engine = Recorded(recording(tmp_path / "one", accuracy=WHOLE))
    assert start(engine, FOUR, 12, target=0.9).epochs == 8.0
