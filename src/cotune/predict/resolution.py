"""At which epochs a forecast speaks of accuracy: where the job tells it, once an epoch, more often or less.

    gap of a batch b = gap                                  epochs, tokens: so much data between two evaluations
                     = gap x b / batch of the gap           steps: so many steps, whatever they take

Which of the two it is, the unit of the job says, unless samples of several batches tell otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cotune import progress
from cotune.types import RECORDED, Floats, Ints, Job, ProgressUnit, Sample
from cotune.types.job import EPOCHS

_MOST_IN_EPOCH = 16  # evaluations in an epoch that a forecast tells apart
_MOST_IN_PART = 2  # and in a part that a length is cut into
_OFTEN = 0.5  # epochs between evaluations, from which a forecast is finer than epochs
_WHOLE = 0.05  # of an epoch, or of the evaluations in one: so near, evaluations come at the ends of epochs
_UNEVEN = 0.1  # of ln gap between batches, from which gaps are not the same for all


@dataclass(frozen=True, slots=True)
class Rhythm:
    """The parts between two evaluations of a job: of any batch, or of the one named and in steps of it."""

    gap: float = 1.0
    global_batch: int | None = None
    counting: ProgressUnit = EPOCHS
    grain: float | None = None  # parts that a run is told a multiple of, where its learning rate falls to its end
    live: bool = False  # as measured; a recording is replayed in whole epochs

    def gaps(self, global_batch: Ints) -> Floats:
        """Return the parts between two evaluations at some batches."""
        share = 1.0 if self.global_batch is None else global_batch / self.global_batch
        return np.asarray(self.gap * share * np.ones(len(global_batch)))

    def _whole(self, gaps: Floats) -> Floats:
        """Return the least whole number of grains, or nearly, after some gaps: a run ends with an evaluation."""
        assert self.grain is not None
        times = np.arange(1, _MOST_IN_EPOCH + 1)[:, None]
        off = np.abs(times * gaps / self.grain - np.round(times * gaps / self.grain))
        return np.asarray(gaps * times[np.argmax(off < _WHOLE, axis=0)][:, 0])

    def steps(self, global_batch: Ints, most: float) -> Floats:
        """Return the parts after which a forecast speaks of accuracy: none are longer than a whole run."""
        gaps = self.gaps(global_batch)
        if not self.live:
            return np.ones(len(gaps))
        if self.grain is not None:
            often = self.grain / np.clip(np.round(self.grain / gaps), 1, _MOST_IN_EPOCH * self.grain)
            found = np.where(gaps > self.grain, self._whole(gaps), often)
        elif self.counting.parts == 1:
            often = 1 / np.clip(np.round(1 / gaps), 1, _MOST_IN_EPOCH)
            found = np.where(gaps <= _OFTEN, often, np.maximum(np.round(gaps), 1.0))
        else:
            found = gaps * np.ceil(1 / (gaps * _MOST_IN_PART))
        return np.minimum(found, most)


def rhythm_of(job: Job, samples: Sequence[Sample], *, annealed: bool = False) -> Rhythm:
    """Return how often a job is evaluated, as measured; once in a part where nothing tells."""
    live = [one for one in samples if one.engine != RECORDED and len(one.curve) > 1]
    gaps = [(float(np.median(np.diff([point.epoch for point in one.curve]))), one.config.global_batch) for one in live]
    gaps = [(gap, batch) for gap, batch in gaps if gap > 0]
    if not gaps:
        return Rhythm()
    each, batches = (np.array(part, dtype=np.float64) for part in zip(*gaps, strict=True))
    grain = float(progress.whole_units(job, 1)) if annealed else None
    if _in_steps(job, each, batches):
        usual = int(np.median(batches))
        gap = float(np.median(each / batches))
        gap = round(gap * job.examples) / job.examples if job.examples and gap * job.examples > 1 else gap
        return Rhythm(gap * usual, usual, job.counting, grain, live=True)
    return Rhythm(_even(float(np.median(each)), job.counting), None, job.counting, grain, live=True)


def _in_steps(job: Job, gaps: Floats, batches: Floats) -> bool:
    """Say whether evaluations come after so many steps instead of so much data."""
    by_data, by_steps = (float(np.ptp(np.log(part))) for part in (gaps, gaps / batches))
    if job.counting.unit == "steps":
        return by_steps <= max(_UNEVEN, by_data)
    return by_data > _UNEVEN and by_steps <= _UNEVEN


def _even(gap: float, counting: ProgressUnit) -> float:
    """Return a gap of about so many whole epochs, or so many in a whole epoch, as exactly that."""
    if counting.unit != "epochs" or counting.parts == 1:
        return gap
    epochs = gap / counting.parts
    whole = max(round(epochs), 1) if epochs >= 1 else 1 / round(1 / epochs)
    return whole * counting.parts if abs(epochs / whole - 1) <= _WHOLE else gap
