"""The joint choice of workers and batch size: profile, forecast, plan over the whole space.

    min over (workers r, batch b) of  r x N x epoch(b, r)      N: epochs to the target
    subject to  P(target, deadline and budget are met) >= confidence                  (11)

Reference: Liang et al., joint configuration of resources and batch size, Chinese Journal of Computers 45(2), 2022.
"""

from __future__ import annotations

from dataclasses import dataclass

from cotune.lab.restricted import planned
from cotune.lab.strategy import Decision, Lab
from cotune.predict import LAWS


@dataclass(frozen=True, slots=True)
class Joint:
    """Choose workers and batch size together, by forecasts from a few probes."""

    predictor: str = LAWS
    accuracy: str = "auto"

    def decide(self, lab: Lab) -> Decision:
        samples = lab.profile(lab.space)
        return planned(lab, lab.space, lab.forecaster(samples, self.predictor, self.accuracy))
