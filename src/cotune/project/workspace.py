"""What one job is worked on with: its settings, its store, its engine, and what is known of it.

`Project` adds what is done with it. Whatever carries out a profile or a run is given this part alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self, Unpack

from cotune import registry
from cotune.checkpoints import joined
from cotune.display import Display, LoggedDisplay
from cotune.errors import CotuneError, NotFound
from cotune.jobfile.metric import as_measured
from cotune.jobfile.settings import PlanRequest, Settings, as_job_file, described, laid_over
from cotune.predict.evidence import PREDICTORS, Evidence, Predictors
from cotune.predict.history import History
from cotune.project import warnings
from cotune.project.not_measured import measured_otherwise, not_measured
from cotune.project.planner import Planner
from cotune.recording.replayed import ReplayedJob
from cotune.recording.samples import every_sample
from cotune.run.launch import Engine, require_engine
from cotune.store import Store, open_store, work_folder
from cotune.store.location import RUNS
from cotune.types import Config, Goal, Plan, Sample


class Workspace:
    """One job with its store, its engine and its display, and what is known of it."""

    def __init__(
        self,
        job: str | Sequence[str] | Mapping[str, Any] | None = None,
        *,
        search: Mapping[str, Any] | None = None,
        goal: Mapping[str, Any] | None = None,
        devices: Mapping[str, Any] | None = None,
        engine: str | Mapping[str, Any] | Engine | None = None,
        store: Store | str | Path | None = None,
        folder: Path | str | None = None,
        settings: Settings | None = None,
        replayed: ReplayedJob | None = None,
        display: Display | None = None,
    ) -> None:
        """Take a job as a job file would describe it; or whole `settings`, or a recording to replay.

        Samples are kept in the `store`, by default that of the folder's project. `display` shows progress.
        """
        self.folder = Path(folder) if folder is not None else Path.cwd()
        require_engine(engine)
        self._engine = None if engine is None or isinstance(engine, str | Mapping) else engine
        named = engine if isinstance(engine, str | Mapping) else None
        self.replayed = replayed
        settings = settings or (replayed.settings() if replayed else None)
        parts = {"search": search, "devices": devices, "engine": named}
        self._settings = settings or described(job, parts, {} if goal is None else goal, self.folder)
        self._given = store
        self.display: Display = display or LoggedDisplay()
        self._shown: set[str] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the store, unless it was given."""
        if "store" in self.__dict__ and not isinstance(self._given, Store):
            self.store.close()

    def __repr__(self) -> str:
        return f"<Project {self.settings.job.name}: {len(self.settings.space)} configs, engine {self.settings.engine}>"

    @cached_property
    def store(self) -> Store:
        """Return where the samples are kept; a recording's stay in memory unless a store is named."""
        if isinstance(self._given, Store):
            return self._given
        if self._given is None and self.replayed is not None:
            return open_store(":memory:")
        return open_store(None if self._given is None else str(self._given), self.folder)

    @cached_property
    def settings(self) -> Settings:
        """Return what the job file says, with the metric that was measured and what is counted of its model."""
        settings = self._settings if self.recorded else as_measured(self._settings, self.store)
        if settings.model is None or settings.job.model is not None or settings.job.large is not None:
            return settings
        counted = self.store.counted_model(settings.job)
        if counted is None:
            try:
                counted = registry.of_room("counted_model", "counting")(settings.model, settings.inputs)
            except (CotuneError, ModuleNotFoundError) as error:
                self.display.note(
                    f"the model {settings.model} cannot be counted, so its memory must be measured: {error}"
                )
        return replace(settings, job=replace(settings.job, model=counted))

    @property
    def recorded(self) -> bool:
        """Return whether a recording is replayed instead of running the job."""
        return self.replayed is not None

    @property
    def engine(self) -> str | Engine:
        """Return what the job runs on: an engine that was given, or the name of one."""
        return self._engine or self.settings.engine

    @property
    def runs_folder(self) -> Path:
        """Return where the files of every start go."""
        return work_folder(self.folder) / RUNS

    def asking(self, **asked: Unpack[PlanRequest]) -> Self:
        """Return the project with something else asked of it; the store is the same."""
        said = as_job_file(asked)
        if self.replayed is not None:
            return self._derived(replayed=self.replayed.asking(said))
        return self._derived(settings=laid_over(self._settings, said))

    def with_goal(self, goal: Goal) -> Self:
        """Return the project with another goal, choosing from the same configs."""
        return self.with_settings(replace(self.settings, goal=goal))

    def with_settings(self, settings: Settings) -> Self:
        """Return the project with other settings, and the same store; their metric is taken as it is."""
        return self._derived(settings=replace(settings, metric_named=True), replayed=self.replayed)

    def _derived(self, settings: Settings | None = None, replayed: ReplayedJob | None = None) -> Self:
        derived = type(self)(
            settings=settings,
            replayed=replayed,
            engine=self._engine,
            store=self.store,
            folder=self.folder,
            display=self.display,
        )
        derived._shown = self._shown
        return derived

    def evidence(self, *, history: bool = True) -> Evidence:
        """Return what is known of the job: its own samples, and those of jobs like it unless they are left out."""
        samples = joined(self.store.samples(self.settings.job))
        return Evidence(tuple(samples), self.history() if history else None)

    def every_row(self) -> Evidence:
        """Return all that a recording holds, for study only: nothing is drawn and nothing is charged."""
        assert self.replayed is not None, "only a recording can be read without measuring"
        return Evidence(tuple(every_sample(self.replayed.recording)))

    def history(self) -> History | None:
        """Return what is known of jobs like this one, if the store holds any."""
        job = self.settings.job
        return History.of(job, self.settings.cluster, self.store.alike(job)) or None

    def planner(
        self, evidence: Evidence | None = None, predictors: Predictors = PREDICTORS, *, accuracy: bool | None = None
    ) -> Planner:
        """Return what forecasts and plans from what was measured, or raise why that is not enough.

        Accuracy is forecast where the goal needs it, or as `accuracy` says.
        """
        known = self.evidence() if evidence is None else evidence
        self.require_enough(known)
        return Planner.learn(self.settings, known, predictors, with_accuracy=accuracy)

    def require_enough(self, evidence: Evidence) -> None:
        """Refuse to plan where nothing is known of the job's speed, or too little of the accuracy that is asked for."""
        settings = self.settings
        otherwise = not (evidence.samples or self.recorded) and measured_otherwise(settings, self.store)
        if not evidence.timed or otherwise:
            raise not_measured(settings, self.store, self.folder)
        if settings.space.needs_accuracy(settings.goal):
            try:
                evidence.require_accuracy(settings.job, settings.goal, settings.engine)
            except NotFound:
                warnings.refuse_per_cent(settings, evidence.samples)
                raise

    def warnings(self, samples: Sequence[Sample] | None = None, seed: int | None = None) -> tuple[str, ...]:
        """Return what of the job, its goal and its samples (by default the store's) may not be meant so.

        A `seed` is that of a start to come.
        """
        settings = self.settings
        known = self.store.samples(settings.job) if samples is None else samples
        of_target = tuple(warnings.of_target(settings, known))
        if self.recorded:
            return of_target
        return (*warnings.of_job(settings, self.store, seed), *of_target, *warnings.of_axes(settings.job, known))

    def warn(self, found: Iterable[str]) -> None:
        """Show some warnings, each once."""
        for words in found:
            if words not in self._shown:
                self._shown.add(words)
                self.display.note(words)

    def require_command(self) -> None:
        """Refuse to start a job that does not say how it is run."""
        if not self.recorded and not self.settings.job.command:
            raise NotFound("no command to run", remedy="command")

    def following(self, plan: Plan, goal: Goal, seed: int) -> Plan | None:
        """Return a plan's config forecast anew for another goal; None where too little was measured for that."""
        try:
            return self.with_goal(goal).planner(predictors=Predictors(seed=seed)).follow(plan)
        except CotuneError:
            return None

    def told_odds(self, config: Config, seed: int) -> float | None:
        """Return the P(met) that a plan tells of a config; None where too little was measured for that."""
        try:
            return self.planner(predictors=Predictors(seed=seed)).forecast(config).probability
        except CotuneError:
            return None

    def keep(self, sample: Sample) -> None:
        """Write a sample of the job into the store, as it is now."""
        self.store.save(self.settings.job, sample)

    def save(self, plan: Plan) -> None:
        """Keep a plan with what it was chosen from, for a run to follow."""
        self.store.save_plan(self.settings.job, plan, self.settings.space, self.settings.cluster)

    @property
    def last_refused(self) -> Goal | None:
        """Return the goal that a plan was asked for last, where that was refused."""
        refused = self.store.refusal(self.settings.job.name, (self.settings.job.fingerprint,))
        return refused.goal if refused else None

    def save_refusal(self) -> None:
        """Keep that the goal was refused: a run follows no plan that was made for another one before."""
        self.store.save_refusal(self.settings.job, self.settings.goal)
