"""A training replayed within one account: time probes, epochs and moves, all paid for by one run.

Probes cost by rule 5 of replay, epochs what they take, moves by rule 6. A run is evaluated after each whole epoch, and
stops at the first that meets the target, at the deadline, or where its curve ends. Curves rise (sign applied).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from cotune.errors import NotFound
from cotune.recording import Recording
from cotune.recording.moving import accuracy_after, landing, move_seconds
from cotune.run.engines.recorded import Recorded, Replay
from cotune.types import RECORDED, Config, Evaluation, Floats, Goal, Sample


@dataclass(frozen=True, slots=True)
class ReplayedMove:
    """A change of config on the way."""

    at_seconds: float
    epoch: float  # of the curve that was left
    source: Config
    target: Config
    lands: float  # epoch of the curve that is gone on with
    seconds: float
    reason: str


@dataclass
class ReplayedTraining:
    """One run of a recording: what it has spent, where it is, and what it has shown so far."""

    recording: Recording  # what is trained on
    goal: Goal
    seed: int = 0
    probed: Recording | None = None  # what time probes see, where that differs
    seconds: float = 0.0
    device_seconds: float = 0.0
    measuring_device_seconds: float = 0.0
    epoch: float = 0.0  # of the present curve
    ended: bool = False
    moves: list[ReplayedMove] = field(default_factory=list)
    probes: list[Sample] = field(default_factory=list)
    starts: list[Sample] = field(default_factory=list)  # the last one is under way
    _curve: Floats = field(default_factory=lambda: np.empty(0), init=False)

    def __post_init__(self) -> None:
        self._trained = Recorded(recording=self.recording, seed=self.seed)
        self._measured = Recorded(recording=self.probed or self.recording, seed=self.seed)

    @property
    def config(self) -> Config | None:
        """Return the config that is trained with, once training has begun."""
        return self.starts[-1].config if self.starts else None

    @property
    def samples(self) -> list[Sample]:
        """Return all that was measured so far: probes, and every start of the run."""
        return [*self.probes, *self.starts]

    @property
    def met(self) -> bool:
        """Return whether the target was met in time (or all epochs were trained, where no target is asked)."""
        in_time = self.goal.deadline is None or self.seconds <= self.goal.deadline * (1 + 1e-9)
        if self.goal.target is None:
            return in_time and self.epoch >= self.goal.cap
        return in_time and bool(self.starts) and self.recording.job.meets(self.goal.target, self.starts[-1].accuracy)

    def probe(self, config: Config) -> Sample:
        """Time thirty steps of a config; nothing of them is trained on."""
        replay = _replay(self._measured, config, self.seed + 1 + len(self.probes))
        sample = replace(replay.sample(replay.least, f"probe {len(self.probes) + 1}"), curve=(), accuracy=None)
        self.probes.append(sample)
        self.seconds += sample.seconds
        self.device_seconds += sample.device_seconds
        self.measuring_device_seconds += sample.device_seconds
        return sample

    def begin(self, config: Config) -> None:
        """Start to train."""
        replay = _replay(self._trained, config, self.seed)
        self._curve = self.recording.job.sign * replay.accuracy
        self.starts.append(Sample(config, epoch_seconds=None, purpose="run", id="start 1", engine=RECORDED))
        self._pace = replay.epoch_seconds

    def move(self, config: Config, reason: str) -> None:
        """Go on with another config, by rule 6."""
        before = self.starts[-1]
        replay = _replay(self._trained, config, self.seed)
        curve, there = self.recording.job.sign * replay.accuracy, self.epoch
        if self.recording.job.recipe(config) != self.recording.job.recipe(before.config):
            level = None if self.goal.target is None else self.recording.job.sign * self.goal.target
            there = landing(self._curve, curve, self.epoch, level)
        taken = move_seconds(self.recording, replay.epoch_seconds)
        self.moves.append(ReplayedMove(self.seconds, self.epoch, before.config, config, there, taken, reason))
        self.epoch, self._curve, self._pace = there, curve, replay.epoch_seconds
        name = f"start {len(self.starts) + 1}"
        self.starts.append(
            Sample(config, epochs=there, purpose="run", id=name, engine=RECORDED, resumed_from=before.id)
        )
        self._spend(taken)

    def train(self, at_most: float = np.inf) -> None:
        """Train to the next evaluation, so many epochs at most, or to what ends the run before it."""
        assert not self.ended
        whole = float(int(self.epoch + 1e-9) + 1)
        upto = min(whole, self.epoch + at_most)
        last = min(self.goal.cap, len(self._curve)) if self.goal.target is not None else self.goal.cap
        if upto > last:
            self.ended = True
            return
        allowed = np.inf if self.goal.deadline is None else (self.goal.deadline - self.seconds) / self._pace
        if upto - self.epoch > allowed + 1e-9:  # the deadline comes first
            self._trained_to(self.epoch + max(0.0, allowed))
            self.ended = True
            return
        self._trained_to(upto)
        value = accuracy_after(self._curve, upto) if upto == whole else None
        if value is not None:
            now, accuracy = self.starts[-1], self.recording.job.sign * value
            point = Evaluation(upto, accuracy, now.seconds)
            self.starts[-1] = replace(now, curve=(*now.curve, point), accuracy=accuracy)
        self.ended = self.met or upto >= self.goal.cap

    def _trained_to(self, epoch: float) -> None:
        taken = (epoch - self.epoch) * self._pace
        self.epoch = epoch
        self.starts[-1] = replace(self.starts[-1], epochs=epoch, epoch_seconds=self._pace)
        self._spend(taken)

    def _spend(self, seconds: float) -> None:
        now = self.starts[-1]
        self.starts[-1] = replace(now, seconds=now.seconds + seconds)
        self.seconds += seconds
        self.device_seconds += seconds * now.config.units


def _replay(engine: Recorded, config: Config, seed: int) -> Replay:
    replay = engine.replay(config, seed)
    if not isinstance(replay, Replay):
        raise NotFound(str(replay))
    return replay
