"""How far every predictor is off on configs it has not seen.

    MRE  = sum |predicted - measured| / sum measured         (eq. 12 of the joint paper)
    MAPE = mean of |predicted - measured| / measured
    coverage: share of what was measured inside the 80 % interval
    interval score = mean of (high - low + 10 x what lies outside) / measured: narrow intervals that hold are low

Time: n configs are measured, chosen by the product's own design or at random; all others
are predicted. Accuracy: n starts of random batches and lengths show their curves so far;
points of other batches, and later points, are predicted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from operator import itemgetter
from pathlib import Path

import numpy as np

from cotune import registry
from cotune.lab.bench.tasks import Figures, figure, grouped, worked_off
from cotune.predict import AccuracyPredictor, SecondsPredictor, TooFewSamples
from cotune.predict.learn import forecaster
from cotune.probe.design import Design
from cotune.recording import Recording, read
from cotune.run.engines.recorded import Recorded, Replay
from cotune.space import Configs
from cotune.types import Z90, Config, Floats, Goal, Sample

AT_LEAST_MORE = 8
_MISSED = 0.2  # what an 80 % interval may miss


@dataclass(frozen=True, slots=True)
class PredictionRow:
    """One predictor on one recording from so many samples."""

    recording: str
    quantity: str
    predictor: str
    samples: int
    mre: float
    mape: float
    coverage: float
    interval_score: float


@dataclass(frozen=True, slots=True)
class PredictionTask:
    """One recording, all predictors and counts."""

    folder: Path
    predictors: tuple[str, ...]
    counts: tuple[int, ...]
    draws: int
    seed: int


def default_predictors() -> tuple[str, ...]:
    """Return every predictor of the box, with both readings of the paper's."""
    plain = [name for name in registry.names("predictor") if name != "isotonic"]
    return (*plain, "isotonic(reading=pooled)", "isotonic(reading=sliced)")


def bench_prediction(
    folders: Sequence[Path],
    predictors: Sequence[str] | None,
    counts: Sequence[int],
    *,
    draws: int = 3,
    seed: int = 0,
    processes: int = 2,
) -> list[PredictionRow]:
    """Return the errors of every predictor on every recording that has enough rows."""
    names = tuple(predictors) if predictors else default_predictors()
    for name in names:
        registry.create("predictor", name)
    tasks = [PredictionTask(folder, names, tuple(counts), draws, seed) for folder in folders]
    return [row for rows in worked_off(_measure, tasks, processes) for row in rows]


def prediction_summaries(rows: Iterable[PredictionRow]) -> list[Figures]:
    """Return figures over recordings, the best first for each quantity and count."""
    groups = grouped(rows, lambda row: (row.quantity, row.samples, row.predictor))
    totals = [
        {
            "quantity": quantity,
            "predictor": predictor,
            "samples": samples,
            "recordings": len(own),
            "mre": figure(np.median, "mre", own),
            "mape": figure(np.median, "mape", own),
            "worst_mape": figure(np.max, "mape", own),
            "coverage": figure(np.mean, "coverage", own),
            "lowest_coverage": figure(np.min, "coverage", own),
            "interval_score": figure(np.median, "interval_score", own),
        }
        for (quantity, samples, predictor), own in groups.items()
    ]
    return sorted(totals, key=itemgetter("quantity", "samples", "mape"))


def _measure(task: PredictionTask) -> list[PredictionRow]:
    recording = read(task.folder)
    seen, truth = recording.halves()
    rows: list[PredictionRow] = []
    for count in task.counts:
        if recording.times and len(recording.space(with_accuracy=False)) >= count + AT_LEAST_MORE:
            rows += _times(seen, truth, count, task)
        if recording.times and recording.curves:
            rows += _accuracies(seen, truth, count, task)
    return rows


def _times(seen: Recording, truth: Recording, count: int, task: PredictionTask) -> list[PredictionRow]:
    space = truth.space(with_accuracy=False)
    samples = designed(seen, count, task.seed)
    measured = {sample.config for sample in samples}
    configs = space.configs()
    unseen = configs.take(np.array([config not in measured for config in configs], dtype=bool))
    right = truth.epoch_seconds(unseen)
    rows = []
    for name in task.predictors:
        if not isinstance(registry.create("predictor", name), SecondsPredictor):
            continue
        try:
            outlook = forecaster(seen.job, samples, seen.cluster, predictor=name, accuracy=None)(unseen, 1)
        except TooFewSamples:
            continue
        half = np.exp(Z90 * outlook.spread)
        middle = outlook.epoch_seconds
        rows.append(_row(seen.name, "epoch_seconds", name, count, _Judged(right, middle, middle / half, middle * half)))
    return rows


def designed(seen: Recording, count: int, seed: int) -> list[Sample]:
    """Return the samples that the product would take to know seconds per epoch."""
    design = Design(seen.job, Goal(epochs=1), seen.space(with_accuracy=False), seen.cluster)
    engine = Recorded(recording=seen, seed=seed)
    samples: list[Sample] = []
    while len(samples) < count and (probe := design.next(samples, count - len(samples))) is not None:
        replay = engine.replay(probe.config, len(samples))
        assert isinstance(replay, Replay)  # the space holds only what was recorded
        samples.append(replay.sample(probe.epochs, f"probe {len(samples)}"))
    return samples


def _accuracies(seen: Recording, truth: Recording, count: int, task: PredictionTask) -> list[PredictionRow]:
    """Return errors over several draws of starts; a curve of few points says nothing of its shape."""
    configs = list(seen.space(with_accuracy=True).configs())
    batches = sorted({config.global_batch for config in configs})
    shortest = min((len(curve.epochs) for seeds in seen.all_curves for curve in seeds), default=0)
    if shortest < AT_LEAST_MORE or not configs:
        return []
    found: dict[str, list[_Judged]] = {}
    for draw in range(task.draws):
        rng = np.random.default_rng((task.seed, count, draw))
        samples = _starts(seen, configs, count, rng)
        reached = {s.config.global_batch: s.epochs for s in sorted(samples, key=lambda sample: sample.epochs)}
        points = _unseen(truth, configs, batches, reached, rng)
        if len(points) < AT_LEAST_MORE:
            continue
        for name in task.predictors:
            if not isinstance(registry.create("predictor", name), AccuracyPredictor):
                continue
            try:
                judged = _judge(seen, samples, name, points)
            except TooFewSamples:
                continue
            found.setdefault(name, []).append(judged)
    return [_row(seen.name, "accuracy", name, count, _Judged.all(draws)) for name, draws in found.items()]


def _starts(seen: Recording, configs: Sequence[Config], count: int, rng: np.random.Generator) -> list[Sample]:
    engine = Recorded(recording=seen, seed=int(rng.integers(1 << 30)))
    samples = []
    for number in range(count):
        replay = engine.replay(configs[int(rng.integers(len(configs)))], number)
        assert isinstance(replay, Replay)
        known = np.flatnonzero(np.isfinite(replay.accuracy)) + 1
        end = float(known[int(rng.integers(len(known)))]) if len(known) else 1.0
        samples.append(replay.sample(end, f"start {number}"))
    return samples


def _unseen(
    truth: Recording, configs: Sequence[Config], batches: Sequence[int], reached: dict[int, float],
    rng: np.random.Generator,
) -> list[tuple[Config, int, float]]:  # fmt: skip
    """Return (config, epoch, accuracy) that no start has shown, forty at most."""
    one_of = {config.global_batch: config for config in configs}
    points = []
    for batch in batches:
        seeds = truth.accuracy(one_of[batch])
        if seeds is None:
            continue
        known = np.isfinite(seeds).any(axis=0)
        middle = np.nanmedian(seeds[:, known], axis=0)
        epochs = np.flatnonzero(known) + 1
        later = [(one_of[batch], int(e), float(m)) for e, m in zip(epochs, middle, strict=True)]
        points += [point for point in later if point[1] > reached.get(batch, 0.0)]
    chosen = rng.permutation(len(points))[:40]
    return [points[int(place)] for place in chosen]


def _judge(
    seen: Recording, samples: Sequence[Sample], name: str, points: Sequence[tuple[Config, int, float]]
) -> _Judged:
    model = forecaster(seen.job, samples, seen.cluster, accuracy=name)
    last = max(epoch for _, epoch, _ in points)
    learning = model(Configs.of([config for config, _, _ in points]), last).learning
    assert learning is not None
    epochs = np.array([epoch for _, epoch, _ in points]) - 1
    right = np.array([value for _, _, value in points])
    drawn = seen.job.sign * learning.shown[learning.recipe, :, epochs]
    low, middle, high = np.quantile(drawn, (0.1, 0.5, 0.9), axis=1)
    return _Judged(right, middle, low, high)


@dataclass(frozen=True, slots=True)
class _Judged:
    """What was measured beside what was expected."""

    right: Floats
    middle: Floats
    low: Floats
    high: Floats

    @classmethod
    def all(cls, parts: Sequence[_Judged]) -> _Judged:
        """Return several as one."""
        return cls(*(np.concatenate([getattr(part, one.name) for part in parts]) for one in fields(cls)))


def _row(recording: str, quantity: str, predictor: str, samples: int, judged: _Judged) -> PredictionRow:
    right, size = judged.right, np.maximum(np.abs(judged.right), 1e-12)
    errors = np.abs(judged.middle - right)
    outside = np.maximum(judged.low - right, 0.0) + np.maximum(right - judged.high, 0.0)
    return PredictionRow(
        recording,
        quantity,
        predictor,
        samples,
        mre=float(errors.sum() / np.abs(right).sum()),
        mape=float(np.mean(errors / size)),
        coverage=float(np.mean(outside == 0)),
        interval_score=float(np.mean((judged.high - judged.low + 2 / _MISSED * outside) / size)),
    )
