"""Samples as the rows of a recording: each start is a repeat of its config and a seed of its recipe."""

from __future__ import annotations

from collections.abc import Iterable

from cotune.recording import AccuracyRow, TimeRow
from cotune.types import Sample


def recorded_tables(samples: Iterable[Sample]) -> tuple[list[TimeRow], list[AccuracyRow]]:
    """Return the rows of both tables; failed starts have none."""
    good = [sample for sample in samples if not sample.failed and sample.epoch_seconds is not None]
    times = [
        TimeRow(
            sample.config.workers,
            sample.config.batch_size,
            sample.epoch_seconds,
            sample.config.device,
            repeat=sample.id,
            accumulate=sample.config.accumulate,
            servers=sample.config.servers,
            axes=sample.config.axes,
        )
        for sample in good
        if sample.epoch_seconds is not None
    ]
    accuracy = [
        AccuracyRow(sample.config.global_batch, point.epoch, point.accuracy, sample.id)
        for sample in good
        for point in sample.curve
    ]
    return times, accuracy
