"""Recipes as one number each, where accuracy depends on the workers too.

    batch = B w^power

B is the global batch, and w are the workers, where servers do not wait for them or batch norm is not synchronised.
A power of 0 says that the global batch alone counts after all, -1 that a worker's own batch does; in between, workers
are partly in each other's way. Of a few powers it is the one under which the curves are the most probable.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cotune.space import Configs
from cotune.types import Floats, Job, Sample

_POWERS = (0.0, -0.5, -1.0, 0.5, 1.0)
_USUAL = 0.6  # probability of a power of 0 beforehand
_FEWEST = 3  # recipes that tell a power


@dataclass(frozen=True, slots=True)
class Recipes:
    """How workers count beside the global batch."""

    power: float = 0.0

    @classmethod
    def among(cls, job: Job, samples: Sequence[Sample], evidence: Callable[[Recipes], float]) -> Recipes:
        """Return what curves say of it, given how probable (ln) they are."""
        found = {job.recipe(sample.config) for sample in samples}
        if len(found) < _FEWEST or len({recipe.workers for recipe in found}) == 1:
            return cls()
        other = math.log((1 - _USUAL) / (len(_POWERS) - 1))
        return max(map(cls, _POWERS), key=lambda one: evidence(one) + (other if one.power else math.log(_USUAL)))

    def __str__(self) -> str:
        return f", of global batch x workers^{self.power:g}" if self.power else ""

    def batches(self, configs: Configs) -> Floats:
        """Return the number that stands for each config's recipe."""
        return configs.global_batch * configs.workers.astype(float) ** self.power


BY_BATCH = Recipes()
