"""Pollux: the workers and batch with the highest goodput, which is the least time to the target.

Goodput is throughput x statistical efficiency. Its throughput law is used as published;
the efficiency of a batch is what the learning curves say instead of the gradient noise.
"""

from __future__ import annotations

from dataclasses import dataclass

from cotune.strategies import Decision, Lab
from cotune.strategies._restricted import planned


@dataclass(frozen=True, slots=True)
class Pollux:
    """Take the config with the highest goodput, whatever it costs."""

    def decide(self, lab: Lab) -> Decision:
        forecast = lab.forecaster(lab.profile(lab.space), "pollux")
        return planned(lab, lab.space, forecast, prefer="fast")
