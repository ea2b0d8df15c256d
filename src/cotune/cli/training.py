"""Training to the end: every step in the store before the next, how far it is and what is left shown."""

from __future__ import annotations

import os

from cotune.checkpoints import has_checkpoint
from cotune.cli.engines import running_engine
from cotune.cli.moving import Moving
from cotune.cli.output import Progress, note, progress
from cotune.jobfile.settings import Settings
from cotune.predict.predictors.eta import Countdown, expected_end, usual_scatter
from cotune.project import Project
from cotune.run.attempt import Until
from cotune.run.launch import Launch
from cotune.run.supervise import supervise
from cotune.types import Plan, Sample

FIRST_WORD_SECONDS = 60.0  # for start-up, before a silent run counts as hanging
PATIENCE = 10.0  # times the slowest epoch that was forecast, before a silent run counts as hanging
GAPS = 20.0  # times the longest silence so far, where nothing was forecast


def train(project: Project, first: tuple[Launch, Sample], plan: Plan | None, *, restarts: int, fixed: bool) -> Sample:
    """Run to the end, in several starts if need be; return the sample of the last."""
    settings, kept = project.settings, project.store
    launch, sample = first
    countdown = Countdown(_usual_scatter(settings, launch.config.device))
    with running_engine(settings, lambda: afterwards(launch)) as engine, progress(float(launch.epochs)) as shown:
        change = Moving(project, launch, None if fixed else plan)
        until = _until(settings, launch, plan)
        for moment in supervise(engine, launch, until, sample, restarts=restarts, change=change):
            sample = moment.sample
            kept.save(settings.job, sample)
            if moment.note:
                note(moment.note)
            countdown.see(sample)
            _tell(shown, settings, sample, launch, plan, countdown)
    return sample


def afterwards(launch: Launch) -> str:
    """Return what may be done after Ctrl-C."""
    if has_checkpoint(launch.folder):
        return ", and cotune run --resume goes on from there"
    return "; it left no checkpoint, so cotune run --resume would train from the beginning"


def _until(settings: Settings, launch: Launch, plan: Plan | None) -> Until:
    forecast = FIRST_WORD_SECONDS + PATIENCE * plan.forecast.epoch_seconds.high if plan else None
    return Until(epochs=launch.epochs, silence=settings.timeout or forecast, grace=launch.stop_grace, gaps=GAPS)


def _usual_scatter(settings: Settings, device: str) -> float:
    """Return how much epochs scatter on such an engine: on this machine, whatever else it does counts."""
    here = settings.engine == "local" and not settings.engine_settings.get("nodes")
    load, cores = (os.getloadavg()[0], len(os.sched_getaffinity(0))) if here else (0.0, 1)
    return usual_scatter(load, cores, device)


def _tell(
    shown: Progress, settings: Settings, sample: Sample, launch: Launch, plan: Plan | None, countdown: Countdown
) -> None:
    """Show how far a run is, and its ETA as the run itself tells it."""
    if sample.epoch_seconds is None and not sample.curve:
        shown.update(0.0, f"starting {sample.config}")
        return
    accuracy = f", {settings.job.metric} {sample.accuracy:.4g}" if sample.accuracy is not None else ""
    words = f"epoch {sample.epochs:.3g} of at most {launch.epochs}{accuracy}"
    if settings.job.reached(launch.target, sample):
        shown.update(sample.epochs, f"{words}: target met")
        return
    end = expected_end(settings.job, sample, epochs=launch.epochs, target=launch.target, plan=plan)
    words += f" (no end before that is in sight: {end.doubt})" if end.doubt else ""
    left = countdown.left(end.epochs) if sample.epoch_seconds is not None else None  # no ETA before the first real step
    if left is None:
        shown.update(sample.epochs, words)
        return
    shown.update(sample.epochs, words, left.mid, (left.low, left.high))
