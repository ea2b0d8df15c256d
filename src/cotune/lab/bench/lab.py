"""The lab of a benchmark: measuring is replaying a recording, and every start is booked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from cotune.checkpoints import Resumable, joined, trained
from cotune.forecast import Forecaster
from cotune.lab.bench.truth import Truth
from cotune.lab.strategy import Decision
from cotune.plan.rates import rates
from cotune.predict import ACCURACY, SECONDS
from cotune.predict.learn import forecaster
from cotune.probe.active import design_for
from cotune.recording import Recording
from cotune.run.engines.recorded import Recorded, Replay
from cotune.space import Configs, Space
from cotune.types import Cluster, Config, Floats, Goal, Job, Sample

Profiles = dict[tuple[Space, tuple[Sample, ...]], tuple[Sample, ...]]  # what a profile of a space found, and before it


@dataclass
class RecordedLab:
    """A lab on one half of a recording; the other half is the truth.

    Labs for one goal may share `profiles`: the same profile is replayed once, and charged to each of them.
    `known` are samples of an earlier time, when the job was seen for another goal: they
    were paid for then. Curves go on from theirs, but a run's reuse counts only what is new.
    """

    seen: Recording
    truth: Truth
    goal: Goal
    max_samples: int = 16
    seed: int = 0
    profiles: Profiles = field(default_factory=dict)
    known: tuple[Sample, ...] = ()
    samples: list[Sample] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._engine = Recorded(recording=self.seen, seed=self.seed)

    @property
    def job(self) -> Job:
        return self.seen.job

    @property
    def cluster(self) -> Cluster:
        return self.seen.cluster

    @property
    def space(self) -> Space:
        return self.truth.space

    def train(
        self,
        config: Config,
        epochs: float,
        seconds: float | None = None,
        *,
        on: bool = False,
        before: Sample | None = None,
    ) -> Sample:
        number = len(self.known) + len(self.samples)
        seed, begin = (number + 1, 0.0) if before is None else (before.seed or 0, trained(before))
        replay = self._engine.replay(config, seed, begin)
        assert isinstance(replay, Replay), replay  # the space holds only what was recorded
        last = max(begin, epochs if seconds is None else min(epochs, seconds / replay.epoch_seconds))
        met = None if on else replay.first_meeting(self.goal.target, self.job.sign, last)
        sample = replay.sample(last if met is None else met, f"probe {number + 1}")
        sample = replace(sample, seed=seed, resumed_from=before.id if before else None)
        self.samples.append(sample)
        return sample

    def profile(self, space: Space) -> Sequence[Sample]:
        key = (space, tuple(self.samples))
        if key in self.profiles:
            self.samples[:] = self.profiles[key]
            return joined(self._all)
        design = design_for(self.job, self.goal, space, self.cluster)
        seen: set[int] = set()
        while len(self.samples) < self.max_samples:
            probe = design.next(joined(self._all), self.max_samples - len(self.samples), seen)
            if probe is None:
                break
            if probe.curve:
                seen.add(probe.config.global_batch)
            before = Resumable.among(self._all).of(probe.config) if probe.curve else None
            self.train(probe.config, probe.epochs, before=before)
        self.profiles[key] = tuple(self.samples)
        return joined(self._all)

    @property
    def _all(self) -> list[Sample]:
        return [*self.known, *self.samples]

    def forecaster(self, samples: Sequence[Sample], predictor: str = SECONDS, accuracy: str = ACCURACY) -> Forecaster:
        several = len({sample.config for sample in samples}) > 1
        law = predictor if several else SECONDS  # one config says nothing of any law
        return forecaster(self.job, samples, self.cluster, predictor=law, accuracy=accuracy, seed=self.seed)

    def hindsight(self) -> Decision:
        best = self.truth.best(self.goal)
        if best is None:
            return Decision(None, 0, "nothing meets the goal")
        return Decision(self.truth.configs[best], self.goal.max_epochs, "the cheapest by the truth")

    def spent(self) -> float:
        """Return what measuring cost so far, in the unit of costs."""
        return cost_of(self.samples, self.cluster)

    def reused(self, decision: Decision) -> float:
        """Return the part of it that trained the chosen recipe, and is continued by the run."""
        if decision.config is None:
            return 0.0
        probe = Resumable.among(self.samples).of(decision.config)
        return cost_of([probe], self.cluster) if probe else 0.0

    def trained(self, configs: Configs) -> Floats:
        return Resumable.among(self.samples).epochs(self.job, self.goal, configs)


def cost_of(samples: Sequence[Sample], cluster: Cluster) -> float:
    """Return what some starts cost together."""
    if not samples:
        return 0.0
    rate = rates(Configs.of([sample.config for sample in samples]), cluster)
    return float(np.dot(rate, [sample.seconds for sample in samples]))
