"""Measuring to the end: probe after probe, each in the store before the next, the reason of each shown."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from cotune import progress
from cotune.checkpoints import tidy
from cotune.display import Display
from cotune.probe.design import Chooser
from cotune.probe.measure import Limits, probe_loop
from cotune.run.launch import Engine
from cotune.run.monitor import COUNTS_FROM_ZERO
from cotune.types import RECORDED, Job, Sample
from cotune.units import number


def measure(
    engine: Engine,
    design: Chooser,
    known: Sequence[Sample],
    limits: Limits,
    folder: Path,
    *,
    save: Callable[[Sample], None],
    display: Display,
    seed: int,
    engine_name: str,
) -> tuple[Sample, ...]:
    """Measure what a design asks for within some limits; save every sample, and return the new ones."""
    replayed = engine_name == RECORDED
    finished: dict[str, Sample] = {}
    with display.progress(float(limits.samples) if replayed else limits.seconds) as shown:
        begun = engine.now()
        for step in probe_loop(engine, design, known, limits, folder, seed=seed, engine_name=engine_name):
            sample = step.sample
            finished[sample.id] = sample
            if replayed and not sample.ended:
                continue  # it takes no time: nothing is lost by waiting for its end
            save(sample)
            spent = engine.now() - begun
            left = limits.seconds - spent if step.probe.curve and not replayed else None
            detail = "" if replayed else _how_far(design.job, sample)
            shown.update(step.number if replayed else spent, str(step), left, detail=detail)
            if sample.ended and not replayed:
                tidy([*known, *finished.values()], folder)
            if sample.ended and sample.failed:
                display.note(f"failed: {step.probe.config}: {sample.failure}")
    if any(COUNTS_FROM_ZERO in (sample.warning or "") for sample in finished.values()):
        display.note(f"{design.job.name}: {COUNTS_FROM_ZERO}")
    return tuple(finished.values())


@contextmanager
def told_when_interrupted(display: Display) -> Iterator[None]:
    """Say what Ctrl-C leaves of the measuring in this block."""
    try:
        yield
    except KeyboardInterrupt:
        display.note("interrupted: what was measured is kept, and the same command goes on from there")
        raise


def _how_far(job: Job, sample: Sample) -> str:
    """Return how far a start is, and how good its model is then, as far as it has told."""
    if sample.epoch_seconds is None and not sample.curve:
        return ""
    accuracy = f", {job.metric} {sample.accuracy:.4g}" if sample.accuracy is not None else ""
    return f"{progress.each(job)} {number(progress.amount(job, sample.config, sample.epochs), 3)}{accuracy}"
