"""The joint choice of workers and batch size: profile, forecast, plan over the whole space."""

from __future__ import annotations

from dataclasses import dataclass

from cotune.strategies import LAWS, Decision, Lab
from cotune.strategies._restricted import planned


@dataclass(frozen=True, slots=True)
class Joint:
    """Choose workers and batch size together, by forecasts from a few probes."""

    predictor: str = LAWS
    accuracy: str = "auto"

    def decide(self, lab: Lab) -> Decision:
        samples = lab.profile(lab.space)
        return planned(lab, lab.space, lab.forecaster(samples, self.predictor, self.accuracy))
