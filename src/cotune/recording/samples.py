"""Every row of a recording as samples, for study: no probe is drawn and nothing is charged."""

from __future__ import annotations

from cotune.recording.truth import Recording
from cotune.types import RECORDED, Config, Evaluation, Sample


def every_sample(recording: Recording) -> list[Sample]:
    """Return one sample for each recorded time, and one for each recorded curve."""
    times = [
        Sample(
            Config.data_parallel(
                batch, workers, device, servers=servers, accumulate=accumulate, axes=axes
            ),
            epochs=1.0,
            epoch_seconds=seconds,
            seconds=seconds,
            id=f"time {workers} {batch} {repeat}",
            engine=RECORDED,
        )
        for (device, accumulate, servers, axes), cells in recording.times.items()
        for workers, by in cells.items()
        for batch, repeats in by.items()
        for repeat, seconds in enumerate(repeats)
    ]  # fmt: skip
    device = recording.cluster.devices[0].name
    curves = [
        Sample(
            Config.data_parallel(max(1, batch // (workers or 1)), workers or 1, device),
            epochs=curve.epochs[-1],
            accuracy=curve.accuracy[-1],
            curve=tuple(
                Evaluation(epoch, accuracy, 0.0)
                for epoch, accuracy in zip(curve.epochs, curve.accuracy, strict=True)
            ),
            id=f"curve {batch} {seed}",
            engine=RECORDED,
        )
        for workers, by in recording.curves.items()
        for batch, seeds in by.items()
        for seed, curve in enumerate(seeds)
    ]  # fmt: skip
    return times + curves
