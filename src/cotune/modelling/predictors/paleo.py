"""PALEO: seconds per step from layer counts and percents of peak, without running anything.

    t_compute(F) = max(1 / f, F / (G p))        G peak operations per second, f clock
    t_memory(B)  = max(1 / f, B / (M p))        M bytes per second, GiB where the paper says GB
    step = sum over kernels (t_compute + sum of t_memory) + update + communication
    update = 2 operations per parameter and three transfers of them, at full peak

p is the platform percent of peak, one number for arithmetic and one for the network. With L the
seconds in which one link carries all the parameters at its percent of peak, n workers take

    one_to_all 2 (n - 1) L    tree 2 ceil(log2 n) L    butterfly ceil(log2 n) L    mixing L


As a predictor of samples, whose layers nobody knows, the same law has its counts fitted:
T(b, n) = u + w b + k s(n), all terms >= 0, with s(n) the scheme's multiple of L.

Reference: Qi, Sparks and Talwalkar, Paleo: a performance model for deep neural networks, ICLR 2017.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, get_args

import numpy as np

from cotune.errors import UsageError, suggestion
from cotune.modelling.paleo_layers import FLOAT, PaleoKernel, PaleoLayer
from cotune.predict.coefficients import SumOfTerms, fit_coefficients
from cotune.predict.samples import timings
from cotune.space import Configs
from cotune.types import Floats, Job, Sample

Scheme = Literal["one_to_all", "tree_allreduce", "butterfly_allreduce", "butterfly_mixing"]
SCHEMES: tuple[Scheme, ...] = get_args(Scheme)
_LEAST = 1e-3  # the least share of a measured step that u and w b have: no worker computes for nothing


@dataclass(frozen=True, slots=True)
class Platform:
    """A device and a network with the percents of peak that software reaches on them.

    Operations and bytes per second are peaks; `link` is in bits per second.
    """

    flops: float
    bandwidth: float
    clock: float
    link: float
    compute: float = 1.0
    communication: float = 1.0

    def seconds(self, kernel: PaleoKernel, percent: float) -> tuple[float, float]:
        """Return the seconds of a kernel's arithmetic and of its transfers, which do not overlap."""
        floor = 1 / self.clock
        arithmetic = max(floor, kernel.flops / (self.flops * percent)) if kernel.flops else 0.0
        return arithmetic, sum(max(floor, move / (self.bandwidth * percent)) for move in kernel.moves)

    def carries(self, parameter_bytes: float) -> float:
        """Return the seconds in which one link carries so many bytes."""
        return parameter_bytes / (self.link / 8 * self.communication)


@dataclass(frozen=True, slots=True)
class StepSeconds:
    """The seconds of one step, by part."""

    forward: float
    backward: float
    update: float
    communication: float

    @property
    def seconds(self) -> float:
        return self.forward + self.backward + self.update + self.communication


def multiple(scheme: Scheme, workers: int) -> int:
    """Return how often a link carries all the parameters in one step of a scheme."""
    rounds = math.ceil(math.log2(workers))
    if scheme == "one_to_all":
        return 2 * (workers - 1)
    if scheme == "tree_allreduce":
        return 2 * rounds
    return rounds if scheme == "butterfly_allreduce" else min(workers - 1, 1)


def step(
    layers: Sequence[PaleoLayer],
    platform: Platform,
    *,
    batch: int,
    workers: int = 1,
    scheme: Scheme = "tree_allreduce",
) -> StepSeconds:
    """Return what one step of `batch` examples per worker takes."""
    passes = []
    for direction in ("forward", "backward"):
        kernels = [kernel for layer in layers for kernel in getattr(layer, direction)(batch)]
        passes.append(sum(sum(platform.seconds(kernel, platform.compute)) for kernel in kernels))
    parameters = sum(layer.parameters for layer in layers)
    moved = float(FLOAT * parameters)
    update = sum(platform.seconds(PaleoKernel(2.0 * parameters, (moved, moved, moved)), 1.0))
    shared = multiple(scheme, workers) * platform.carries(moved)
    return StepSeconds(passes[0], passes[1], update, shared)


@dataclass(frozen=True, slots=True)
class Paleo:
    """PALEO's law: compute linear in the batch, and one of four ways to share gradients."""

    scheme: Scheme = "tree_allreduce"

    def checked_scheme(self) -> Scheme:
        """Return the scheme, if there is one of that name."""
        if self.scheme not in SCHEMES:
            near = suggestion(str(self.scheme), SCHEMES)
            raise UsageError(f"no scheme {self.scheme!r}: there are {', '.join(SCHEMES)}{near}")
        return self.scheme

    def fit_seconds(self, job: Job, samples: Sequence[Sample]) -> SumOfTerms:
        """Return examples / B x T(b, n), seconds per epoch, its counts fitted on relative error."""
        scheme = self.checked_scheme()
        measured = timings(samples, least=2)
        examples = job.examples or 1  # unknown, it is a factor of every coefficient
        terms = partial(_terms, scheme=scheme)
        shares = terms(measured.configs) * (measured.configs.steps(examples) / measured.seconds)[:, None]
        coefficients, _ = fit_coefficients(shares, np.array([_LEAST, _LEAST, 0.0]))
        return SumOfTerms(terms, coefficients, examples)


def _terms(configs: Configs, scheme: Scheme) -> Floats:
    rounds = configs.accumulate.astype(np.float64)
    shared = np.array([multiple(scheme, int(workers)) for workers in configs.workers], dtype=np.float64)
    return np.stack([rounds, rounds * configs.batch_size, shared], axis=1)
