"""Where a run begins: at the beginning, at an unfinished run, or at the probe that trained its recipe furthest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from cotune import progress
from cotune.checkpoints import Resumable, has_checkpoint, holds_its_end, is_own, meets, take, trained
from cotune.errors import NotFound
from cotune.identity import new_id, timestamp
from cotune.jobfile.settings import Settings
from cotune.run.launch import Launch
from cotune.run.training import seconds_limit
from cotune.store import Store
from cotune.types import RECORDED, Config, Goal, Job, Plan, Sample


@dataclass(frozen=True, slots=True)
class Beginning:
    """What a run goes on from, how many epochs that has trained, and with which seed."""

    seed: int
    folder: Path
    before: Sample | None = None
    trained: float = 0.0


@dataclass(frozen=True, slots=True)
class Beginnings:
    """Where a run of a job may begin: by what its store holds, in the folder of the project's runs."""

    settings: Settings
    store: Store
    runs: Path
    tell: Callable[[str], None]
    continuable: Callable[[Job, Goal, Sequence[Sample]], Sequence[Sample]]  # which samples a run may go on from

    def unfinished(self, seed: int | None) -> Beginning:
        """Return where the last unfinished run stopped, whose folder is used again."""
        job = self.settings.job
        left = self.store.unfinished_runs(job)
        if not left:
            raise NotFound(f"no unfinished run of {job.name} to resume")
        last = next((run for run in left if is_own(run.folder, self.runs)), None)
        if last is None:
            where = f"which is none of this project's run folders ({self.runs})"
            raise NotFound(f"run {left[0].id} of {job.name} is in {left[0].folder}, {where}: resume it there")
        epochs = last.epochs
        if not has_checkpoint(last.folder):
            self.tell(f"run {last.id} left no checkpoint in {last.folder}/checkpoint: it starts from the beginning")
            epochs = 0.0
        else:
            self.tell(f"going on with run {last.id}, which trained {progress.words(job, last.config, epochs)}")
        return Beginning(seed if seed is not None else last.seed or 0, Path(last.folder), last, epochs)

    def scratch(self, seed: int | None) -> Beginning:
        """Return the beginning of a run that goes on from nothing."""
        return Beginning(seed or 0, self.runs / new_id())

    def furthest(self, config: Config, goal: Goal, seed: int | None) -> Beginning:
        """Return the probe that trained this config's recipe furthest, its checkpoint copied; else from scratch."""
        # Replayed seeds are the recording's own, so that any probe of it can be gone on from.
        probe_seed = None if self.settings.engine == RECORDED else seed
        samples = self.continuable(self.settings.job, goal, self.store.samples(self.settings.job))
        before = Resumable.among(samples).of(config, goal, probe_seed)
        if before is None:
            return self.scratch(seed)
        begin = Beginning(before.seed or 0, self.runs / new_id(), before, trained(before))
        try:
            take(before, begin.folder)
        except OSError as error:
            words = f"the checkpoint of probe {before.id} cannot be copied, so the run starts from the beginning"
            self.tell(f"{words}: {error}")
            return self.scratch(seed)
        paid = f"{before.device_seconds:.3g} device-seconds"
        done = progress.words(self.settings.job, config, begin.trained)
        self.tell(f"going on from probe {before.id}: {done} trained before ({paid})")
        return begin


def finished(settings: Settings, goal: Goal, begin: Beginning, config: Config) -> Sample | None:
    """Return the sample of a run that has nothing left to train: its probe met the goal, or took all of its epochs."""
    before = begin.before
    if before is None or before.purpose != "probe":
        return None
    if not meets(settings.job, goal, before) and trained(before) < goal.cap:
        return None
    if not holds_its_end(before):
        return None
    return replace(_started(settings, goal, begin, config), accuracy=before.accuracy, ended=True)


def first_start(
    settings: Settings, config: Config, goal: Goal, begin: Beginning, plan: Plan | None
) -> tuple[Launch, Sample]:
    """Return the first start of a run, and the beginning of its sample."""
    sample = _started(settings, goal, begin, config)
    launch = Launch(
        sample.id,
        settings.job,
        config,
        goal.cap,
        begin.folder,
        None if goal.prefer == "accurate" else goal.target,
        begin.seed,
        resume=begin.trained > 0 or (begin.before is not None and has_checkpoint(begin.folder)),
        seconds_limit=seconds_limit(plan) if plan is not None and plan.config == config else None,
        trained=begin.trained,
        stop_grace=settings.stop_grace,
    )
    return launch, sample


def _started(settings: Settings, goal: Goal, begin: Beginning, config: Config) -> Sample:
    again = begin.before is not None and begin.before.folder == str(begin.folder)
    return Sample(
        config,
        epochs=begin.trained,
        purpose="run",
        id=new_id() if again else begin.folder.name,
        started=timestamp(),
        engine=settings.engine,
        folder=str(begin.folder),
        resumed_from=begin.before.id if begin.before else None,
        seed=begin.seed,
        goal=goal,
    )
