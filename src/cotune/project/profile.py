"""A profile of a project: which probes, on which engine, within which limits, each in the store before the next."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cotune.checkpoints import joined
from cotune.predict.history import History
from cotune.predict.samples import informative
from cotune.probe.active import design_for
from cotune.probe.design import Chooser, Design, Probe
from cotune.probe.measure import Limits
from cotune.probe.outcome import ProfileOutcome
from cotune.probe.recalling import Recalling
from cotune.probe.session import measure, told_when_interrupted
from cotune.project.workspace import Workspace
from cotune.run.engines.recorded import Recorded
from cotune.run.launch import Engine, opened_engine
from cotune.units import seconds


def profiled(
    project: Workspace,
    budget: str | float | None,
    history: History | None,
    *,
    max_samples: int,
    cover: bool,
    retry_failed: bool,
    seed: int,
) -> ProfileOutcome:
    """Measure within a budget: a time, or device-seconds of a recording; raise where nothing is learnt."""
    settings, limits = project.settings, _limits(project, budget, max_samples)
    known = project.store.samples(settings.job)
    tried = tuple(sample for sample in informative(known) if not (sample.failed and retry_failed))
    with _opened(project, limits, seed) as engine:
        new = measure(
            engine,
            _design(project, history, cover=cover),
            tried,
            limits,
            Path(settings.job.name) if project.recorded else project.runs_folder,
            save=project.keep,
            display=project.display,
            seed=seed,
            engine_name=settings.engine,
        )
    outcome = ProfileOutcome(settings.job, new, known, tried, limits)
    outcome.require_speed()
    return outcome


def next_probe(project: Workspace, history: History | None, *, max_samples: int = 16) -> Probe | None:
    """Return what a profile would measure first now, or None where nothing is worth it."""
    known = project.store.samples(project.settings.job)
    design = _design(project, history, cover=False)
    return design.next(joined(list(informative(known))), max_samples)


def _design(project: Workspace, history: History | None, *, cover: bool) -> Chooser:
    settings = project.settings
    asked = (settings.job, settings.goal, settings.space, settings.cluster)
    design: Chooser = Design(*asked) if cover and not project.recorded else design_for(*asked)
    return Recalling(design, history) if history else design


def _limits(project: Workspace, budget: str | float | None, most: int) -> Limits:
    if project.recorded:
        return Limits(float("inf"), most, device_seconds=None if budget is None else float(budget))
    allowed = project.settings.profile_seconds if budget is None else seconds(str(budget))
    return Limits(allowed, most, project.settings.timeout)


@contextmanager
def _opened(project: Workspace, limits: Limits, seed: int) -> Iterator[Engine]:
    """Yield the engine to measure on, or to replay on within a budget."""
    replayed, engine = project.replayed, project.engine
    if replayed is not None:
        engine = Recorded(replayed.folder, limits.device_seconds, seed, recording=replayed.recording)
    with told_when_interrupted(project.display), opened_engine(engine, project.settings.engine_settings) as opened:
        yield opened
