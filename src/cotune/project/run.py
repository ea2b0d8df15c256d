"""A run of a project: to its goal, in several starts if need be, each step in the store before the next.

for event in run: ...        as it happens, with the seconds left
run.result()                 to the end, shown where somebody watches
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path

from cotune import progress
from cotune.checkpoints import has_checkpoint, lineage
from cotune.documents import goal_words
from cotune.errors import EngineError, Infeasible, NotFound, UsageError
from cotune.forecast import LEAST_EVALUATIONS
from cotune.jobfile.settings import Settings
from cotune.predict.countdown import Countdown, expected_end, usual_scatter
from cotune.predict.learning.schedules import continuable
from cotune.predict.samples import informative
from cotune.probe.outcome import readable
from cotune.probe.self_change import SelfChange
from cotune.probe.self_measuring import SelfMeasuring
from cotune.probe.self_measuring_constants import SELF_MEASURING, SelfMeasuringConstants
from cotune.project.ended_runs import EndedRun, ended_run, trail_of
from cotune.project.layout_change import LayoutChange
from cotune.project.measured_itself import MeasuredItself, measured_itself
from cotune.project.run_watch import RunWatch, own_odds, planned_odds
from cotune.project.workspace import Workspace
from cotune.run.attempt import StopRule
from cotune.run.beginning import Beginning, Beginnings, finished, first_start
from cotune.run.launch import Launch, opened_engine
from cotune.run.supervise import RunEvent, supervise
from cotune.run.training import config_of_run, goal_of_run, require_taken
from cotune.space import check_counts
from cotune.types import RECORDED, Cause, Config, Goal, Plan, Quantity, Sample, Value
from cotune.units import number
from cotune.worker.kubeflow import TrainJobStatus

FIRST_WORD_SECONDS = 60.0  # for start-up, before a silent run counts as hanging
PATIENCE = 10.0  # times the slowest epoch that was forecast, before a silent run counts as hanging
GAPS = 20.0  # times the longest silence so far, where nothing was forecast


@dataclass(frozen=True, slots=True)
class RunLayout:
    """What a run has instead of its plan's: None and nothing leave the plan's."""

    workers: int | None = None
    batch_size: int | None = None
    servers: int | None = None
    axes: Mapping[str, Value] = field(default_factory=dict)

    @property
    def whole(self) -> bool:
        """Return whether it needs no plan to say what to run."""
        return bool(self.workers and self.batch_size)


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How a run goes: from where, with which seed, how often it is started again, and whether its layout may change."""

    seed: int | None = None  # None: that of what it goes on from
    resume: bool = False
    from_scratch: bool = False
    restarts: int = 3
    fixed: bool = False


AS_PLANNED, USUAL = RunLayout(), RunOptions()


def require_run_words(plan: object, layout: object, options: object) -> None:
    """Refuse what is no plan, layout or options of a run, and show what would be."""
    asked = (
        ("plan", plan, Plan | None, "project.plan(...)"),
        ("layout", layout, RunLayout, "RunLayout(workers=2)"),
        ("options", options, RunOptions, "RunOptions(resume=True)"),
    )
    for name, value, kind, example in asked:
        if not isinstance(value, kind):
            raise UsageError(f"{name} of a run should be such as {example}, not {value!r:.80}")


def prepared_run(
    project: Workspace, plan: Plan | None, layout: RunLayout, options: RunOptions, asked: Collection[str]
) -> ProjectRun:
    """Return an unfinished run as it was, or a plan with what was given laid over it, ready to begin.

    `asked` names the parts of the goal that win over the plan's.
    """
    settings = project.settings
    refused = project.last_refused if plan is None and not (asked or layout.whole or options.resume) else None
    if refused is not None:
        project.display.note(_without_plan(project, refused))
    else:
        plan = plan or project.store.latest_plan(settings.job)
    if plan and options.from_scratch and layout == AS_PLANNED and not asked:
        require_sure_from_scratch(plan)
    if plan is None and layout == AS_PLANNED and not options.resume and _is_tunable(settings):
        return measuring_itself(project, options)
    left_at = _beginnings(project).unfinished(options.seed) if options.resume else None
    last = left_at.before if left_at else None
    config = _config(settings, plan, layout, last.config if last else None)
    goal = goal_of_run(
        None if layout.whole and plan and plan.config != config else plan,
        settings.goal,
        asked,
        last.goal if last else None,
    )
    if plan and plan.config != config:  # its goal stays, its cap was for its own config
        plan, goal = None, goal if last else replace(goal, max_epochs=settings.goal.max_epochs)
    asks = plan and (plan.goal.target, plan.goal.deadline, plan.goal.epochs)
    if plan and (goal.target, goal.deadline, goal.epochs) != asks:
        plan = project.following(plan, goal, options.seed or 0)
    return ProjectRun(project, options, config, goal, plan, left_at)


def _without_plan(project: Workspace, refused: Goal) -> str:
    """Return that there is no plan for the goal that was refused last, and how an older one is run."""
    job, unit = project.settings.job, project.settings.cluster.unit
    words = f"no plan for {goal_words(job, refused, unit)}: the one asked for last was refused"
    for older in project.store.plans(job, last=1):
        words += f"; cotune run --plan {older.id} runs the one before, for {goal_words(job, older.plan.goal, unit)}"
    return words


def require_sure_from_scratch(plan: Plan) -> None:
    """Refuse to train a plan from scratch that is sure enough only where it goes on from a probe."""
    if plan.continues and plan.probability < plan.goal.confidence:
        raise Infeasible(_unsure_from_scratch(plan), "confidence", [plan.forecast], remedy="unsure_from_scratch")


def _unsure_from_scratch(plan: Plan) -> str:
    return (
        f"this plan goes on from probe {plan.continues}; from scratch it meets its goal with probability "
        f"{plan.probability:.2f}, {plan.goal.confidence:g} was asked"
    )


def _beginnings(project: Workspace) -> Beginnings:
    return Beginnings(project.settings, project.store, project.runs_folder, project.display.note, continuable)


def _is_tunable(settings: Settings) -> bool:
    """Return whether a run without a plan can find a config by itself: it has a target, and something to choose."""
    return settings.goal.target is not None and (settings.engine == RECORDED or len(settings.space) > 1)


def measuring_itself(
    project: Workspace, options: RunOptions, constants: SelfMeasuringConstants = SELF_MEASURING
) -> ProjectRun:
    """Return a run that begins with what a handful of time probes and other jobs say is best."""
    project.display.note("no plan: measuring on the way (cotune profile and cotune plan measure first)")
    settings, replayed, seed = project.settings, project.replayed, options.seed or 0
    known = informative(project.evidence().samples)
    cut_short = constants if replayed else constants.timed  # probes of a recording cannot be
    brain = SelfMeasuring(
        settings.job,
        settings.goal,
        settings.space,
        settings.cluster,
        seed,
        known,
        replayed.recording.restart_seconds if replayed else None,
        constants.staying if options.fixed else cut_short,
        # What short probes evaluate is no curve to plan by.
        told_odds=lambda config: project.told_odds(config, seed) if known else None,
    )
    itself = measured_itself(
        settings, project.engine, brain, project.runs_folder, project.display, save=project.keep, seed=seed
    )
    return ProjectRun(project, options, itself.config, settings.goal, None, None, itself)


def _config(settings: Settings, plan: Plan | None, layout: RunLayout, last: Config | None) -> Config:
    """Return what was given laid over the last start of a run that is resumed, or over the plan."""
    if last is not None and layout == AS_PLANNED:
        return last
    require_taken(settings.job, layout.axes)
    device = settings.cluster.devices[0].name
    given = {"workers": layout.workers, "batch_size": layout.batch_size, "servers": layout.servers}
    check_counts({name: value for name, value in given.items() if value is not None})
    base = last or (plan.config if plan else None)
    config = config_of_run(base, settings.space, device, axes=dict(layout.axes), **given)
    if last is not None and lineage(config) != lineage(last):
        raise UsageError(f"{config} cannot go on with the weights of {last}: another recipe")
    return config


@dataclass(frozen=True)
class ProjectRun:
    """A run that is about to begin: what it trains and for which goal. It is carried out as it is looked at."""

    project: Workspace
    options: RunOptions
    config: Config
    goal: Goal
    plan: Plan | None  # where the config is the plan's
    left_at: Beginning | None = None  # where it is resumed
    itself: MeasuredItself | None = None  # where it measures itself

    @property
    def settings(self) -> Settings:
        return self.project.settings

    def __iter__(self) -> Iterator[RunEvent]:
        """Train to the end; yield every step once it is in the store."""
        with self.itself.closing if self.itself else nullcontext():
            yield from self._to_the_end()

    def _to_the_end(self) -> Iterator[RunEvent]:
        begin = self._beginning()
        nothing_left = finished(self.settings, self.goal, begin, self.config)
        if nothing_left is not None:
            self.project.keep(nothing_left)
            yield RunEvent(nothing_left, words="nothing is left to train")
            return
        launch, sample = first_start(self.settings, self.config, self.goal, begin, self.plan)
        try:
            yield from self._posted(self._train(launch, sample), launch.epochs)
        except KeyboardInterrupt:
            self.project.display.note(f"interrupted: what was measured is kept{afterwards(launch.folder)}")
            raise

    def _posted(self, events: Iterator[RunEvent], cap: float) -> Iterator[RunEvent]:
        """Yield the events; where this runs in a Kubeflow TrainJob, that is told what is left."""
        status = TrainJobStatus.of_environment()
        if status is None:
            yield from events
            return
        metrics: dict[str, float] = {}
        for event in events:
            sample, left = event.sample, event.left
            metrics = {
                progress.each(self.settings.job): progress.amount(self.settings.job, sample.config, sample.epochs)
            }
            metrics |= {self.settings.job.metric: sample.accuracy} if sample.accuracy is not None else {}
            share = sample.seconds / (sample.seconds + left.mid) if left and left.mid else sample.epochs / cap
            status.tell(share, (left.low, left.mid, left.high) if left else None, metrics)
            yield event
        status.end(metrics)
        if status.refused:
            self.project.display.note(f"the TrainJob's status was not taken: {status.refused}")

    def result(self, see: Callable[[RunEvent], None] = lambda _: None) -> EndedRun:
        """Train to the end, shown where somebody watches; return what came of it, or raise why it failed.

        Who wants to `see` every event gets it once it is in the store.
        """
        last: Sample | None = None
        since = 0.0 if self.settings.engine == RECORDED else self._measured  # by a clock on the wall
        with self.project.display.progress(float(self.goal.cap), since) as shown:
            for event in self:
                last = event.sample
                see(event)
                if event.note:
                    self.project.display.note(event.note)
                if event.left is None:
                    shown.update(last.epochs, event.words)
                else:
                    shown.update(last.epochs, event.words, event.left.mid, (event.left.low, event.left.high))
        assert last is not None  # a run has a start
        self._refuse_failure(last)
        trail = trail_of(last, self.project.store.samples(self.settings.job))
        measured = self.itself.probes if self.itself else ()
        return ended_run(self.settings.job, self.settings.cluster, trail, self.plan, self.goal, measured=measured)

    @property
    def _measured(self) -> float:
        """Return the seconds of the probes that it has paid for."""
        return sum(probe.seconds for probe in self.itself.probes) if self.itself else 0.0

    def _beginning(self) -> Beginning:
        if self.left_at is not None:
            return self.left_at
        if self.options.from_scratch:
            begin = _beginnings(self.project).scratch(self.options.seed)
        else:
            begin = _beginnings(self.project).furthest(self.config, self.goal, self.options.seed)
        plan = self.plan
        if begin.before is None and plan and plan.continues and plan.probability < plan.goal.confidence:
            self.project.display.note(_unsure_from_scratch(plan))
        return begin

    def _train(self, launch: Launch, sample: Sample) -> Iterator[RunEvent]:
        settings, options = self.settings, self.options
        countdown = Countdown(_usual_scatter(settings, launch.config.device))
        with opened_engine(
            self.itself.engine if self.itself else self.project.engine, settings.engine_settings
        ) as engine:
            recorded = settings.engine == RECORDED
            fixed = options.fixed or recorded  # a plan is replayed as it is
            layouts = LayoutChange(settings, self.project.evidence, launch, None if fixed else self.plan)
            if self.itself is not None:
                known = replace(self.project.evidence(), samples=self.itself.brain.known)  # what it measured is no law
                odds = planned_odds(settings, self.goal, launch, known, engine.now, before=self._measured)
                own = own_odds(odds, launch.config.global_batch)
                itself = SelfChange(self.itself.brain, self.itself.probes, launch.folder, engine.now, own)
                watch = RunWatch(self.goal, itself, itself, before=self._measured)
            else:
                odds = planned_odds(settings, self.goal, launch, self.project.evidence(), engine.now)
                watch = RunWatch(self.goal, odds, layouts, fixed=fixed)
            until = _until(settings, launch, self.plan)
            for event in supervise(engine, launch, until, sample, restarts=options.restarts, change=watch.move):
                if event.sample.ended or not recorded:  # a replay takes no time
                    self.project.keep(event.sample)
                countdown.see(event.sample)
                watch.see(event.sample)
                words, left = self._told(event.sample, launch, countdown, watch)
                yield replace(event, words=words, left=left, note=event.note or watch.warning(left), odds=watch.told)

    def _told(
        self, sample: Sample, launch: Launch, countdown: Countdown, watch: RunWatch
    ) -> tuple[str, Quantity | None]:
        """Return how far a run is, and its ETA as the run itself tells it."""
        job = self.settings.job
        if sample.epoch_seconds is None and not sample.curve:
            return f"starting {sample.config}", None
        accuracy = f", {job.metric} {sample.accuracy:.4g}" if sample.accuracy is not None else ""
        reached, most = (progress.amount(job, sample.config, parts) for parts in (sample.epochs, launch.epochs))
        words = f"{progress.each(job)} {number(reached, 3)} of at most {number(most)}{accuracy}"
        met = ": target met" if job.reached(launch.target, sample) else ""
        if met or sample.ended:
            return f"{'ended at ' if sample.ended else ''}{words}{met}", None
        epochs = watch.end(float(launch.epochs))
        if epochs is None:
            end = expected_end(job, sample, epochs=launch.epochs, target=launch.target, plan=self.plan)
            doubtful = end.doubt and reached < most and len(sample.curve) >= LEAST_EVALUATIONS
            words, epochs = words + (f" (no earlier end is expected: {end.doubt})" if doubtful else ""), end.epochs
        known = sample.epoch_seconds is not None  # no ETA before the first real step
        return words + watch.words, countdown.left(epochs) if known else None

    def _refuse_failure(self, sample: Sample) -> None:
        """Raise what a run that failed has to say."""
        if sample.failure and sample.failure.cause is Cause.NOT_RECORDED:
            raise NotFound(sample.failure.words)
        if sample.failed:
            why = f"{sample.failure}{readable(self.settings.job, sample)}"
            raise EngineError(f"{sample.config} failed: {why}; its logs are in {sample.folder}", sample=sample)


def afterwards(folder: Path) -> str:
    """Return what may be done after Ctrl-C."""
    if has_checkpoint(folder):
        return ", and cotune run --resume goes on from there"
    return "; it left no checkpoint, so cotune run --resume would train from the beginning"


def _until(settings: Settings, launch: Launch, plan: Plan | None) -> StopRule:
    forecast = FIRST_WORD_SECONDS + PATIENCE * plan.forecast.epoch_seconds.high if plan else None
    return StopRule(epochs=launch.epochs, silence=settings.timeout or forecast, grace=launch.stop_grace, gaps=GAPS)


def _usual_scatter(settings: Settings, device: str) -> float:
    """Return how much epochs scatter on such an engine: on this machine, whatever else it does counts."""
    here = settings.engine == "local" and not settings.engine_settings.get("nodes")
    load, cores = (os.getloadavg()[0], len(os.sched_getaffinity(0))) if here else (0.0, 1)
    return usual_scatter(load, cores, device)
