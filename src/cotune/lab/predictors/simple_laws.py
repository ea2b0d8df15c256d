"""Laws of seconds with one or two terms, each blind to much: bounds that a predictor should beat.

    amdahl    epoch(n) = s + p / n          both >= 0     s: serial part, p: the part that n workers share
    cynthia   step(n) = max(t_comp, 2 g n / B)            n workers with a fixed batch each
    eta       epoch = examples / B x t                    t: seconds of a batch, B: the global batch

Amdahl's law is fitted by non-negative least squares on the relative error and does not see the batch. Cynthia measures
`t_comp` on the fewest workers; 2 g / B, the seconds one more worker adds at the servers, is what the steps of the most
workers say once they are longer than computing: with all-reduce instead of servers it stands for whatever grows with
the workers. Eta takes for t what it was at the nearest config that was measured.

Reference: Amdahl, Validity of the single processor approach, AFIPS Spring Joint Computer Conference, 1967.
Reference: Zheng et al., Cynthia: cost-efficient cloud resource provisioning for DNN training, ICPP 2019.
Reference: a master's thesis of UESTC on scheduling TensorFlow tasks, as told in a survey of time prediction of 2020.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls

from cotune.predict.samples import timings
from cotune.space import Configs
from cotune.types import Floats, Job, Sample


@dataclass(frozen=True, slots=True)
class EpochLaw:
    """A fitted law of the seconds of an epoch."""

    predict: Callable[[Configs], Floats]


@dataclass(frozen=True, slots=True)
class Amdahl:
    """A serial part and a part that the workers share; blind to the batch."""

    def fit_seconds(self, job: Job, samples: Sequence[Sample]) -> EpochLaw:  # noqa: ARG002  # an epoch is an epoch
        """Return the two parts of an epoch."""
        measured = timings(samples)
        rows = _parts(measured.configs) / measured.seconds[:, None]
        parts, _ = nnls(rows, np.ones(len(rows)))
        return EpochLaw(lambda configs: np.asarray(_parts(configs) @ parts))


def _parts(configs: Configs) -> Floats:
    return np.column_stack([np.ones(len(configs)), 1 / configs.workers])


@dataclass(frozen=True, slots=True)
class Cynthia:
    """Overlapped compute and communication, each from one probe; blind to the batch."""

    def fit_seconds(self, job: Job, samples: Sequence[Sample]) -> EpochLaw:
        """Return the model of samples that have one batch size."""
        measured = timings(samples)
        examples = job.examples or 1  # unknown, it is a factor of both terms
        configs = measured.configs
        steps = measured.seconds / configs.steps(examples)
        fewest = configs.workers == configs.workers.min()
        compute = float(np.median((steps / configs.batch_size)[fewest]))  # seconds per example of one worker
        bound = steps > 1.05 * compute * configs.batch_size
        ratios = (steps / configs.workers)[bound & ~fewest]
        communication = float(np.median(ratios)) if len(ratios) else 0.0

        def predict(configs: Configs) -> Floats:
            step = np.maximum(compute * configs.batch_size, communication * configs.workers)
            return np.asarray(step * configs.steps(examples))

        return EpochLaw(predict)


@dataclass(frozen=True, slots=True)
class Eta:
    """Steps left times the seconds of a batch, those of the nearest config that was measured."""

    def fit_seconds(self, job: Job, samples: Sequence[Sample]) -> EpochLaw:
        """Return the seconds of a batch as measured; no other factor is known."""
        measured = timings(samples)
        examples = job.examples or 1  # unknown, it is a factor of every step
        places, steps = _places(measured.configs), measured.seconds / measured.configs.steps(examples)

        def predict(configs: Configs) -> Floats:
            apart = ((_places(configs)[:, None, :] - places[None, :, :]) ** 2).sum(axis=2)
            return np.asarray(steps[apart.argmin(axis=1)] * configs.steps(examples))

        return EpochLaw(predict)


def _places(configs: Configs) -> Floats:
    return np.log(np.maximum(np.column_stack([configs.per_step, configs.workers]), 1.0))
