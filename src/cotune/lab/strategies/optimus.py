"""Optimus: the number of workers alone, by its speed law, at the batch the user has.

    min over n of  n x N x epoch(n)      epoch(n) by `predict/predictors/optimus.py`, N epochs to the target

Reference: Peng et al., Optimus: an efficient dynamic resource scheduler for deep learning clusters, EuroSys 2018.
"""

from __future__ import annotations

from dataclasses import dataclass

from cotune.bounds import Count
from cotune.lab.restricted import nearest_batch, planned
from cotune.lab.strategy import Decision, Lab


@dataclass(frozen=True, slots=True)
class Optimus:
    """Choose the workers by Optimus's speed law; the batch stays as it is."""

    batch_size: Count = 32

    def decide(self, lab: Lab) -> Decision:
        part = nearest_batch(lab.space, self.batch_size)
        return planned(lab, part, lab.forecaster(lab.profile(part), "optimus"))
