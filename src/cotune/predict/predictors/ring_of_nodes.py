"""A ring of nodes, each as it was measured; what a border between nodes adds is one number for a job.

    T(x, N) = T(x, M) + k ((N - 1) / N - (M - 1) / M)                     M: the measured number of nodes nearest to N
    k = median over x of  (T(x, N) - T(x, M)) / ((N - 1) / N - (M - 1) / M)           M < N neighbours, k >= 0

x is all of a config but its number of nodes: workers on each, batch size, device, named axes. What goes on inside
a node (starved input, a shared bus) is in T(x, M), whatever its law. Between nodes go the gradients of one network,
much the same bytes whatever batch, input pipeline or precision computed them, so k is learnt from all of them at
once, and one odd pair does not move it. A config that has no like on any number of nodes, and a job none of whose
configs was measured on two, get the seconds of the ring law.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import ClassVar

from cotune.bounds import Count
from cotune.predict import SecondsModel
from cotune.predict.groups import Group, fit_seconds, groups_of
from cotune.predict.layout import nodes
from cotune.predict.predictors.ring import Ring
from cotune.predict.samples import timings
from cotune.space import Configs
from cotune.types import Floats, Job, Sample

Alike = tuple[Group, int, int, float]  # named axes and device, batch size, accumulation, workers on each node
_LEAST = 1e-3  # of a measured step: no worker computes for nothing


@dataclass(frozen=True, slots=True)
class RingOfNodes:
    """Nodes as measured, plus what borders between them add, one number for all variants of a job."""

    per_node: Count | None = None
    reads_axes: ClassVar[bool] = True

    def fit_seconds(self, job: Job, samples: Sequence[Sample]) -> SecondsModel:
        """Return what was measured on the nearest number of nodes, moved to the one asked for."""
        measured = timings(samples, least=2)
        examples = job.examples or 1  # unknown, it is a factor of every step
        law = fit_seconds(Ring(self.per_node), job, samples, self.per_node)
        steps = measured.seconds / measured.configs.steps(examples)
        known: dict[Alike, dict[float, float]] = defaultdict(dict)
        for alike, share, step in zip(*_places(measured.configs, self.per_node), steps.tolist(), strict=True):
            known[alike][share] = step
        borders = [
            (far - near) / (more - fewer)
            for points in known.values()
            for (fewer, near), (more, far) in pairwise(sorted(points.items()))
        ]
        return _Bordered(max(median(borders), 0.0), known, law, examples, self.per_node) if borders else law


@dataclass(frozen=True, slots=True)
class _Bordered:
    border: float
    known: Mapping[Alike, Mapping[float, float]]  # seconds of a step by (N - 1) / N
    law: SecondsModel
    examples: int
    per_node: int | None

    def predict(self, configs: Configs) -> Floats:
        seconds, whole = self.law.predict(configs).copy(), configs.steps(self.examples)
        for row, (alike, share) in enumerate(zip(*_places(configs, self.per_node), strict=True)):
            if points := self.known.get(alike):
                nearest = min(points, key=lambda other: abs(other - share))
                step = points[nearest] + self.border * (share - nearest)
                seconds[row] = max(step, _LEAST * points[nearest]) * whole[row]
        return seconds


def _places(configs: Configs, per_node: int | None) -> tuple[list[Alike], list[float]]:
    """Return what each config is but for its number of nodes N, and (N - 1) / N."""
    codes, groups = groups_of(configs)
    across = nodes(configs, per_node)
    rest = (configs.batch_size.tolist(), configs.accumulate.tolist(), (configs.workers / across).tolist())
    alike = [(groups[code], *numbers) for code, *numbers in zip(codes.tolist(), *rest, strict=True)]
    return alike, ((across - 1) / across).tolist()
