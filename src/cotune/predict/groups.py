"""Devices, servers and named axes as factors on one shared law.

    seconds(config) = F[group] x base(batch, workers, accumulate)

A group is one combination of device, servers and named axes. F is 1 for the group with the
most samples and, for the others, the median ratio of what they measured to what the ring law
through all samples expects. A combination never measured gets the product of what its
values do elsewhere (a ridge on ln F), and counts as a guess. Predictors that read named axes
themselves (`reads_axes`) need none of this.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from cotune.predict import SecondsModel, SecondsPredictor
from cotune.predict.predictors.ring import Ring
from cotune.predict.samples import timed, timings
from cotune.space import Configs, plain
from cotune.types import Floats, Ints, Job, Sample, Value

Group = tuple[tuple[str, Value], ...]
_ROUNDS = 3
_RIDGE = 0.1


@dataclass(frozen=True, slots=True)
class Groups:
    """The logarithm of the factor of each group that was measured."""

    known: Mapping[Group, float]

    def scaled(self, samples: Sequence[Sample]) -> list[Sample]:
        """Return samples as the reference group would have measured them."""
        if not any(self.known.values()):
            return list(samples)
        logs = self.logs(Configs.of([sample.config for sample in samples]))
        return [
            replace(sample, epoch_seconds=sample.epoch_seconds / float(np.exp(log))) if sample.epoch_seconds else sample
            for sample, log in zip(samples, logs, strict=True)
        ]

    def logs(self, configs: Configs) -> Floats:
        """Return the log factor of each config."""
        codes, groups = groups_of(configs)
        effects = _effects(self.known) if any(group not in self.known for group in groups) else {}
        guessed = [sum(effects.get(pair, 0.0) for pair in group) for group in groups]
        logs = np.array([self.known.get(group, guess) for group, guess in zip(groups, guessed, strict=True)])
        return logs[codes]


@dataclass(frozen=True, slots=True)
class Factored:
    """A law of layout alone, times the factors of groups."""

    law: SecondsModel
    groups: Groups

    def predict(self, configs: Configs) -> Floats:
        result: Floats = self.law.predict(configs) * np.exp(self.groups.logs(configs))
        return result


def fit_seconds(predictor: SecondsPredictor, job: Job, samples: Sequence[Sample], per_node: int | None) -> SecondsModel:
    """Return a predictor's model of whole configs, named axes included."""
    if getattr(predictor, "reads_axes", False):
        return predictor.fit_seconds(job, samples)
    groups = learn_groups(job, samples, per_node)
    return Factored(predictor.fit_seconds(job, groups.scaled(samples)), groups)


def groups_of(configs: Configs) -> tuple[Ints, list[Group]]:
    """Return the group of each config as a number, and the groups by number."""
    codes = np.zeros(configs.length, dtype=np.int64)
    columns = {"device": configs.device, "servers": configs.servers, **configs.named}
    for column in columns.values():
        own, values = _codes(column)
        codes = codes * len(values) + own
    _, first, codes = np.unique(codes, return_index=True, return_inverse=True)
    groups = [
        tuple((name, value) for name, column in columns.items() if (value := plain(column[row])) != "") for row in first
    ]
    return codes.astype(np.int64), groups


def learn_groups(job: Job, samples: Sequence[Sample], per_node: int | None) -> Groups:
    """Return the factors of the groups in some samples."""
    known = timed(samples)
    measured = timings(known)
    codes, groups = groups_of(measured.configs)
    counts = Counter(codes.tolist())
    reference = max(counts, key=lambda code: (counts[code], -code))
    logs = np.zeros(len(groups))
    for _ in range(_ROUNDS if len(groups) > 1 else 0):
        model = Ring(per_node).fit_seconds(job, Groups(dict(zip(groups, logs.tolist(), strict=True))).scaled(known))
        over = np.log(measured.seconds / model.predict(measured.configs))
        logs = np.array([np.median(over[codes == code]) for code in range(len(groups))])
        logs -= logs[reference]
    return Groups(dict(zip(groups, logs.tolist(), strict=True)))


def _effects(known: Mapping[Group, float]) -> dict[tuple[str, Value], float]:
    """Return what each value of an axis adds to ln F, as far as the measured groups tell."""
    pairs = sorted({pair for group in known for pair in group}, key=str)
    rows = np.array([[pair in group for pair in pairs] for group in known], dtype=np.float64)
    logs = np.array(list(known.values()))
    effects = np.linalg.solve(rows.T @ rows + _RIDGE * np.eye(len(pairs)), rows.T @ logs)
    return dict(zip(pairs, effects.tolist(), strict=True))


def _codes(column: npt.NDArray[np.generic]) -> tuple[Ints, list[object]]:
    table: dict[object, int] = {}
    codes = np.fromiter((table.setdefault(value, len(table)) for value in column.tolist()), np.int64, len(column))
    return codes, list(table)
