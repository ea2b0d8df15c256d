"""The time probes of a live run that measures itself: a handful of short starts, and then it begins."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from cotune.probe.design import MOST_TIME_EPOCHS, Probe
from cotune.probe.self_measuring import SelfMeasuring
from cotune.types import Config, Goal, Job, Sample

SHARE = 0.2  # of the deadline that all probes together may take


@dataclass(frozen=True)
class SelfTiming:
    """Chooses what to time as `SelfMeasuring` does; what was known before is not its own."""

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
        config = self.brain.next_probe(own, sum(sample.seconds for sample in own)) if left else None
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
