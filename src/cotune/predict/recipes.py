"""Recipes as one number each, where accuracy depends on the workers too.

    batch = B w^power

B is the global batch, and w are the workers, where servers do not wait for them or batch norm is not synchronised.
A power of 0 says that the global batch alone counts after all, -1 that a worker's own batch does; in between,
workers are partly in each other's way. It is the one of a few whose law misses the curves the
least. Models see every recipe as one worker that takes the whole batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from cotune.predict.predictors.curve import misfit
from cotune.space import Configs
from cotune.types import Config, Floats, Ints, Job, Recipe, Sample

_POWERS = (0.0, -0.5, -1.0, 0.5, 1.0)
_HEAD_START = 0.4  # of the error at a power of 0: a few curves tell batch and workers apart badly
_GRAIN = 64  # to an example, as batches are whole numbers
_FEWEST = 3  # recipes that tell a power


@dataclass(frozen=True, slots=True)
class Recipes:
    """How workers count beside the global batch, and the recipes that were measured; none where they do not."""

    power: float | None = None
    measured: tuple[Recipe, ...] = ()

    @classmethod
    def among(cls, job: Job, samples: Sequence[Sample]) -> Recipes:
        """Return what samples that tell of accuracy say of it."""
        found = tuple(dict.fromkeys(job.recipe(sample.config) for sample in samples))
        if all(recipe.workers is None for recipe in found):
            return cls()
        if len({recipe.workers for recipe in found}) == 1 or len(found) < _FEWEST:
            return cls(0.0, found)
        missed = [misfit(job, cls(power).samples(samples)) * (1.0 if power else _HEAD_START) for power in _POWERS]
        return cls(_POWERS[int(np.argmin(missed))], found)

    def __str__(self) -> str:
        return "" if self.power is None else f", of global batch x workers^{self.power:g}"

    def samples(self, samples: Sequence[Sample]) -> Sequence[Sample]:
        """Return samples of recipes as models see them."""
        if self.power is None:
            return samples
        batches = self._batches(Configs.of([sample.config for sample in samples]))
        return [
            replace(sample, config=Config.data_parallel(int(batch), 1))
            for sample, batch in zip(samples, batches, strict=True)
        ]

    def configs(self, configs: Configs) -> Configs:
        """Return configs as models see them."""
        return configs if self.power is None else Configs({"batch_size": self._batches(configs)}, configs.length)

    def strange(self, configs: Configs) -> Floats:
        """Return the doublings of workers between each config and the measured recipe next to it."""
        if self.power is None:
            return np.zeros(configs.length)
        batches, counts = np.log2([(recipe.global_batch, recipe.workers or 1) for recipe in self.measured]).T
        workers = np.abs(np.log2(configs.workers)[:, None] - counts[None, :])
        apart = workers + np.abs(np.log2(configs.global_batch)[:, None] - batches[None, :])
        return np.asarray(np.take_along_axis(workers, apart.argmin(axis=1)[:, None], axis=1)[:, 0])

    def _batches(self, configs: Configs) -> Ints:
        whole = configs.global_batch * configs.workers.astype(np.float64) ** (self.power or 0.0)
        return np.maximum(np.rint(_GRAIN * whole), 1).astype(np.int64)
