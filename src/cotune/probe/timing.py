"""What a run that measures itself times before it begins: a handful of short starts, thirty steps each.

The first is of the fewest workers; then come values of named axes that nothing timed has, the ends of the space, so
far as they cost little, and what the run would begin with. Where the first may take much of the deadline, the run
begins with it, so that nothing of it is lost; where it may take most, with what the deadline says. A live run begins
with it where its share of the deadline may be over before the script's imports are.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from cotune.plan.moving import Prospect
from cotune.predict.samples import timed
from cotune.probe.design import MOST_TIME_EPOCHS, Probe
from cotune.probe.self_measuring import SelfMeasuring
from cotune.space import Configs
from cotune.types import Config, Floats, Goal, Job, Mask, Sample, axes_of

SHARE = 0.2  # of the deadline that all probes together may take, once the engine is up
LEAST_SHARE = 4.0  # seconds: scripts that import torch and more took 0.6 to 3 s to begin on 2 cores, half as long again


def next_to_time(brain: SelfMeasuring, probes: Sequence[Sample], spent: float) -> Config | None:
    """Return what to time next after so many seconds: named values, ends, then what to begin with; or None."""
    known, configs, timing = [*brain.known, *probes], brain.configs, brain.constants.timing
    tried = {sample.config for sample in known}
    if not timed(known):
        return _first(brain, tried)
    if len(probes) >= timing.most:
        return None
    pace, prospect = brain.prospect(probes, (), spent, None)
    affordable, spare = _affordable(brain, pace, prospect), _spare(brain, pace, spent)
    if len({sample.config for sample in timed(known)}) == 1:
        affordable |= spare  # one config tells nothing of how the others scale
    row = int(np.argmin(prospect.score))
    for other in _untimed_values(configs, configs[row], tried):
        if spare[other]:
            return configs[other]
    for end in _ends(configs):
        if affordable[end] and configs[end] not in tried:
            return configs[end]
    if prospect.odds[row] < timing.hopeless and configs[row] in tried:
        row = int(np.argmin(pace))  # where all seem late, what is thought of the quickest may be wrong
    return configs[row] if spare[row] and configs[row] not in tried else None


def begun_untimed(brain: SelfMeasuring) -> Config | None:
    """Return what a run begins with and looks at on the way, where its thirty steps are too dear to be thrown away."""
    if timed(brain.known) or not brain.at_once:
        return None
    config = _first(brain, {sample.config for sample in brain.known})
    return None if config is None or _part(brain, brain.row(config)) <= brain.constants.timing.spare else config


def _first(brain: SelfMeasuring, failed: Collection[Config]) -> Config | None:
    """Return what is timed first: the fewest workers, at the largest batch whose thirty steps are a small part.

    Where that failed, smaller ones; None where thirty steps may take most of the deadline.
    """
    configs, epochs = brain.configs, brain.epochs_of_probes
    rows = np.flatnonzero(configs.units == configs.units.min())
    ordered = rows[np.argsort(configs.global_batch[rows], kind="stable")]
    part = brain.constants.timing.first * brain.prior.usual_epochs(brain.goal.cap)
    small = int((epochs[ordered] <= part).sum())
    first = max(0, min(small - 1, len(ordered) // 2))
    if brain.at_once and _part(brain, int(ordered[first])) > brain.constants.timing.presumed:
        return None
    downwards = (configs[int(row)] for row in ordered[first::-1])
    return next((config for config in downwards if config not in failed), None)


def _part(brain: SelfMeasuring, row: int) -> float:
    """Return the part of the deadline that thirty steps take, as far as that tells of a pace nobody has timed."""
    assert brain.goal.deadline is not None
    return float(brain.epochs_of_probes[row] * brain.presumed[0][row] / brain.goal.deadline)


def _ends(configs: Configs) -> tuple[int, int]:
    """Return the configs at the ends of the space: the most workers, and the largest batch of the fewest."""
    most = np.flatnonzero(configs.units == configs.units.max())
    few = np.flatnonzero(configs.units == configs.units.min())
    by_batch = most[np.argsort(configs.global_batch[most], kind="stable")]
    return int(by_batch[len(by_batch) // 2]), int(few[np.argmax(configs.global_batch[few])])


def _untimed_values(configs: Configs, like: Config, tried: Collection[Config]) -> Iterator[int]:
    """Yield configs as one of them, but with a value of a named axis that nothing tried has: of numbers the ends.

    What differs in kind is not to be had from its neighbours.
    """
    for name, column in configs.named.items():
        values = list(dict.fromkeys(column.tolist()))
        if all(type(value) in (int, float) for value in values):
            values = [min(values), max(values)]
        known = {dict(config.axes).get(name) for config in tried}
        for value in values:
            if value not in known:
                other = replace(like, axes=axes_of(dict(like.axes) | {name: value}))
                yield from np.flatnonzero(configs.same(other)).tolist()


def _spare(brain: SelfMeasuring, pace: Floats, spent: float) -> Mask:
    """Return which probes take little of the time that is left: what takes more is begun with, and timed then."""
    left = (np.inf if brain.goal.deadline is None else brain.goal.deadline) - spent
    return np.asarray(brain.epochs_of_probes * pace <= brain.constants.timing.spare * left)


def _affordable(brain: SelfMeasuring, pace: Floats, prospect: Prospect) -> Mask:
    """Return which probes cost little beside the run."""
    timing, seconds = brain.constants.timing, brain.epochs_of_probes * pace
    little = seconds * brain.rate <= timing.cost * prospect.cost[int(np.argmin(prospect.score))]
    return np.asarray(little & (seconds <= timing.seconds * (brain.goal.deadline or np.inf)))


@dataclass(frozen=True)
class SelfTiming:
    """Chooses the probes of a live run; what was known before is not its own."""

    brain: SelfMeasuring

    @property
    def job(self) -> Job:
        return self.brain.job

    @property
    def goal(self) -> Goal:
        return self.brain.goal

    def next(self, samples: Sequence[Sample], left: int, seen: Collection[int] = ()) -> Probe | None:  # noqa: ARG002
        """Return what to time next, or None to begin."""
        own = self._own(samples)
        config = next_to_time(self.brain, own, sum(sample.seconds for sample in own)) if left else None
        return None if config is None else Probe.of_pace(self.job, config, self._epochs(config))

    def remaining(self, samples: Sequence[Sample]) -> int:
        """Return how many more there may be."""
        return max(0, self.brain.constants.timing.most - len(self._own(samples)))

    def share(self, probe: Probe, seconds: float, samples: Sequence[Sample], seen: Collection[int]) -> float | None:  # noqa: ARG002
        """Return the seconds that are left: thirty steps are short, and end by themselves."""
        return seconds

    def _own(self, samples: Sequence[Sample]) -> list[Sample]:
        known = {sample.id for sample in self.brain.known}
        return [sample for sample in samples if sample.id not in known]

    def _epochs(self, config: Config) -> float:
        return min(self.brain.probe_epochs(config), MOST_TIME_EPOCHS) if self.job.examples else MOST_TIME_EPOCHS
