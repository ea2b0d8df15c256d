"""How far layer models are off, on devices they have seen and on one they have not.

    MAPE = mean of |predicted - measured| / measured       RMSE in milliseconds

Seen: 80 % of a device's rows are learnt, the last 10 % are judged (10 % are kept for choosing
settings, as the authors did). Unseen: everything but one device is learnt, and rows of that
device are judged. As published, convolutions with a batch above 32 take no part across devices.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from cotune import registry
from cotune.errors import UsageError
from cotune.lab.bench.tasks import worked_off
from cotune.modelling.layer_rows import LayerPredictor, Layers
from cotune.predict import TooFewSamples
from cotune.types import Floats, Ints

MODELS = ("layerwise", "layer_trees")
_MOST_ACROSS = 32  # batch of a convolution


@dataclass(frozen=True, slots=True)
class LayerRow:
    """One model on one kind of layer and one device, which it has seen or not."""

    kind: str
    device: str
    model: str
    seen: bool
    learnt: int
    judged: int
    mape: float
    median: float
    rmse: float


@dataclass(frozen=True, slots=True)
class LayerRefusal:
    """A model that has no answer for one kind of layer on one device, and why."""

    kind: str
    device: str
    model: str
    seen: bool
    reason: str


@dataclass(frozen=True)
class LayerTask:
    """One model to train and to judge."""

    model: str
    seen: bool
    device: str
    learnt: Layers
    judged: Layers


def bench_layers(
    tables: dict[str, Layers], models: Sequence[str] = MODELS, *, across: int | None = None, seed: int = 0,
    processes: int = 1, unseen: bool = True,
) -> Iterator[LayerRow | LayerRefusal]:  # fmt: skip
    """Yield the errors of each model, or why it has none; `across` bounds the rows of a device learnt for another."""
    for model in models:
        if not isinstance(registry.create("predictor", model), LayerPredictor):
            raise UsageError(f"predictor {model!r} does not learn from timed layers; layerwise and layer_trees do")
    tasks = [
        task
        for layers in tables.values()
        for model in models
        for task in (*_seen(layers, model, seed), *(_unseen(layers, model, across, seed) if unseen else ()))
    ]
    yield from worked_off(_judge, tasks, processes)


def _seen(layers: Layers, model: str, seed: int) -> Iterator[LayerTask]:
    for device in np.unique(layers.device):
        own = layers.take(_shuffled(np.flatnonzero(layers.device == device), seed))
        first, last = int(0.8 * len(own)), int(0.9 * len(own))
        rows = np.arange(len(own))
        yield LayerTask(model, True, str(device), own.take(rows[:first]), own.take(rows[last:]))


def _unseen(layers: Layers, model: str, across: int | None, seed: int) -> Iterator[LayerTask]:
    if layers.kind == "conv":
        layers = layers.take(layers.shape["batch"] <= _MOST_ACROSS)
    devices = np.unique(layers.device)
    for device in devices if len(devices) > 1 else ():
        of = {name: _shuffled(np.flatnonzero(layers.device == name), seed) for name in devices}
        learnt = np.concatenate([rows[:across] for name, rows in of.items() if name != device])
        yield LayerTask(model, False, str(device), layers.take(learnt), layers.take(of[device][:across]))


def _shuffled(rows: Ints, seed: int) -> Ints:
    return np.random.default_rng(seed).permutation(rows)


def _judge(task: LayerTask) -> LayerRow | LayerRefusal:
    try:
        found = registry.create("predictor", task.model).fit_layers(task.learnt).predict(task.judged)
    except TooFewSamples as error:
        return LayerRefusal(task.judged.kind, task.device, task.model, task.seen, str(error))
    off: Floats = np.abs(found / task.judged.ms - 1)
    rmse = float(np.sqrt(np.mean((found - task.judged.ms) ** 2)))
    return LayerRow(
        kind=task.judged.kind,
        device=task.device,
        model=task.model,
        seen=task.seen,
        learnt=len(task.learnt),
        judged=len(task.judged),
        mape=float(off.mean()),
        median=float(np.median(off)),
        rmse=rmse,
    )
