"""LB-BSP on identical workers: everybody takes the batch with the highest throughput.

    b = argmax over batches of  b / t(b)      t(b): seconds of one worker's step

Equal finishing times are had with equal batches there, so what is left of the method is
the batch: the one that one worker gets through the most examples per second with. Then
the fewest workers that meet the goal.

Reference: Chen et al., Semi-dynamic load balancing (LB-BSP), SoCC 2020; its poster, SoCC 2018.
"""

from __future__ import annotations

from dataclasses import dataclass

from cotune.bounds import Count
from cotune.lab.restricted import fewest_workers, values
from cotune.lab.strategy import Decision, Lab
from cotune.space import Space
from cotune.types import Config, Value


@dataclass(frozen=True, slots=True)
class LbBsp:
    """Take the batch with the highest throughput, then the fewest workers."""

    probes: Count = 4

    def decide(self, lab: Lab) -> Decision:
        part = lab.space.pinned(batch_size=[self.batch_size(lab, lab.space)])
        return fewest_workers(lab, part, lab.forecaster(lab.profile(part)))

    def batch_size(self, lab: Lab, space: Space) -> int:
        """Return the batch that the fewest workers of a space get through the most examples per second with."""
        batches = values(space, "batch_size")
        step = max(1, (len(batches) - 1) // max(1, self.probes - 1))
        tried = dict.fromkeys([*batches[::-step], batches[0]])
        samples = [lab.train(_on_fewest(space, batch), 0.0) for batch in tried]
        known = [sample for sample in samples if sample.epoch_seconds is not None]
        best = min(known, key=lambda sample: (sample.epoch_seconds or 0.0) * sample.config.workers)
        return best.config.batch_size


def _on_fewest(space: Space, batch: Value) -> Config:
    configs = space.pinned(batch_size=[batch]).configs()
    return configs[int(configs.workers.argmin())]
