"""A profile of a project: which probes, on which engine, within which limits, each in the store before the next."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from cotune.display import Display
from cotune.jobfile.settings import Settings
from cotune.predict.history import History
from cotune.predict.samples import informative
from cotune.probe.active import design_for
from cotune.probe.design import Chooser, Design
from cotune.probe.measure import Limits
from cotune.probe.outcome import ProfileOutcome
from cotune.probe.recalling import Recalling
from cotune.probe.session import measure
from cotune.recording.replayed import ReplayedJob
from cotune.run.engines.recorded import Recorded
from cotune.run.launch import Engine
from cotune.run.opening import opened_engine
from cotune.store import Store
from cotune.types import Sample
from cotune.units import seconds


@dataclass(frozen=True, slots=True)
class ProfileOptions:
    """How a job is measured: with how many starts at most, for its goal alone or all over, and from which seed."""

    max_samples: int = 16
    cover: bool = False
    retry_failed: bool = False
    seed: int = 0


@dataclass(frozen=True, slots=True)
class ProfileContext:
    """What measuring a job needs: what its file says, its store and engine, where files go and what is shown."""

    settings: Settings
    store: Store
    engine: str | Engine
    runs: Path
    display: Display
    replayed: ReplayedJob | None = None

    def measure(self, budget: str | float | None, options: ProfileOptions, history: History | None) -> ProfileOutcome:
        """Measure within a budget: a time, or device-seconds of a recording; raise where nothing is learnt."""
        settings, limits = self.settings, self._limits(budget, options.max_samples)
        known = self.store.samples(settings.job)
        tried = tuple(sample for sample in informative(known) if not (sample.failed and options.retry_failed))
        with self._opened(limits, options.seed) as engine:
            new = measure(
                engine,
                self._design(history, known, cover=options.cover),
                tried,
                limits,
                self.runs if self.replayed is None else Path(settings.job.name),
                save=self._save,
                display=self.display,
                seed=options.seed,
                engine_name=settings.engine,
            )
        outcome = ProfileOutcome(settings.job, new, known, tried, limits)
        outcome.require_speed()
        return outcome

    def _save(self, sample: Sample) -> None:
        self.store.save(self.settings.job, sample)

    def _limits(self, budget: str | float | None, most: int) -> Limits:
        if self.replayed is not None:
            return Limits(float("inf"), most, device_seconds=None if budget is None else float(budget))
        allowed = self.settings.profile_seconds if budget is None else seconds(str(budget))
        return Limits(allowed, most, self.settings.timeout)

    def _design(self, history: History | None, known: Sequence[Sample], *, cover: bool) -> Chooser:
        settings = self.settings
        asked = (settings.job, settings.goal, settings.space, settings.cluster)
        design: Chooser = Design(*asked) if cover and self.replayed is None else design_for(*asked, known)
        return Recalling(design, history) if history else design

    @contextmanager
    def _opened(self, limits: Limits, seed: int) -> Iterator[Engine]:
        """Yield the engine to measure on, or to replay on within a budget."""
        replayed, engine = self.replayed, self.engine
        if replayed is not None:
            engine = Recorded(replayed.folder, limits.device_seconds, seed, recording=replayed.recording)
        try:
            with opened_engine(engine, self.settings.engine_settings) as opened:
                yield opened
        except KeyboardInterrupt:
            self.display.note("interrupted: what was measured is kept, and the same command goes on from there")
            raise
