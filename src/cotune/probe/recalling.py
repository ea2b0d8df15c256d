"""Choosing probes with what jobs like this one showed before in mind."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from cotune.predict.history import History, is_timed
from cotune.probe.design import Chooser, Probe
from cotune.types import Goal, Job, Sample


@dataclass(frozen=True)
class Recalling:
    """Chooses probes as another chooser does, with old samples beside the own ones once the pace here is known."""

    chooser: Chooser
    history: History

    @property
    def job(self) -> Job:
        return self.chooser.job

    @property
    def goal(self) -> Goal:
        return self.chooser.goal

    def next(self, samples: Sequence[Sample], left: int, seen: Collection[int] = ()) -> Probe | None:
        return self.chooser.next(self._all(samples), left, seen)

    def remaining(self, samples: Sequence[Sample]) -> int:
        return self.chooser.remaining(self._all(samples))

    def share(self, probe: Probe, seconds: float, samples: Sequence[Sample], seen: Collection[int]) -> float | None:
        return self.chooser.share(probe, seconds, self._all(samples), seen)

    def _all(self, samples: Sequence[Sample]) -> Sequence[Sample]:
        return self.history.blended(samples) if any(is_timed(sample) for sample in samples) else samples
