"""Measuring as the verbs do it: probe after probe, each in the store before the next, the reason of each shown."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from cotune.checkpoints import tidy
from cotune.cli.engines import running_engine
from cotune.cli.options import require_command, runs_folder
from cotune.cli.output import note, progress
from cotune.errors import CotuneError, EngineError, OverBudget
from cotune.jobfile.pattern import suggested
from cotune.jobfile.settings import Settings
from cotune.predict.history import History
from cotune.probe.active import design_for
from cotune.probe.design import Chooser, Design
from cotune.probe.measure import Limits, profile
from cotune.probe.recalling import Recalling
from cotune.run.monitor import COUNTS_FROM_ZERO
from cotune.store import Store
from cotune.types import Job, Sample
from cotune.units import counted, duration

MOST_LINES = 10_000  # of a log, in which a metric should have shown itself


def measure(
    settings: Settings,
    kept: Store,
    known: Sequence[Sample],
    limits: Limits,
    *,
    for_goal: bool,
    history: History | None,
    seed: int,
) -> list[Sample]:
    """Measure and store; return the new samples."""
    require_command(settings)
    design = _design(settings, history, for_goal=for_goal)
    finished: dict[str, Sample] = {}
    with running_engine(settings) as engine, progress(limits.seconds) as shown:
        begun = engine.now()
        for step in profile(engine, design, known, limits, runs_folder(), seed=seed, engine_name=settings.engine):
            kept.save(settings.job, step.sample)
            finished[step.sample.id] = step.sample
            if step.sample.ended:
                tidy([*known, *finished.values()], runs_folder())
            spent = engine.now() - begun
            shown.update(spent, str(step), limits.seconds - spent if step.probe.curve else None)
            if step.sample.ended and step.sample.failed:
                note(f"failed: {step.probe.config}: {step.sample.failure}")
    if any(COUNTS_FROM_ZERO in (sample.warning or "") for sample in finished.values()):
        note(f"{settings.job.name}: {COUNTS_FROM_ZERO}")
    return list(finished.values())


def nothing_learnt(settings: Settings, known: Sequence[Sample], new: Sequence[Sample], limits: Limits) -> CotuneError:
    """Return why a profile told no seconds at all."""
    failures = [sample for sample in new if sample.failed]
    if failures:
        last = failures[-1]
        why = f"{last.failure}{readable(settings.job, last)}"
        return EngineError(f"every start of {settings.job.name} failed: {why}; its logs are in {last.folder}")
    if not new and any(sample.failed and not sample.unheard for sample in known):
        return EngineError(f"every config of {settings.job.name} failed before; --retry-failed tries them again")
    tried = f"{counted(len(new), 'start')} within {duration(limits.seconds)}"
    hint = readable(settings.job, new[-1]) if new else ""
    return OverBudget(f"nothing could be learnt of {settings.job.name}: {tried}; allow a larger --budget{hint}")


def readable(job: Job, sample: Sample) -> str:
    """Return the pattern that would read what a start of which nothing was heard has printed, if one can be told."""
    if sample.curve or sample.epoch_seconds is not None:
        return ""
    try:
        with (Path(sample.folder) / "rank-0.log").open(errors="replace") as log:
            found = suggested(islice(log, MOST_LINES), job.metric)
    except OSError:
        return ""
    return f"; it printed {found.line!r}, which --pattern '{found.pattern}' would read" if found else ""


def _design(settings: Settings, history: History | None, *, for_goal: bool) -> Chooser:
    asked = (settings.job, settings.goal, settings.space, settings.cluster)
    design: Chooser = design_for(*asked) if for_goal else Design(*asked)
    return Recalling(design, history) if history else design
