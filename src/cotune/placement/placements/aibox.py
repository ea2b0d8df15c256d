"""AIBox's rule: the first layer (the embedding) on the CPU, all others on the accelerator.

Reference: Zhao et al., AIBox: CTR prediction model training on a single node, CIKM 2019.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from cotune.placement.counts import Provisioning, provide, runs_of
from cotune.placement.kinds import accelerator, cpu
from cotune.placement.problems import Placement, Problem


@dataclass(frozen=True, slots=True)
class Aibox:
    """The first layer on the CPU, the rest on the dearest accelerator."""

    counts: Provisioning = "exact"

    def place(self, problem: Problem, rng: random.Random) -> Placement | None:  # noqa: ARG002  # nothing is left to chance
        return provide(problem, runs_of([cpu(problem), *[accelerator(problem)] * (problem.depth - 1)]), self.counts)
