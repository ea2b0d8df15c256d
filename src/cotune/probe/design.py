"""Which configs of a job to try next.

Time is measured by short probes, always of the config whose seconds would tell the most of all
others' (`probe/gain.py`). Accuracy depends on the global batch alone, so a few global batches
(smallest, largest, in between) are trained further, each on its quickest layout, and share what is
left of the budget. A config that failed is not tried again, nor is a batch tried that is expected not
to fit: a program is started with its smallest batch, and the memory that its probes take tells how far
to go (`predict/memory.py`). After an out-of-memory no larger batch is tried; smaller ones are then
tried from below, each at most twice the largest that did fit.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from cotune import progress
from cotune.layouts import layout_law
from cotune.plan.rates import rates
from cotune.predict.learning.schedules import falling
from cotune.predict.memory import MemoryLaw
from cotune.predict.samples import failing
from cotune.probe.gain import ProbeGain
from cotune.space import Configs, Space
from cotune.types import Cluster, Config, Floats, Goal, Job, Mask, ProgressUnit, Sample

TIME_STEPS = 30
MOST_TIME_EPOCHS = 2.0
CURVES = 4
GROWTH = 2  # how much larger a batch is tried than the largest that fits, once memory has run out
_FIRST_SHARE, _FEWEST = 0.2, 3  # of the most epochs, for a first annealed curve, and epochs of it at least
ENOUGH_LONGER = 1.5  # a curve is trained again when the budget lets it go this much further


@dataclass(frozen=True, slots=True)
class Probe:
    """A config worth measuring: for its seconds or its learning curve, for how many epochs, and why."""

    config: Config
    epochs: float
    reason: str
    curve: bool = False
    length: int | None = None  # epochs that it is told to train, where it is not the beginning of a longest run

    @classmethod
    def of_pace(cls, job: Job, config: Config, epochs: float, why: str = "") -> Probe:
        """Return a probe of how fast a config is, which is told in what the job counts."""
        return cls(config, epochs, f"seconds per {progress.each(job)} of {config}{why}")


def first_length(job: Job, goal: Goal, samples: Sequence[Sample]) -> int | None:
    """Return how long a first learning curve is told to be: annealed to its end where the rate falls to that."""
    if falling(job, samples) is None:
        return None
    return progress.whole_units(job, max(min(_FEWEST, goal.max_epochs), round(_FIRST_SHARE * goal.max_epochs)))


class Chooser(Protocol):
    """What chooses the probes of a profile."""

    @property
    def job(self) -> Job: ...
    @property
    def goal(self) -> Goal: ...

    def next(self, samples: Sequence[Sample], left: int, seen: Collection[int] = ()) -> Probe | None:
        """Return what to measure next with so many starts left, or None when nothing is worth it."""
        ...

    def remaining(self, samples: Sequence[Sample]) -> int:
        """Return how many probes would still be worth having, at most."""
        ...

    def share(self, probe: Probe, seconds: float, samples: Sequence[Sample], seen: Collection[int]) -> float | None:
        """Return how many of the seconds left a probe may take, or None when that would show too little."""
        ...


@dataclass(frozen=True)
class Design:
    """What is worth measuring of a job, given what was measured."""

    job: Job
    goal: Goal
    space: Space
    cluster: Cluster
    law: bool = True  # whether the law of all seconds is wanted, or only those around what is measured

    @cached_property
    def _configs(self) -> Configs:
        return self.space.configs()

    @cached_property
    def _runnable(self) -> Mask:
        """Return which configs the cluster holds."""
        return self._configs.valid & np.isfinite(rates(self._configs, self.cluster))

    @cached_property
    def _gain(self) -> ProbeGain:
        return ProbeGain(self._configs, self.cluster.devices[0].per_node, self.law)

    def next(self, samples: Sequence[Sample], left: int, seen: Collection[int] = ()) -> Probe | None:
        """Return what to measure next with so many starts left, or None when nothing is worth it.

        `seen` are global batches whose curve had its share of the budget.
        """
        curves = [batch for batch in self.curves(samples) if batch not in seen]
        if left > len(curves) and self._begun(samples) and (config := self.unstarted(samples)) is not None:
            return Probe.of_pace(self.job, config, self.time_epochs(config), ", a value never started so")
        if left > len(curves) and (config := self.most_telling(samples)) is not None:
            return Probe.of_pace(self.job, config, self.time_epochs(config))
        if curves:
            config = self._quickest(curves[0], samples)
            reason = f"learning curve at global batch {config.global_batch}"
            length = first_length(self.job, self.goal, samples)
            return Probe(config, float(length or self.goal.max_epochs), reason, curve=True, length=length)
        return None

    def remaining(self, samples: Sequence[Sample]) -> int:
        """Return how many probes would still be worth having."""
        return int(np.count_nonzero(self._open(samples))) + len(self.curves(samples))

    def curves(self, samples: Sequence[Sample]) -> list[int]:
        """Return the global batches whose learning curve is still wanted, the middle ones first."""
        if self.space.global_batch is not None or (self.goal.epochs is not None and self.goal.target is None):
            return []
        batches = np.unique(self._configs.global_batch[self.able(samples)])
        if len(batches) == 0:
            return []
        levels = np.geomspace(batches[0], batches[-1], min(CURVES, len(batches)))
        wanted = list(dict.fromkeys(int(batches[np.argmin(np.abs(np.log(batches / level)))]) for level in levels))
        most = first_length(self.job, self.goal, samples) or self.goal.max_epochs
        trained = {sample.config.global_batch for sample in samples if self._trained(sample, most)}
        return [batch for batch in (*wanted[1:-1], *wanted[:1], *wanted[1:][-1:]) if batch not in trained]

    def share(self, probe: Probe, seconds: float, samples: Sequence[Sample], seen: Collection[int]) -> float | None:
        """Return how many of the seconds left a probe may take: curves share them, if that is enough."""
        if not probe.curve:
            return seconds
        part = seconds / len([other for other in self.curves(samples) if other not in seen])
        return part if self.worth(probe.config.global_batch, part, samples) else None

    def worth(self, global_batch: int, seconds: float, samples: Sequence[Sample]) -> bool:
        """Return whether so many seconds would show much more of a curve than is known."""
        known = [s for s in samples if s.config.global_batch == global_batch and s.curve and s.epoch_seconds]
        longest = max((sample.curve[-1].epoch for sample in known), default=0.0)
        quickest = min((sample.epoch_seconds or np.inf for sample in known), default=0.0)
        return longest <= MOST_TIME_EPOCHS or seconds >= ENOUGH_LONGER * longest * quickest

    def _trained(self, sample: Sample, most: int) -> bool:
        """Return whether a sample met the target, or went on for as long as a curve should."""
        if sample.failed or not sample.curve:
            return False
        return self.job.reached(self.goal.target, sample) or sample.curve[-1].epoch >= most

    def time_epochs(self, config: Config) -> float:
        """Return the epochs of a probe of seconds: thirty steps."""
        if self.job.examples is None:
            return self.job.counting.parts
        most = MOST_TIME_EPOCHS if self.job.counting == ProgressUnit() else self.goal.max_epochs
        return min(most, TIME_STEPS * config.global_batch / self.job.examples)

    def _mask(self, samples: Sequence[Sample]) -> Mask:
        """Return which configs of the space these samples are of."""
        mask = np.zeros(len(self.space), dtype=bool)
        rows = [self.space.row(sample.config) for sample in samples]
        mask[[row for row in rows if row is not None]] = True
        return mask

    def able(self, samples: Sequence[Sample]) -> Mask:
        """Return which configs can run as far as is known."""
        failed = failing(samples)
        able = self._runnable & ~self._mask(failed)
        for sample in failed:
            if sample.out_of_memory:
                able &= ~self._configs.at_least(sample.config)
            if sample.apart:
                able &= self._configs.workers == 1
        memory = MemoryLaw.of(self.job, samples)
        able &= ~memory.too_large(self._configs) | memory.worth_a_try(self._configs, GROWTH)
        return np.asarray(able & ~memory.may_hang(self._configs))

    def _open(self, samples: Sequence[Sample]) -> Mask:
        """Return which configs can run and have no measured seconds."""
        return self.able(samples) & ~self._mask([s for s in samples if s.tells_pace])

    def _within_reach(self, samples: Sequence[Sample]) -> Mask:
        """Return which batches are worth a try now: the smallest while nothing has run, any later.

        Once memory has run out, up to twice the largest that did fit.
        """
        reach = np.ones(len(self.space), dtype=bool)
        if self.job.command and not any(sample.tells_pace for sample in samples):
            reach = self._configs.batch_size <= self._smallest(self._open(samples))
        for device in {sample.config.device for sample in failing(samples) if sample.out_of_memory}:
            here = self._configs.device == device
            fitted = [s.config.batch_size for s in samples if s.config.device == device and s.tells_pace]
            most = GROWTH * max(fitted) if fitted else self._smallest(here & self.able(samples))
            reach &= ~here | (self._configs.batch_size <= most)
        return reach

    def _smallest(self, among: Mask) -> int:
        return int(self._configs.batch_size[among].min()) if among.any() else 0

    def most_telling(
        self, samples: Sequence[Sample], among: Mask | None = None, prices: Floats | None = None
    ) -> Config | None:
        """Return the open config whose seconds would tell the most of all others', for its price where that counts."""
        wanted = self._open(samples) & self._within_reach(samples)
        closed = ~wanted if among is None else ~(wanted & among)
        if closed.all():
            return None
        if self.job.large is not None:
            model = layout_law().fit_seconds(self.job, [one for one in samples if one.tells_pace])
            return self._configs[int(model.worth_measuring(self._configs, 1, ~closed)[0])]
        measured = self._mask([sample for sample in samples if sample.tells_pace])
        told = self._gain.gains(np.flatnonzero(measured))
        gains = np.where(closed, -np.inf, told if prices is None else np.where(told > 0, told / prices, told))
        return self._configs[int(np.argmax(gains))]

    def _begun(self, samples: Sequence[Sample]) -> bool:
        """Return whether something has run, so that memory tells how far to go."""
        return any(sample.tells_pace for sample in samples)

    def unstarted(self, samples: Sequence[Sample], prices: Floats | None = None) -> Config | None:
        """Return a config with a value of a named axis that was not yet started with its smallest batch, or largest.

        What differs in kind (a number format, a compiler) is not to be had from its neighbours, and its ratio to
        them depends on the batch: between the two ends it can be told, beyond them it cannot.
        """
        sizes = self._configs.batch_size
        ran = self._mask([sample for sample in samples if sample.tells_pace])
        within = self.able(samples) & (self._within_reach(samples) | ran)
        for column in self._configs.named.values():
            values = list(dict.fromkeys(column.tolist()))
            if len(values) < 2 or all(type(value) in (int, float) for value in values):
                continue
            for value, end in itertools.product(values, (np.min, np.max)):
                own = np.array([one == value for one in column.tolist()]) & within
                at_end = own & (sizes == end(sizes[own])) if own.any() else own
                if own.any() and not (at_end & ran).any():
                    return self.most_telling(samples, at_end, prices)
        return None

    def _quickest(self, global_batch: int, samples: Sequence[Sample]) -> Config:
        """Return the quickest measured layout of a global batch, else the one with the most workers."""
        rows = np.flatnonzero((self._configs.global_batch == global_batch) & self.able(samples))
        measured = {sample.config: sample.epoch_seconds for sample in samples if sample.epoch_seconds is not None}
        layouts = [self._configs[int(row)] for row in rows]
        return min(layouts, key=lambda config: (measured.get(config, np.inf), -config.workers))
