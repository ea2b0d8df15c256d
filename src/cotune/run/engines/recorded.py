"""A recording as an engine: measured truth replayed on a clock that jumps.

A start draws one repeat and one seed of what was recorded. It reports where it begins, after the thirty
steps that every probe pays for, after every whole epoch (with its accuracy where that is
known) and where a probe ends. It stops at the first whole epoch that meets the target, and a run with
a target where its curve ends. With a budget (device-seconds) what would go beyond it is cut off, as it
would be on a real cluster; with a deadline, what a run would train after that second of the clock.

A run that resumes in its folder with another config has moved: it lands and pays by rule 6 of replay.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path

import numpy as np

from cotune.recording import Recording, least_epochs, read
from cotune.recording.moving import landing, move_seconds
from cotune.run.launch import Ended, Event, Launch, Reported, Started
from cotune.types import RECORDED, Cause, Config, Evaluation, Failure, Floats, Sample

_ROUNDING = 1e-9  # epochs
_NO_BUDGET = Failure.interrupted("the budget for measuring ran out")


@dataclass(frozen=True, slots=True)
class Replay:
    """What one start of a config will show: its pace, and its accuracy after whole epochs."""

    config: Config
    epoch_seconds: float
    accuracy: Floats
    least: float  # epochs that a probe pays for in any case
    begin: float = 0.0  # epochs trained before, by a start that this one continues

    def seconds(self, epochs: float) -> float:
        """Return what a probe that ends after so many epochs takes (rule 5)."""
        return self.epoch_seconds * max(epochs - self.begin, self.least)

    def accuracy_at(self, epoch: float) -> float | None:
        """Return the accuracy at the end of a whole epoch, where it is known."""
        place = int(epoch) - 1
        if epoch != int(epoch) or not 0 <= place < len(self.accuracy) or np.isnan(self.accuracy[place]):
            return None
        return float(self.accuracy[place])

    def first_meeting(self, level: float | None, sign: int, last: float) -> float | None:
        """Return the first whole epoch, up to the last, whose accuracy meets the level (rule 4)."""
        if level is None:
            return None
        with np.errstate(invalid="ignore"):
            meets = np.flatnonzero(sign * self.accuracy >= sign * level) + 1
        later = meets[(meets > self.begin) & (meets <= last)]
        return float(later[0]) if len(later) else None

    def sample(self, end: float, name: str) -> Sample:
        """Return the whole start at once, as `attempt` would have seen it."""
        later = _evaluations(self.epoch_seconds, self.accuracy.tobytes(), self.begin)
        points = later[: int(np.isfinite(self.accuracy[int(self.begin) : int(end)]).sum())]
        return Sample(
            self.config,
            epochs=end,
            epoch_seconds=self.epoch_seconds,
            accuracy=points[-1].accuracy if points else None,
            curve=points,
            seconds=self.seconds(end),
            id=name,
            engine=RECORDED,
        )


@lru_cache(256)
def _evaluations(epoch_seconds: float, accuracy: bytes, begin: float) -> tuple[Evaluation, ...]:
    """Return all that a start would come to know; goals of one recording replay the same starts again and again."""
    known = enumerate(np.frombuffer(accuracy).tolist(), 1)
    return tuple(
        Evaluation(float(epoch), value, epoch_seconds * (epoch - begin))
        for epoch, value in known
        if epoch > int(begin) and math.isfinite(value)
    )


@dataclass
class Recorded:
    """Replay a recording: probes and runs cost what they did, and take no time."""

    folder: Path | str = "."
    budget: float | None = None
    seed: int = 0
    recording: Recording | None = None
    probed: Recording | None = None  # what probes see, where that differs
    deadline: float | None = None  # of runs, in seconds of the clock
    _now: float = field(default=0.0, init=False)
    _queue: list[tuple[float, int, Event]] = field(default_factory=list, init=False)
    _counter: int = field(default=0, init=False)
    _running: dict[str, tuple[float, float, int]] = field(default_factory=dict, init=False)  # begun, paid up to, units
    _runs: dict[Path, Config] = field(default_factory=dict, init=False)  # what the run in a folder was trained with

    def start(self, launch: Launch) -> None:
        probe, up = launch.probe_epochs is not None, self._now
        shown = self.probed if probe else None
        replay = self.replay(launch.config, launch.seed, launch.trained if launch.resume else 0.0, shown)
        if isinstance(replay, Failure):
            self._put(Ended(launch.id, self._now, "failed", replay))
            return
        if not probe:
            replay, up = self._moved(launch, replay)
        end, most = _end(launch, replay), self._affordable(replay)
        if most < replay.begin + replay.least:
            self._put(Ended(launch.id, self._now, "failed", _NO_BUDGET))
            return
        if not probe and self.deadline is not None:
            left = (self.deadline - up) / replay.epoch_seconds + _ROUNDING
            most = min(most, replay.begin + max(0.0, left))
        self._running[launch.id] = (
            self._now,
            up + (replay.seconds(replay.begin) if probe else 0.0),
            replay.config.units,
        )
        self._put(Started(launch.id, up))
        for event in _events(launch, replay, up, min(end, most)):
            self._put(event)

    def replay(
        self, config: Config, seed: int, begin: float = 0.0, recording: Recording | None = None
    ) -> Replay | Failure:
        """Return what a start with this seed will show, or why there is nothing to show."""
        shown = recording or self._known()
        rng = np.random.default_rng((self.seed, seed))
        pace = shown.draw_epoch_seconds(config, rng)
        if pace is None:
            there = f"{config} on {config.device} lies outside what {shown.name} recorded"
            return Failure(f"not recorded: {there}", Cause.NOT_RECORDED)
        accuracy = shown.draw_accuracy(config, rng)
        known = np.empty(0) if accuracy is None else accuracy
        return Replay(config, pace, known, least_epochs(config, shown.examples), begin)

    def _known(self) -> Recording:
        if self.recording is None:
            self.recording = read(Path(self.folder))
        return self.recording

    def _moved(self, launch: Launch, replay: Replay) -> tuple[Replay, float]:
        """Return where a run begins, and when: one that has had another config lands elsewhere and pays for it."""
        before = self._runs.get(launch.folder) if launch.resume else None
        self._runs[launch.folder] = launch.config
        if before is None or before == launch.config:
            return replay, self._now
        job, up = launch.job, self._now + move_seconds(self._known(), replay.epoch_seconds)
        left = self.replay(before, launch.seed)
        if job.recipe(before) == job.recipe(launch.config) or isinstance(left, Failure):
            return replay, up
        level = None if launch.target is None else job.sign * launch.target
        there = landing(job.sign * left.accuracy, job.sign * replay.accuracy, launch.trained, level)
        return replace(replay, begin=there), up

    def _affordable(self, replay: Replay) -> float:
        """Return up to which epoch the budget reaches."""
        if self.budget is None:
            return np.inf
        return replay.begin + self.budget / (replay.epoch_seconds * replay.config.units)

    def stop(self, launch: str, grace: float = 5.0) -> None:  # noqa: ARG002  # it ends at once
        if launch not in self._running:
            return
        _, paid, _ = self._running[launch]
        self._queue = [entry for entry in self._queue if entry[2].launch != launch]
        heapq.heapify(self._queue)
        self._put(Ended(launch, max(self._now, paid), "stopped"))

    def wait(self, timeout: float) -> Event | None:
        if not self._queue:
            self._now += timeout
            return None
        at, _, event = heapq.heappop(self._queue)
        self._now = max(self._now, at)
        if isinstance(event, Ended) and event.launch in self._running:
            begun, _, units = self._running.pop(event.launch)
            if self.budget is not None:
                self.budget = max(0.0, self.budget - (event.at - begun) * units)
        return event

    def now(self) -> float:
        return self._now

    def close(self) -> None:
        self._queue.clear()
        self._running.clear()

    def _put(self, event: Event) -> None:
        self._counter += 1
        heapq.heappush(self._queue, (event.at, self._counter, event))


def _end(launch: Launch, replay: Replay) -> float:
    """Return the epochs after which a start ends by itself."""
    last = float(launch.epochs) if launch.probe_epochs is None else min(launch.probe_epochs, launch.epochs)
    if launch.probe_epochs is None and launch.target is not None and len(replay.accuracy):
        last = min(last, len(replay.accuracy))
    met = replay.first_meeting(launch.target, launch.job.sign, last)
    return last if met is None else met


def _events(launch: Launch, replay: Replay, up: float, end: float) -> Iterator[Event]:
    """Yield the reports of one start, and its end."""
    yield Reported(launch.id, up, replay.begin, None)
    first = replay.begin + replay.least
    whole = [float(epoch) for epoch in range(int(replay.begin) + 1, int(end) + 1)]
    for epoch in sorted({first if first < end else end, end, *whole}):
        at = up + replay.epoch_seconds * (epoch - replay.begin)
        yield Reported(launch.id, at, epoch, replay.accuracy_at(epoch))
    taken = replay.epoch_seconds * (end - replay.begin) if launch.probe_epochs is None else replay.seconds(end)
    yield Ended(launch.id, up + taken, "done" if end >= _end(launch, replay) else "stopped")
