"""Synthetic jobs whose truth is known: samples of a step law, and of learning curves."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from cotune.types import Config, Evaluation, Job, Sample

EXAMPLES = 50_000
JOB = Job("synthetic", examples=EXAMPLES)

Steps = Callable[[int, int], float]


def timed(step_seconds: Steps, configs: Iterable[tuple[int, int]], noise: float = 0.0, seed: int = 0) -> list[Sample]:
    """Return samples of configs (batch, workers) whose step takes what the function says."""
    rng = np.random.default_rng(seed)
    return [
        Sample(
            Config.data_parallel(batch, workers),
            epochs=1.0,
            epoch_seconds=EXAMPLES
            / (batch * workers)
            * step_seconds(batch, workers)
            * float(np.exp(noise * rng.normal())),
        )
        for batch, workers in configs
    ]


def grid(batches: Sequence[int] = (16, 32, 64, 128), workers: Sequence[int] = (1, 2, 4, 8)) -> list[tuple[int, int]]:
    """Return every (batch, workers)."""
    return [(batch, count) for batch in batches for count in workers]


def plain_step(batch: int, workers: int) -> float:
    """Return the seconds of a step: launching, computing, and a ring of workers."""
    return 0.01 + 0.0005 * batch + 0.02 * (workers - 1) / workers


def accuracy(batch: float, epoch: float) -> float:
    """Return what a recipe has learnt: too large and too small batches learn slower."""
    progress = epoch / (1 + batch / 512 + 8 / batch)
    return float(0.95 - 0.6 * (progress + 0.5) ** -0.8)


def trained(
    batches: Iterable[int],
    epochs: int = 20,
    value: Callable[[float, float], float] = accuracy,
    noise: float = 0.0,
    seed: int = 0,
) -> list[Sample]:
    """Return samples on one worker with a learning curve of whole epochs."""
    rng = np.random.default_rng(seed)
    return [
        Sample(
            Config.data_parallel(batch, 1),
            epochs=float(epochs),
            epoch_seconds=EXAMPLES / batch * plain_step(batch, 1),
            curve=tuple(
                Evaluation(epoch, value(batch, epoch) + noise * float(rng.normal()), 0.0)
                for epoch in range(1, epochs + 1)
            ),
        )
        for batch in batches
    ]
