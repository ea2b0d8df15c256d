"""A run that outlives what breaks and moves when that pays: several starts, one after another.

    start ─▶ sample grows ─▶ ended
      ▲                        │ broken from outside (a killed rank or server, silence, a lost node):
      │                        │ go on from the checkpoint, with fewer workers where the cluster holds no more
      └────────────────────────┤ asked for other workers, or a better layout is found: stop, go on with those
                               ▼ done, the job's own error, or no progress in several starts

Every start is a sample of its own in the store and knows the one it goes on from. The recipe
(global batch, learning rate, epochs) stays; only the layout changes. A run that left no
checkpoint is not begun anew without being asked: it ends with what broke it. One that could
leave none is not moved.

A layout is changed for gain only when

    left x seconds now  >  (1 + hysteresis) x (left x seconds there + restart)

and the same holds for cost where the plan prefers cheap, with epochs left and seconds per epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from cotune.checkpoints import is_kept
from cotune.identity import new_id, timestamp
from cotune.jobfile.command import may_keep_checkpoints
from cotune.run.attempt import HERE, StopRule, attempt
from cotune.run.launch import Engine, Launch, checkpoint_seconds
from cotune.types import Config, Failure, Job, Quantity, Sample, Stage, split_over
from cotune.units import duration

HYSTERESIS = 0.05
RESIZE = "resize"
_STOP_SECONDS = 30.0  # for the job to come to a checkpoint when it is asked to move


@dataclass(frozen=True, slots=True)
class Move:
    """Another layout for a run, and why."""

    config: Config
    reason: str


@dataclass(frozen=True, slots=True)
class RunEvent:
    """Where a run stands: the sample of its present start, and what is worth a line of its own.

    `words` say how far it is, `left` are the seconds that are left where that is known, `odds` is P(met) by now.
    """

    sample: Sample
    note: str | None = None
    words: str = ""
    left: Quantity | None = None
    odds: float | None = None


Change = Callable[[Sample], Move | None]


def supervise(
    engine: Engine,
    launch: Launch,
    until: StopRule,
    sample: Sample,
    *,
    restarts: int = 3,
    change: Change = lambda _: None,
) -> Iterator[RunEvent]:
    """Run to the end through several starts if need be; yield every sample as it grows."""
    fruitless = 0
    while True:
        move: Move | None = None
        finished: float | None = None  # seconds into the start
        for sample in attempt(engine, launch, until, sample):  # noqa: B020, PLR1704  # it grows
            if finished is not None and not sample.ended:
                yield RunEvent(sample, _waiting(launch, sample, sample.seconds - finished))
            else:
                yield RunEvent(sample)
            if finished is None and _finished(launch, sample):
                finished = sample.seconds
            settled = move is not None or sample.ended or _met(launch, sample)
            if (
                not settled
                and can_move(launch.job, sample.engine, launch.folder)
                and (move := change(sample)) is not None
            ):
                engine.stop(launch.id, checkpoint_seconds(launch.job, _STOP_SECONDS, sample.epoch_seconds))
        unfinished = not _finished(launch, sample)
        if move is not None and sample.failure is None and unfinished:
            if not is_kept(sample.engine, launch.folder):
                lost = Failure(f"it was stopped to go on with {move.config}, but left no checkpoint")
                yield RunEvent(replace(sample, failure=lost))
                return
            launch, sample = going_on(launch, sample, move.config)
            yield RunEvent(sample, f"{move.reason}: going on with {move.config} from epoch {sample.epochs:.3g}")
            continue
        if sample.failure is None or not sample.failure.from_outside:
            return
        fruitless = 0 if sample.curve else fruitless + 1
        if restarts == 0 or fruitless >= restarts or not is_kept(sample.engine, launch.folder):
            return
        broke, left = sample.failure, with_workers_left(launch.config, sample.failure)
        if left is None:
            return
        fewer = f" with {left}" if left != launch.config else ""
        launch, sample = going_on(launch, sample, left)
        yield RunEvent(sample, f"{broke}: going on{fewer} from the checkpoint at epoch {sample.epochs:.3g}")


def can_move(job: Job, engine: str, folder: str | Path) -> bool:
    """Return whether a run that is stopped now could go on: it left a checkpoint, or may do so when it is told."""
    return is_kept(engine, folder) or may_keep_checkpoints(job)


def _finished(launch: Launch, sample: Sample) -> bool:
    return _met(launch, sample) or sample.epochs >= launch.epochs


def _waiting(launch: Launch, sample: Sample, seconds: float) -> str:
    done = "target met" if _met(launch, sample) else "all epochs done"
    return (
        f"{done}, waiting for the script to end by itself: {duration(round(seconds))} so far, "
        f"{duration(launch.stop_grace)} at most (stop_grace)"
    )


def _met(launch: Launch, sample: Sample) -> bool:
    return launch.job.meets(launch.target, sample.accuracy)


def going_on(launch: Launch, before: Sample, config: Config) -> tuple[Launch, Sample]:
    """Return the next start of a run, and the beginning of its sample."""
    name = new_id()
    done = before.epochs
    if before.failure is not None and (before.curve or not before.resumed_from):
        done = before.curve[-1].epoch if before.curve else 0.0
    after = Sample(
        config,
        epochs=done,
        purpose="run",
        id=name,
        started=timestamp(),
        engine=before.engine,
        folder=before.folder,
        resumed_from=before.id,
        seed=launch.seed,
        goal=before.goal,
    )
    return replace(launch, id=name, config=config, resume=True, trained=done), after


def resized(config: Config, workers: int) -> Config | None:
    """Return a config with other workers and the same global batch, or None where that does not divide."""
    replicas, rest = divmod(workers, split_over(config.axes))
    spread = replicas * config.accumulate
    if rest or not spread or config.global_batch % spread:
        return None
    return replace(config, stages=(Stage(config.device, workers),), batch_size=config.global_batch // spread)


def with_workers_left(config: Config, failure: Failure) -> Config | None:
    """Return what to go on with: the same, or where a cluster has lost room, as many workers as it still holds."""
    if failure.room is None:
        return config
    smaller = (resized(config, workers) for workers in range(min(failure.room, config.workers - 1), 0, -1))
    return next((found for found in smaller if found is not None), None)


def requested(folder: Path) -> int | None:
    """Return the workers that `cotune resize` has asked for, once."""
    file = folder / RESIZE
    try:
        asked = int(file.read_text())
    except (FileNotFoundError, ValueError):
        return None
    file.unlink()
    return asked


def restart_seconds(sample: Sample) -> float:
    """Return the seconds until another start of a run trains: this machine's engine is up, others wait again."""
    engine = 0.0 if sample.engine == HERE else sample.terms.engine or 0.0
    return engine + (sample.terms.startup or 0.0)


def pays(left: float, now: float, there: float, restart: float) -> bool:
    """Say whether moving gains enough: `left` epochs at so much each, now and there, with a restart."""
    return left * now > (1 + HYSTERESIS) * (left * there + restart)
