"""Where a run begins: at the beginning, at an unfinished run, or at the probe that trained its recipe furthest."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from cotune.checkpoints import Kept, has_checkpoint, is_own, meets, take, trained
from cotune.cli.options import runs_folder
from cotune.cli.output import note
from cotune.errors import NotFound
from cotune.jobfile.settings import Settings
from cotune.run.launch import Launch
from cotune.run.training import seconds_limit
from cotune.stamps import new_id, timestamp
from cotune.store import Store
from cotune.types import RECORDED, Config, Goal, Plan, Sample
from cotune.units import counted


@dataclass(frozen=True, slots=True)
class Beginning:
    """What a run goes on from, how many epochs that has trained, and with which seed."""

    seed: int
    folder: Path
    before: Sample | None = None
    trained: float = 0.0


def unfinished(settings: Settings, kept: Store, seed: int | None) -> Beginning:
    """Return where the last unfinished run stopped, whose folder is used again."""
    found = kept.unfinished_runs(settings.job)
    if not found:
        raise NotFound(f"no unfinished run of {settings.job.name} to resume")
    last = next((run for run in found if is_own(run.folder, runs_folder())), None)
    if last is None:
        where = f"which is none of this project's run folders ({runs_folder()})"
        raise NotFound(f"run {found[0].id} of {settings.job.name} is in {found[0].folder}, {where}: resume it there")
    epochs = last.epochs
    if not has_checkpoint(last.folder):
        note(f"run {last.id} left no checkpoint in {last.folder}/checkpoint: it starts from the beginning")
        epochs = 0.0
    else:
        note(f"going on with run {last.id}, which trained {counted(epochs, 'epoch')}")
    return Beginning(seed if seed is not None else last.seed or 0, Path(last.folder), last, epochs)


def beginning(
    settings: Settings, kept: Store, config: Config, goal: Goal, seed: int | None, *, from_scratch: bool
) -> Beginning:
    """Return the probe that trained this config's recipe furthest, or nothing to go on from."""
    # Replayed seeds are the recording's own, so that any probe of it can be gone on from.
    probe_seed = None if settings.engine == RECORDED else seed
    found = None if from_scratch else _probed(settings, kept, config, goal, probe_seed)
    return found or Beginning(seed or 0, runs_folder() / new_id())


def _probed(settings: Settings, kept: Store, config: Config, goal: Goal, seed: int | None) -> Beginning | None:
    """Return the probe that trained this config's recipe furthest, its checkpoint copied, if there is one."""
    before = Kept.among(kept.samples(settings.job)).of(config, goal, seed)
    if before is None:
        return None
    begin = Beginning(before.seed or 0, runs_folder() / new_id(), before, trained(before))
    try:
        take(before, begin.folder)
    except OSError as error:
        note(f"the checkpoint of probe {before.id} cannot be copied, so the run starts from the beginning: {error}")
        return None
    paid = f"{before.device_seconds:.3g} device-seconds"
    note(f"going on from probe {before.id}: {counted(begin.trained, 'epoch')} trained before ({paid})")
    return begin


def finished(settings: Settings, goal: Goal, begin: Beginning, config: Config) -> Sample | None:
    """Return the sample of a run that has nothing left to train: its probe met the goal, or took all of its epochs.

    A job that counts its checkpoints writes one before it reports; of another it is not sure
    which evaluation its checkpoint belongs to, and the run itself has to show.
    """
    before = begin.before
    if before is None or before.purpose != "probe":
        return None
    if not meets(settings.job, goal, before) and trained(before) < goal.cap:
        return None
    if before.engine != RECORDED and before.terms.checkpoint is None:
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
