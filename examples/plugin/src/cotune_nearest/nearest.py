"""The nearest measured config: the simplest guess, which any law should beat.

seconds per epoch = those of the config at the least distance in (log workers, log batch size)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cotune.predict import TooFewSamples
from cotune.space import Configs
from cotune.types import Floats, Job, Sample


@dataclass(frozen=True, slots=True)
class Nearest:
    """Seconds of the nearest config that was measured."""

    def fit_seconds(self, job: Job, samples: Sequence[Sample]) -> NearestModel:
        known = [sample for sample in samples if sample.epoch_seconds and not sample.failed]
        if not known:
            raise TooFewSamples(f"nearest needs one measured sample of {job.name}")
        places = np.log([(sample.config.workers, sample.config.batch_size) for sample in known])
        return NearestModel(places, np.array([sample.epoch_seconds for sample in known]))


@dataclass(frozen=True, slots=True)
class NearestModel:
    """Where seconds were measured, and which."""

    places: Floats
    seconds: Floats

    def predict(self, configs: Configs) -> Floats:
        asked = np.log(np.stack([configs.workers, configs.batch_size], axis=1))
        distances = np.abs(asked[:, None, :] - self.places[None, :, :]).sum(axis=2)
        nearest: Floats = self.seconds[distances.argmin(axis=1)]
        return nearest
