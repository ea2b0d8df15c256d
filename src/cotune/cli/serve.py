"""`cotune serve`: take jobs, and give each one workers as a policy decides, on a real engine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cotune.cli._options import Engine, Json, Seed, StoreUrl

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cotune.config import Settings
    from cotune.schedule._loop import Decision
    from cotune.serve import Queued, Serving
    from cotune.store import Store
    from cotune.types import Cluster


def serve(
    jobs: Annotated[
        list[Path] | None, typer.Argument(help="Job files, or folders with one.", show_default=False)
    ] = None,
    queue: Annotated[
        Path | None, typer.Option("--queue", help="Also take every job file that comes into this folder, until Ctrl-C.")
    ] = None,
    policy: Annotated[
        str, typer.Option("--policy", help="Who runs on what: joint, fifo, srtf, elasticflow, ...")
    ] = "joint",
    slots: Annotated[
        int | None,
        typer.Option("--slots", min=1, help="Workers there are for all jobs (default: cores, or the device's count)."),
    ] = None,
    store: StoreUrl = None,
    engine: Engine = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Run many jobs on one engine as a scheduling policy decides. Each must have been measured by cotune profile."""
    from cotune import algorithms
    from cotune.cli._options import open_store, runs_folder
    from cotune.cli._output import emit_json, note
    from cotune.cli._running import running_engine
    from cotune.errors import UsageError
    from cotune.schedule._loop import drive
    from cotune.schedule._placement import Count
    from cotune.serve import World

    if not jobs and queue is None:
        raise UsageError("no jobs: name their files or folders, or a --queue to take them from")
    chosen: Any = algorithms.create("schedule", policy)
    first = [_settings(path, engine) for path in jobs or ()]
    with open_store(store) as kept:
        desk = _Desk(kept, first, queue, engine, slots, seed)
        with running_engine(desk.like) as running:
            world = World(running, desk.arrivals, runs_folder(), kept.save, engine_name=desk.like.engine)
            try:
                for active in drive(chosen, desk.cluster, world, Count(), _tell):
                    served = world.jobs[active.number]
                    note(f"[{world.now():.1f} s] {served.queued.job.name}: {_outcome(served, desk.cluster)[1]}")
            except KeyboardInterrupt:
                world.interrupt()
                raise
    ended = [_document(served, desk.cluster) for served in world.jobs]
    if json:
        emit_json("serve", {"policy": policy, "slots": desk.slots, "jobs": ended, "declined": desk.declined})
    else:
        _show(ended, desk.declined)
    _end(ended, desk.declined, quiet=json)


class _Desk:
    """Where jobs are handed in: those named at first, and those that come into the queue's folder."""

    def __init__(
        self,
        kept: Store,
        first: Sequence[Settings],
        queue: Path | None,
        engine: str | None,
        slots: int | None,
        seed: int,
    ) -> None:
        from cotune.errors import NotFound, UsageError

        self._kept, self._queue, self._engine, self._seed = kept, queue, engine, seed
        self._waiting = list(first)
        self._seen: set[Path] = set()
        self.declined: list[dict[str, str]] = []
        self._names: set[str] = set()
        if queue is not None and not queue.is_dir():
            raise NotFound(f"no folder {queue} to take jobs from")
        self._look()
        if not self._waiting:
            raise UsageError(f"no job file in {queue} yet: the first one tells the engine and the device")
        self.like = self._waiting[0]
        self.slots = slots or _slots(self.like)
        self.cluster = _of_size(self.like.cluster, self.slots)

    def arrivals(self, now: float) -> list[Queued] | None:
        """Return the jobs that were handed in since; None when none will be."""
        from cotune.cli._output import note
        from cotune.errors import CotuneError

        self._look()
        if not self._waiting and self._queue is None:
            return None
        found = []
        for settings in self._waiting:
            try:
                found.append(self._queued(settings, now))
            except CotuneError as error:
                if self._queue is None:
                    raise
                self.declined.append({"job": settings.job.name, "reason": str(error)})
                note(f"declined {settings.job.name}: {error}")
        self._waiting = []
        return found

    def _look(self) -> None:
        """Take in the job files that have come into the queue's folder."""
        from cotune.cli._output import note
        from cotune.errors import CotuneError

        for path in sorted(self._queue.glob("*.yaml")) if self._queue else ():
            if path in self._seen:
                continue
            self._seen.add(path)
            try:
                self._waiting.append(_settings(path, self._engine))
            except CotuneError as error:
                self.declined.append({"job": path.name, "reason": str(error)})
                note(f"declined {path.name}: {error}")

    def _queued(self, settings: Settings, now: float) -> Queued:
        from cotune.errors import UsageError

        if settings.engine != self.like.engine or settings.cluster.devices[0].name != self.cluster.devices[0].name:
            here = f"{self.like.engine} with {self.cluster.devices[0].name}"
            raise UsageError(
                f"it asks for {settings.engine} with {settings.cluster.devices[0].name}; served here is {here}"
            )
        name = settings.job.name
        while name in self._names:
            name += "'"
        self._names.add(name)
        return _believed(settings, self._kept, self.cluster, name, now, self._seed)


def _settings(path: Path, engine: str | None) -> Settings:
    from cotune import config
    from cotune.errors import NotFound

    settings = config.load(path / config.FILE_NAME if path.is_dir() else path, {"engine": engine})
    if not settings.job.command:
        raise NotFound(f"{path} has no command to run: say `run:`")
    return settings


def _slots(settings: Settings) -> int:
    import os

    counts = [device.count for device in settings.cluster.devices if device.count]
    nodes = settings.engine_settings.get("nodes")
    return counts[0] if counts else nodes if isinstance(nodes, int) else len(os.sched_getaffinity(0))


def _of_size(cluster: Cluster, slots: int) -> Cluster:
    from dataclasses import replace

    return replace(cluster, devices=(replace(cluster.devices[0], count=slots),))


def _believed(settings: Settings, kept: Store, cluster: Cluster, name: str, now: float, seed: int) -> Queued:
    """Return a job with what its samples tell of every config; refuse one that could not meet its goal even alone."""
    import math
    from dataclasses import replace

    import numpy as np

    from cotune.cli._forecasting import known_samples, make_forecaster, needs_curves, recalled, require_curves
    from cotune.cli._output import note
    from cotune.cli.plan import planned
    from cotune.plan.assess import assess
    from cotune.reuse import has_checkpoint
    from cotune.schedule import Submission
    from cotune.schedule._work import Steady
    from cotune.serve import Queued
    from cotune.types import INTERRUPTED, Z90

    history = recalled(settings, kept)
    samples = known_samples(settings, kept, history)
    if needs_curves(settings):
        require_curves(settings, history.blended(samples) if history else samples)
    settings = replace(settings, cluster=cluster)
    plan = planned(settings, samples, history=history, seed=seed)
    free = replace(settings.goal, deadline=None, max_cost=None)
    outlook = make_forecaster(settings, samples, "auto", "auto", seed, history)(
        settings.space.configs(), free.max_epochs
    )
    found = assess(outlook, free, cluster, settings.job.sign)
    forecasts = [found.forecast(int(row)) for row in np.flatnonzero(found.feasible & np.isfinite(found.rate))]
    rates = {one.config: 1.0 / one.seconds.mid for one in forecasts}
    needed = {one.config.global_batch: one.epochs_needed.mid if one.epochs_needed else one.epochs for one in forecasts}
    deadline = settings.goal.deadline
    submission = Submission(
        name=name,
        submit=now,
        gpus=plan.config.workers + plan.config.servers,
        seconds=plan.forecast.seconds.mid,
        deadline=None if deadline is None else now + deadline,
        work=Steady(1.0, rates),
        wants=plan.config,
        device=plan.config.device,
        batch_size=plan.config.batch_size,
    )
    spread = math.log(plan.forecast.seconds.high / plan.forecast.seconds.mid) / Z90
    cut_short = [run for run in kept.unfinished_runs(settings.job) if str(run.failure).startswith(INTERRUPTED)]
    before = next((run for run in cut_short if has_checkpoint(run.folder)), None)
    if before is not None:
        note(f"{name} goes on from run {before.id}, which trained {before.epochs:.3g} epochs")
    return Queued(settings.job, settings.goal, submission, needed, spread, before, settings.timeout)


def _tell(decision: Decision) -> None:
    from cotune.cli._output import note

    for active in decision.stops:
        if active not in decision.starts:
            note(f"[{decision.at:.1f} s] {active.job.name}: stopped, others go first")
    for active in decision.starts:
        note(f"[{decision.at:.1f} s] {active.job.name}: {active.config}")


def _outcome(served: Serving, cluster: Cluster) -> tuple[str, str]:
    """Return how a job ended, in one word and in a line."""
    from cotune.run.training import missed
    from cotune.serve import whole
    from cotune.units import duration

    sample, active = whole(served), served.active
    if active.declined:
        return "declined", "declined: its deadline cannot be kept beside the others'"
    if served.failure is not None or sample is None:
        return "failed", f"failed: {served.failure}"
    seconds = active.waited + active.executed
    short = missed(
        served.queued.job, served.queued.goal, sample, seconds=seconds, cost=_cost(served, cluster), unit=cluster.unit
    )
    return (
        ("missed", short)
        if short
        else ("met", f"goal met after {duration(seconds)}, {duration(active.waited)} of it waiting")
    )


def _cost(served: Serving, cluster: Cluster) -> float:
    from cotune.reports.findings import cost_of

    return cost_of(served.starts, cluster)


def _document(served: Serving, cluster: Cluster) -> dict[str, Any]:
    from cotune.documents import config_document, goal_document
    from cotune.serve import whole

    outcome, words = _outcome(served, cluster)
    sample, active = whole(served), served.active
    return {
        "job": active.job.name,
        "goal": goal_document(served.queued.job, served.queued.goal, cluster.unit),
        "outcome": outcome,
        "words": words,
        "submitted": active.job.submit,
        "waited": active.waited,
        "seconds": active.executed,
        "starts": len(served.starts),
        "config": config_document(sample.config) if sample else None,
        "epochs": sample.epochs if sample else 0.0,
        "accuracy": sample.accuracy if sample else None,
        "cost": {"value": _cost(served, cluster), "unit": cluster.unit},
        "samples": [start.id for start in served.starts],
    }


def _show(ended: Sequence[dict[str, Any]], declined: Sequence[dict[str, str]]) -> None:
    from cotune.cli._output import table
    from cotune.units import duration, number

    columns = ("job", "workers", "batch", "starts", "waited", "ran", "cost", "outcome")
    rows: list[tuple[object, ...]] = [
        (
            one["job"],
            one["config"]["workers"] if one["config"] else "",
            one["config"]["batch_size"] if one["config"] else "",
            one["starts"],
            duration(one["waited"]),
            duration(one["seconds"]),
            f"{number(one['cost']['value'], 3)} {one['cost']['unit']}",
            one["words"],
        )
        for one in ended
    ]
    rows += [(one["job"], "", "", 0, "", "", "", f"declined: {one['reason']}") for one in declined]
    table(columns, rows)


def _end(ended: Sequence[dict[str, Any]], declined: Sequence[dict[str, str]], *, quiet: bool) -> None:
    """Leave with the exit code of the worst that happened to a job."""
    from cotune.errors import CotuneError, EngineError, Missed

    failed = [one["job"] for one in ended if one["outcome"] == "failed"]
    short = [one["job"] for one in ended if one["outcome"] in ("missed", "declined")] + [one["job"] for one in declined]
    error: CotuneError | None = None
    if failed:
        error = EngineError(f"{len(failed)} jobs failed: {', '.join(failed)}")
    elif short:
        error = Missed(f"{len(short)} jobs did not meet their goals: {', '.join(short)}")
    if error is not None and quiet:
        raise typer.Exit(error.exit_code)
    if error is not None:
        raise error
