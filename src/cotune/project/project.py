"""One job from its file to its plan: what is measured, forecast, planned and run of it.

    project = cotune.open("cotune.yaml")
    project.profile(budget="5m")
    plan = project.plan(target=0.98, deadline="2h")
    project.predict(workers=4, batch_size=64)
    for event in project.run(plan): ...

A project is what a job file says and the store of its samples. The command line, the dashboard, the service,
the report and the exports use the same calls, so that one job has one forecast.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Self, Unpack

from cotune.display import Display
from cotune.errors import Infeasible, NotFound, UsageError
from cotune.jobfile import settings as job_settings
from cotune.jobfile.settings import PlanRequest, as_job_file
from cotune.plan import Search
from cotune.predict import ACCURACY, SECONDS, AccuracyPredictor, SecondsPredictor
from cotune.predict.evidence import Evidence, Predictors
from cotune.probe.design import Probe
from cotune.probe.outcome import ProfileOutcome
from cotune.project.profile import next_probe, profiled
from cotune.project.run import AS_PLANNED, USUAL, ProjectRun, RunLayout, RunOptions, prepared_run, require_run_words
from cotune.project.warnings import of_configs, of_start, open_target, other_goal, refuse_target
from cotune.project.workspace import Workspace
from cotune.recording.replayed import ReplayedJob
from cotune.space import Configs, check_counts
from cotune.store import Store
from cotune.types import Config, Forecast, Plan, Value
from cotune.units import duration


class Project(Workspace):
    """One job: what is measured, forecast, planned and run of it."""

    def profile(
        self,
        budget: str | float | None = None,
        *,
        max_samples: int = 16,
        cover: bool = False,
        retry_failed: bool = False,
        history: bool = True,
        seed: int = 0,
    ) -> ProfileOutcome:
        """Measure the job with a few short runs within a budget: a time, or device-seconds of a recording.

        With a target only what decides for the goal is measured, unless all configs are to be covered. Raises where
        nothing at all is known of the job's speed afterwards.
        """
        self.require_command()
        if not self.recorded:
            self.warn(self.warnings((), seed))
            self.warn(of_configs(self.settings.job, self.settings.space.configs()))
            self.warn(open_target(self.settings))
        outcome = profiled(
            self,
            budget,
            self.history() if history else None,
            max_samples=max_samples,
            cover=cover,
            retry_failed=retry_failed,
            seed=seed,
        )
        self.warn(self.warnings(outcome.samples))
        return outcome

    def enough_evidence(self, *, max_samples: int = 16, history: bool = True, seed: int = 0) -> Evidence:
        """Return what is known of the job; where that is too little to plan for its goal, measure first."""
        known, goal = self.evidence(history=history), self.settings.goal
        try:
            self.require_enough(known)
        except NotFound as missing:
            if (goal.target is None and goal.deadline is None) or not self.settings.job.command:
                raise
            self.display.note(f"{missing}; doing so now, for at most {duration(self.settings.profile_seconds)}")
            self.profile(max_samples=max_samples, history=history, seed=seed)
            known = self.evidence(history=history)
        except Infeasible:
            self.save_refusal()
            raise
        return known

    def next_probe(self, *, history: bool = True) -> Probe | None:
        """Return what a profile would measure first by now, or None where nothing is worth measuring for the goal."""
        return next_probe(self, self.history() if history else None)

    def plan(
        self,
        *,
        predictor: str | SecondsPredictor = SECONDS,
        accuracy_predictor: str | AccuracyPredictor = ACCURACY,
        search: str | Search = "grid",
        evidence: Evidence | None = None,
        history: bool = True,
        from_scratch: bool = False,
        seed: int = 0,
        **asked: Unpack[PlanRequest],
    ) -> Plan:
        """Return the best plan for what is asked, and keep it in the store; or raise `Infeasible` with the nearest.

        It is made from `evidence`, by default what the store holds; `from_scratch` continues no probe.
        """
        project = self.asking(**asked) if asked else self
        known = project.evidence(history=history) if evidence is None else evidence
        project.warn(project.warnings(known.samples))
        try:
            planner = project.planner(known, Predictors(predictor, accuracy_predictor, seed))
            plan = (planner.from_scratch() if from_scratch else planner).plan(search)
        except Infeasible as error:
            project.save_refusal()
            error.facts["next_probe"] = None if project.recorded else project.next_probe(history=history)
            raise
        project.warn(of_configs(project.settings.job, Configs.of([plan.config])))
        project.save(plan)
        return plan

    def run(
        self,
        plan: Plan | None = None,
        *,
        layout: RunLayout = AS_PLANNED,
        options: RunOptions = USUAL,
        target: float | str | None = None,
        deadline: float | str | None = None,
        epochs: int | None = None,
    ) -> ProjectRun:
        """Return a run of a plan (by default the latest in the store), to be iterated over or asked for its result.

        A layout wins over the plan's, and what is asked here over its goal, which is then forecast anew.
        """
        require_run_words(plan, layout, options)
        asked = {"target": target, "deadline": deadline, "epochs": epochs}
        given = {name: value for name, value in asked.items() if value is not None}
        project = self.with_settings(job_settings.laid_over(self.settings, given)) if given else self
        if plan is None and not (given or layout.whole or options.resume):
            project = self.for_last_refused() or self
        project.require_command()
        if not options.resume:
            known = project.every_row() if project.recorded else project.evidence(history=False)
            refuse_target(project.settings, known.samples)
        project.warn(project.warnings((), options.seed))
        run = prepared_run(project, plan, layout, options, tuple(given))
        if plan is None and run.itself is None and not (options.resume or project.recorded):
            project.warn(other_goal(project.settings, project.store, run.config))
        project.warn(of_start(project.settings, run.config))
        return run

    def for_last_refused(self) -> Self | None:
        """Return the project with the goal that a plan was asked for last, where that was refused."""
        goal = self.last_refused
        return self.with_settings(replace(self.settings, goal=goal)) if goal else None

    def predict(
        self,
        config: Config | None = None,
        *,
        predictor: str | SecondsPredictor = SECONDS,
        accuracy_predictor: str | AccuracyPredictor = ACCURACY,
        history: bool = True,
        seed: int = 0,
        **layout: Value,
    ) -> Forecast:
        """Return the forecast of one config, given as a record or by workers=, batch_size= and other axes."""
        wanted = config or self._config(layout)
        self.warn(self.warnings(()))
        predictors = Predictors(predictor, accuracy_predictor, seed)
        free = self.settings.space.global_batch is None
        return self.planner(self.evidence(history=history), predictors, accuracy=free).forecast(wanted)

    def _config(self, layout: Mapping[str, Value]) -> Config:
        """Return the config of some values of axes; those that are not given take their first."""
        space = self.settings.space
        if "workers" not in layout or ("batch_size" not in layout and space.global_batch is None):
            raise UsageError("a forecast is of one config: give both workers and batch_size")
        check_counts(layout)
        config = space.config(**layout)
        for device in self.settings.cluster.devices:
            if device.name == config.device and device.count and config.units > device.count:
                raise UsageError(f"{config} needs {config.units} of {device.name}, and there are {device.count}")
        return config


def open_project(
    file: str | Path | None = None,
    *,
    recording: str | Path | None = None,
    store: Store | str | Path | None = None,
    display: Display | None = None,
    **asked: Unpack[PlanRequest],
) -> Project:
    """Return the project of a job file (by default the nearest `cotune.yaml`), or of a recording to replay.

    What is asked is laid over what the file says, as flags are on the command line.
    """
    said, path = as_job_file(asked), Path(file) if file else None
    if recording is not None:
        return Project(replayed=ReplayedJob.open(Path(recording), said, path), store=store, display=display)
    path = path or job_settings.find(Path.cwd())
    if path is None:
        raise job_settings.no_job_file(Path.cwd())
    if path.is_dir():
        path /= job_settings.FILE_NAME
    return Project(settings=job_settings.load(path, said), store=store, folder=path.absolute().parent, display=display)
