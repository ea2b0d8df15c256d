"""A rule without a search: every layer on the dearest accelerator."""

from __future__ import annotations

import random
from dataclasses import dataclass

from cotune.placement.counts import Provisioning, provide
from cotune.placement.kinds import accelerator
from cotune.placement.problems import Placement, Problem


@dataclass(frozen=True, slots=True)
class GpuOnly:
    """Every layer on the dearest accelerator."""

    counts: Provisioning = "exact"

    def place(self, problem: Problem, rng: random.Random) -> Placement | None:  # noqa: ARG002  # nothing is left to chance
        return provide(problem, [(accelerator(problem), 0, problem.depth - 1)], self.counts)
