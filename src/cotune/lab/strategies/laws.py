"""The planner on a part of the space, with one law of seconds or another.

    joint     min over (workers r, batch b) of  r x N x epoch(b, r)      N: epochs to the target
              subject to  P(target, deadline and budget are met) >= confidence                  (11)
    cynthia   min over n of  n x N x epoch(n)      epoch(n) by `lab/predictors/simple_laws.py`, a fixed batch of 32
    optimus   the same by `lab/predictors/optimus.py`, at the batch the user has
    pollux    max goodput(b, r) = throughput(b, r) x efficiency(b r), which is the least time to the target
    oracle    the cheapest config that meets the goal, by the truth itself

Pollux's throughput law is used as published. The efficiency of a global batch, the progress that one example makes in
it, is what the learning curves say instead of the gradient noise. `joint` refuses what `cotune plan` refuses. The
papers of the others have no confidence: they take the best config that is forecast to meet the goal.

Reference: Liang et al., joint configuration of resources and batch size, Chinese Journal of Computers 45(2), 2022.
Reference: Zheng et al., Cynthia: cost-efficient cloud resource provisioning for DNN training, ICPP 2019.
Reference: Peng et al., Optimus: an efficient dynamic resource scheduler for deep learning clusters, EuroSys 2018.
Reference: Qiao et al., Pollux: co-adaptive cluster scheduling for goodput-optimized deep learning, OSDI 2021.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from cotune.bounds import Count
from cotune.lab.restricted import POINT_FORECAST, nearest_batch, planned
from cotune.lab.strategy import Decision, Lab
from cotune.predict import ACCURACY, SECONDS


@dataclass(frozen=True, slots=True)
class Joint:
    """Choose workers and batch size together, by forecasts from a few probes."""

    predictor: str = SECONDS
    accuracy: str = ACCURACY

    def decide(self, lab: Lab) -> Decision:
        samples = lab.profile(lab.space)
        return planned(lab, lab.space, lab.forecaster(samples, self.predictor, self.accuracy))


@dataclass(frozen=True)
class Cynthia:
    """Choose the workers for the least cost by overlapped compute and communication; batch 32."""

    law: ClassVar[str] = "cynthia"
    batch_size: Count = 32

    def decide(self, lab: Lab) -> Decision:
        part = nearest_batch(lab.space, self.batch_size)
        return planned(lab, part, lab.forecaster(lab.profile(part), self.law), confidence=POINT_FORECAST)


@dataclass(frozen=True)
class Optimus(Cynthia):
    """Choose the workers by Optimus's speed law; the batch stays as it is."""

    law = "optimus"


@dataclass(frozen=True, slots=True)
class Pollux:
    """Take the config with the highest goodput, whatever it costs."""

    def decide(self, lab: Lab) -> Decision:
        forecast = lab.forecaster(lab.profile(lab.space), "pollux")
        return planned(lab, lab.space, forecast, "fast", POINT_FORECAST)


@dataclass(frozen=True, slots=True)
class Oracle:
    """Know the truth: the bound that no strategy can beat."""

    def decide(self, lab: Lab) -> Decision:
        return lab.hindsight()
