"""Pollux: the workers and batch with the highest goodput, which is the least time to the target.

    goodput(b, r) = throughput(b, r) x efficiency(b r)

Its throughput law is used as published. The efficiency of a global batch, the progress that
one example makes in it, is what the learning curves say instead of the gradient noise.

Reference: Qiao et al., Pollux: co-adaptive cluster scheduling for goodput-optimized deep learning, OSDI 2021.
"""

from __future__ import annotations

from dataclasses import dataclass

from cotune.lab.restricted import planned
from cotune.lab.strategy import Decision, Lab


@dataclass(frozen=True, slots=True)
class Pollux:
    """Take the config with the highest goodput, whatever it costs."""

    def decide(self, lab: Lab) -> Decision:
        forecast = lab.forecaster(lab.profile(lab.space), "pollux")
        return planned(lab, lab.space, forecast, prefer="fast")
