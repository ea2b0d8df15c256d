"""What every engine promises: real launches whose events come in order, stop when told, and leave nothing."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path
from typing import Any

from cotune.run.launch import Ended, Event, Launch, Reported, Started
from cotune.types import Cause, Config, Job

PATIENCE = 120.0
_TRAINS = """
    import cotune, os
    assert os.environ["WORLD_SIZE"] == "2", os.environ["WORLD_SIZE"]
    for epoch in range(1, 4):
        if cotune.report(epoch=epoch, accuracy=epoch / 10):
            break
"""
_CRASHES = """
    import cotune
    cotune.report(epoch=1, accuracy=0.1)
    raise SystemExit("no such luck")
"""
_WAITS = """
    import cotune, time
    epoch = 0
    while not cotune.report(epoch=(epoch := epoch + 1), accuracy=0.1):
        time.sleep(0.02)
"""


class EngineConformance:
    """Give a fixture `engine` that yields an engine with room for two workers, and closes it."""

    def test_a_launch_is_started_reported_and_ended_in_order(self, engine: Any, tmp_path: Path) -> None:
        events = played(engine, launch_of(tmp_path, _TRAINS, workers=2, epochs=3))
        assert isinstance(events[0], Started)
        reports = [event for event in events if isinstance(event, Reported) and event.accuracy is not None]
        assert [report.epoch for report in reports] == [1, 2, 3]
        ended = events[-1]
        assert isinstance(ended, Ended)
        assert (ended.outcome, ended.failure) == ("done", None)
        assert [report.at for report in reports] == sorted(report.at for report in reports)

    def test_a_crash_after_a_report_is_a_failure_with_its_reason(self, engine: Any, tmp_path: Path) -> None:
        ended = played(engine, launch_of(tmp_path, _CRASHES))[-1]
        assert isinstance(ended, Ended)
        assert ended.outcome == "failed"
        assert ended.failure is not None
        assert ended.failure.cause == Cause.JOB

    def test_a_launch_that_is_told_to_stop_stops(self, engine: Any, tmp_path: Path) -> None:
        launch = launch_of(tmp_path, _WAITS, epochs=1000)
        told: list[str] = []

        def stop(event: Event) -> None:
            if isinstance(event, Reported) and not told:
                told.append(event.launch)
                engine.stop(event.launch, 30.0)

        ended = played(engine, launch, stop)[-1]
        assert isinstance(ended, Ended)
        assert ended.outcome == "stopped"

    def test_time_goes_forward_and_waiting_ends(self, engine: Any) -> None:
        before = engine.now()
        assert engine.wait(0.05) is None
        assert engine.now() >= before


def launch_of(folder: Path, script: str, *, workers: int = 1, epochs: int = 1) -> Launch:
    """Return a launch of a script given as text."""
    (folder / "train.py").write_text(textwrap.dedent(script))
    job = Job("conformance", command=(sys.executable, "train.py"), folder=str(folder))
    return Launch("launch", job, Config.data_parallel(4, workers), epochs, folder / "runs" / "launch")


def played(engine: Any, launch: Launch, each: Any = lambda _: None) -> list[Event]:
    """Start a launch, and return its events up to its end."""
    engine.start(launch)
    events: list[Event] = []
    while not (events and isinstance(events[-1], Ended)):
        event = engine.wait(PATIENCE)
        assert event is not None, f"nothing happened for {PATIENCE} s after {events}"
        events.append(event)
        each(event)
    return events
