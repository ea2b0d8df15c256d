"""Trying configs, one after another, within a budget: the loop around whatever chooses them.

A curve that is taken up again goes on from its checkpoint, where there is one. A probe that
says nothing for far longer than any epoch so far is ended, and so is a profile whose first
starts all failed, or the first without a word that could be read. Such a start is tried again by
the next profile: what reads it may have changed since. A start that trained all its epochs and never told
the metric of the target ends it too: no other would.

Lines that a job prints have the times at which they were read. Where its first start was over too quickly for these
to tell its pace, it is started again and told to train for long; it is stopped as soon as they do, as all later
starts are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from cotune import progress
from cotune.checkpoints import Resumable, joined, take, trained
from cotune.errors import EngineError
from cotune.identity import new_id, timestamp
from cotune.jobfile.pattern import per_cent
from cotune.predict.metric_bounds import asked_in_per_cent
from cotune.predict.samples import informative, is_brief
from cotune.probe.design import MOST_TIME_EPOCHS, Chooser, Probe
from cotune.run.attempt import StopRule, attempt
from cotune.run.launch import Engine, Launch
from cotune.types import RECORDED, ProgressUnit, Sample
from cotune.worker.report import as_word

HOPELESS = 3  # failed starts without a good one before a profile gives up
LEAST_PATIENCE = 20.0  # seconds
SLOWER_START = 4  # times the longest start-up so far that another may take
CHECKPOINT_SECONDS = 10.0  # for a curve's job to come to a checkpoint once enough was seen


@dataclass(frozen=True, slots=True)
class Limits:
    """What measuring may take: seconds on the engine's clock, starts, and seconds per start.

    `device_seconds` is what an engine that replays is itself told not to exceed. The seconds in which the engine comes
    up may not count: a run that follows on it would take them as well.
    """

    seconds: float = 300.0
    samples: int = 16
    timeout: float | None = None
    device_seconds: float | None = None
    engine_counts: bool = True

    def starts_left(self, made: int, spent: float, once: float = 0.0) -> int:
        """Return how many more starts there may be: as allowed, and as the seconds left hold at this pace.

        `once` are the seconds in which the engine came up, which no further start takes.
        """
        allowed = self.samples - made
        if not made or spent <= once:
            return allowed
        return max(1, int(min(allowed, (self.seconds - spent) / ((spent - once) / made))))


@dataclass(frozen=True, slots=True)
class ProfileStep:
    """Where a profile stands: the probe in hand, of how many at most, and its sample so far."""

    number: int
    of: int
    probe: Probe
    sample: Sample

    def __str__(self) -> str:
        return f"probe {self.number} of at most {self.of}: {self.probe.reason}"


def probe_loop(
    engine: Engine,
    design: Chooser,
    known: Sequence[Sample],
    limits: Limits,
    folder: Path,
    *,
    seed: int = 0,
    engine_name: str = "local",
) -> Iterator[ProfileStep]:
    """Measure until the space is covered or a limit is reached; yield every sample as it grows."""
    begun = engine.now()
    samples = list(informative(known))
    before = len(samples)
    seen: set[int] = set()
    quick = not design.job.hears and any(map(is_brief, samples))
    again: Probe | None = None
    number, most = 0, min(limits.samples, design.remaining(joined(samples)))
    while number < limits.samples:
        spent = engine.now() - begun - (0.0 if limits.engine_counts else _engine_seconds(samples[before:]))
        once = _came_up(samples[before:]) if limits.engine_counts else 0.0
        left = limits.seconds - spent
        whole = joined(samples)
        probe = again or design.next(whole, limits.starts_left(number, spent, once), seen)
        if probe is None or left < least_seconds(samples) or hopeless(samples[before:]):
            return
        if engine_name != RECORDED and _is_in_doubt(design, samples):
            return
        share = design.share(probe, left, whole, seen)
        if probe.curve:
            seen.add(probe.config.global_batch)
        if share is None:
            continue
        number += 1
        grace = CHECKPOINT_SECONDS if probe.curve else 1.0
        once_up = not (limits.engine_counts or samples[before:])
        silence = limits.timeout or patience(samples)
        until = StopRule(probe.epochs, share, limits.timeout, silence, grace, once_up=once_up)
        begun_by = Resumable.among(whole).of(probe.config) if probe.curve and probe.length is None else None
        launch = _launch(design, probe, folder / new_id(), seed + number, begun_by, quick=quick)
        begin = Sample(
            probe.config,
            epochs=launch.trained,
            id=launch.id,
            started=timestamp(),
            engine=engine_name,
            folder=str(launch.folder),
            resumed_from=begun_by.id if begun_by else None,
            seed=launch.seed,
        )
        for sample in attempt(engine, launch, until, begin):
            yield ProfileStep(number, max(number, most), probe, sample)
        if sample.epoch_seconds is None and not sample.failed:  # the budget ran out before it said anything
            return
        samples.append(sample)
        again = None if quick or not _ended_too_soon(design, launch, sample) else probe
        quick = quick or again is not None
        if probe.curve:
            require_metric(launch, sample)


def require_metric(launch: Launch, sample: Sample) -> None:
    """Refuse a job that trained all its epochs and never told the metric that its target is on."""
    if launch.target is None or sample.failed or sample.curve or sample.epochs < launch.epochs:
        return
    job, whole = launch.job, progress.words(launch.job, sample.config, launch.epochs)
    raise EngineError(
        f"{job.name} trained {whole} and never told {job.metric}, which the target is on: cotune.report(epoch=..., "
        f"{as_word(job.metric)}=...), or a pattern that reads it; its logs are in {sample.folder}",
        samples=[sample],
    )


def _is_in_doubt(design: Chooser, samples: Sequence[Sample]) -> bool:
    """Return whether the user has to be asked for the unit of the target before more is measured for it."""
    return not per_cent(design.job) and asked_in_per_cent(design.job, design.goal.target, samples)


def hopeless(samples: Sequence[Sample]) -> bool:
    """Return whether the job itself seems broken: the first starts all failed, and not for want of memory."""
    broken = [sample.failed and not sample.out_of_memory for sample in samples]
    unheard = bool(samples) and samples[0].unheard
    return (len(broken) >= HOPELESS or unheard) and all(broken)


def patience(samples: Sequence[Sample]) -> float | None:
    """Return the seconds of silence after which a probe counts as hanging: far longer than any epoch or start."""
    known = [sample.epoch_seconds for sample in samples if sample.epoch_seconds is not None]
    starts = SLOWER_START * max(map(_start, samples), default=0.0)
    return max(LEAST_PATIENCE, 10 * max(known), starts) if known else None


def least_seconds(samples: Sequence[Sample]) -> float:
    """Return what even the shortest probe takes, as far as is known: the start-up of engine and job."""
    return min(map(_start, samples), default=0.0)


def _came_up(samples: Sequence[Sample]) -> float:
    """Return the seconds in which the engine came up, which are not paid again.

    That is what its first start took longer than a later one; half of it, since starts that were short so far tell
    little of those to come: learning curves must not go short.
    """
    engine = [sample.terms.engine or 0.0 for sample in samples]
    return 0.5 * (engine[0] - min(engine[1:], default=0.0)) if engine else 0.0


def _engine_seconds(samples: Sequence[Sample]) -> float:
    """Return the seconds in which the engine came up for the first of some starts."""
    return (samples[0].terms.engine or 0.0) if samples else 0.0


def _start(sample: Sample) -> float:
    """Return the seconds before the first step, as far as they are known."""
    return sum(sample.terms.known().get(name, 0.0) for name in ("engine", "startup"))


def _ended_too_soon(design: Chooser, launch: Launch, sample: Sample) -> bool:
    """Return whether a start trained all it was told before the lines that were read could tell its pace."""
    done, longer = sample.epochs >= launch.epochs, design.goal.max_epochs > launch.epochs
    return not design.job.hears and not sample.failed and done and longer and is_brief(sample)


def _launch(
    design: Chooser, probe: Probe, folder: Path, seed: int, before: Sample | None, *, quick: bool = False
) -> Launch:
    """Return the start of a probe, going on from what was trained before if anything was.

    A job that reports once an epoch shows its pace by the second report. A learning curve is told
    the epochs of a whole run, of which it is the beginning; where the rate falls to the end of a run, its own length.
    A `quick` one is told as many, since two epochs are over before their times are known.
    """
    counts_epochs = (
        design.job.counting == ProgressUnit()
    )  # others may be evaluated at any step: they are stopped instead
    whole = float(design.goal.max_epochs) if probe.curve or quick or not counts_epochs else probe.epochs
    most = probe.length or max(int(MOST_TIME_EPOCHS), int(np.ceil(whole)))
    launch = Launch(
        folder.name, design.job, probe.config, most, folder, design.goal.target, seed, probe_epochs=probe.epochs
    )
    if before is None:
        return launch
    take(before, folder)
    return replace(launch, resume=True, trained=trained(before), seed=before.seed or 0)
