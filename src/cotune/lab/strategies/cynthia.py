"""Cynthia: the number of workers alone, by its performance model, at a fixed batch of 32.

    min over n of  n x N x epoch(n)      epoch(n) by `predict/predictors/cynthia.py`, N epochs to the target

Reference: Zheng et al., Cynthia: cost-efficient cloud resource provisioning for DNN training, ICPP 2019.
"""

from __future__ import annotations

from dataclasses import dataclass

from cotune.bounds import Count
from cotune.lab.restricted import nearest_batch, planned
from cotune.lab.strategy import Decision, Lab


@dataclass(frozen=True, slots=True)
class Cynthia:
    """Choose the workers for the least cost by overlapped compute and communication; batch 32."""

    batch_size: Count = 32

    def decide(self, lab: Lab) -> Decision:
        part = nearest_batch(lab.space, self.batch_size)
        return planned(lab, part, lab.forecaster(lab.profile(part), "cynthia"))
