"""Measuring and planning one job, in a process of its own: whatever its file or script does, the service goes on.

    queued ─▶ profiling: plan by the samples there are ─▶ waiting, declined or failed
                  └─ exit status UNMEASURED: again, with workers ─▶ probes, each with the next fencing number ─▶ plan

The process ends when its service does: it holds the other end of a pipe. What it found it writes itself, in its
leader's term, so that a service that was killed meanwhile finds either nothing or all of it.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from dataclasses import dataclass, replace
from pathlib import Path

from cotune.cluster.service import states
from cotune.cluster.service.device_types import is_alike, on_cluster
from cotune.cluster.service.planned_job import PlannedJob
from cotune.cluster.service.preparation import TRIES, UNMEASURED, time_left
from cotune.cluster.service.queue import Queue
from cotune.cluster.service.queued import QueuedJob
from cotune.cluster.service.states import State
from cotune.display import Terminal
from cotune.documents import forecast_document
from cotune.errors import CotuneError, EngineError, Infeasible, NotFound
from cotune.jobfile.settings import Settings, laid_over
from cotune.project.project import Project
from cotune.remedies import explained
from cotune.run.launch import Engine, Launch, opened_engine
from cotune.run.lease import current
from cotune.store import open_store, rows
from cotune.types import Cluster, Forecast, Sample
from cotune.units import duration

MOST_OF_DEADLINE = 0.25  # that measuring may take, where the job file allows it more


class FencedEngine:
    """An engine on which every start of one job takes the next fencing number of the store first."""

    def __init__(self, engine: Engine, queue: Queue, id: str) -> None:
        self._engine, self._queue, self._id = engine, queue, id
        self.stop, self.wait, self.now, self.close = engine.stop, engine.wait, engine.now, engine.close

    def start(self, launch: Launch) -> None:
        """Start a launch, unless the job may not start any more."""
        above = current(launch.folder)
        job = self._queue.change(
            self._id,
            lambda status: states.begun(status, State.PROFILING, above),
            f"measuring {launch.config}",
            workers=launch.config.units,
        )
        self._engine.start(replace(launch, fence=job.status.fence))


@dataclass(frozen=True, slots=True)
class Preparation:
    """One job on its way to a plan, on a service's cluster, `workers` of which measuring may use; none: it is not."""

    queue: Queue  # in the leader's term
    job: QueuedJob
    settings: Settings  # what its file says
    cluster: Cluster
    workers: int

    def run(self) -> None:
        """Measure as far as that is needed, plan, and write what came of it."""
        try:
            planned = self._planned()
        except Infeasible as error:
            nearest = [forecast_document(near) for near in error.nearest if isinstance(near, Forecast)]
            result = {"nearest": nearest, **error.document(nearest)}
            self.queue.become(self.job.id, State.DECLINED, explained(error, self.job.file.named), result=result)
        except CotuneError as error:
            self.queue.become(self.job.id, State.FAILED, explained(error, self.job.file.named))
        else:
            words = f"planned {planned.wants}: {duration(planned.interval[1])} forecast"
            self.queue.become(self.job.id, State.WAITING, words, belief=planned.document())

    def _planned(self) -> PlannedJob:
        settings = self._on_cluster(self.settings)
        unknown = () if is_alike(self.cluster) else self._unmeasured(settings)
        try:
            if not unknown:
                return self._learnt(settings)
        except NotFound as error:
            if error.remedy not in ("profile", "profile_longer"):
                raise
        except Infeasible as error:
            if error.remedy not in ("profile", "profile_longer") and not _may_change(error):
                raise
        if not self.workers:
            sys.exit(UNMEASURED)
        self._measure(laid_over(settings, {"search": {"device": unknown}}) if unknown else settings)
        return self._learnt(settings)

    def _unmeasured(self, settings: Settings) -> tuple[str, ...]:
        """Return the types of device that a job may have and was never measured on."""
        known = {sample.config.device for sample in self.queue.store.samples(settings.job) if sample.epoch_seconds}
        return tuple(device.name for device in settings.cluster.devices if device.name not in known)

    def _project(self, settings: Settings, engine: Engine | None = None) -> Project:
        folder, store = self.job.file.folder, self.queue.store
        return Project(settings=settings, engine=engine, store=store, folder=folder, display=Terminal())

    def _learnt(self, settings: Settings) -> PlannedJob:
        return PlannedJob.learn(self._project(settings), types=not is_alike(self.cluster))

    def _on_cluster(self, settings: Settings) -> Settings:
        """Return the settings on the devices that there are, with what is left of the deadline."""
        settings = on_cluster(settings, self.cluster)
        goal = settings.goal
        if goal.deadline is not None:
            goal = replace(goal, deadline=time_left(self.job, goal.deadline, self.queue.now()))
        return replace(settings, goal=goal)

    def _measure(self, settings: Settings) -> None:
        few = tuple(workers for workers in _workers(settings) if workers <= self.workers)
        narrow = laid_over(settings, {"search": {"workers": few}}) if few else settings
        budget = settings.profile_seconds
        if settings.goal.deadline is not None:
            budget = min(budget, MOST_OF_DEADLINE * settings.goal.deadline)
        for tries_left in reversed(range(TRIES)):
            try:
                with opened_engine(settings.engine, settings.engine_settings) as engine:
                    fenced = FencedEngine(engine, self.queue, self.job.id)
                    self._project(narrow, fenced).profile(budget, retry_failed=tries_left < TRIES - 1)
            except EngineError as error:
                if not tries_left or not _came_from_outside(error):
                    raise
            else:
                return


def _workers(settings: Settings) -> tuple[int, ...]:
    """Return the numbers of workers that may be chosen."""
    axis = next((axis for axis in settings.space.axes if axis.name == "workers"), None)
    return tuple(value for value in axis.values if isinstance(value, int)) if axis else ()


def _may_change(error: Infeasible) -> bool:
    """Say whether measuring more could make a goal feasible: something near it was not itself measured."""
    near = [one for one in error.nearest if isinstance(one, Forecast)]
    return any(one.epoch_seconds.source != "measured" for one in near)


def _came_from_outside(error: EngineError) -> bool:
    """Say whether nothing was measured because starts were killed: it was no config's fault, and may go well again."""
    samples = error.facts.get("samples")
    failures = [one.failure for one in samples if isinstance(one, Sample)] if isinstance(samples, list) else []
    return bool(failures) and all(failure is not None and failure.from_outside for failure in failures)


def _end_with_the_service() -> None:
    """End this process, and with it the workers it started, when the pipe that the service holds is closed."""

    def watch() -> None:
        while os.read(0, 1024):
            pass
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=watch, daemon=True, name="leash").start()


def main() -> None:
    """Prepare the job that the service names; the store is in the environment, where no other user can read it."""
    id, term, workers = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    given = json.loads(sys.stdin.buffer.readline())
    _end_with_the_service()
    settings, cluster = rows.record(Settings, given["settings"]), rows.record(Cluster, given["cluster"])
    with open_store(os.environ["COTUNE_STORE"], Path()) as store:
        queue = Queue(store, term)
        Preparation(queue, queue.get(id), settings, cluster, workers).run()


if __name__ == "__main__":
    main()
