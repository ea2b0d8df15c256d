"""What a run of a plan comes to on a recording, to put beside its forecast."""

from __future__ import annotations

from pathlib import Path

from cotune.identity import new_id, timestamp
from cotune.recording.replayed import ReplayedJob
from cotune.run.attempt import StopRule, attempt
from cotune.run.engines.recorded import Recorded
from cotune.run.launch import Launch
from cotune.types import RECORDED, Plan, Sample


def replayed_run(replayed: ReplayedJob, plan: Plan, seed: int) -> Sample:
    """Return a run of a plan from scratch, as a recording tells it."""
    job, goal = replayed.recording.job, plan.goal
    target = None if goal.prefer == "accurate" else goal.target
    id, epochs = new_id(), goal.epochs or plan.epochs
    launch = Launch(id, job, plan.config, epochs, Path(job.name), target, seed)
    start = Sample(plan.config, purpose="run", id=id, started=timestamp(), engine=RECORDED)
    engine = Recorded(replayed.folder, None, seed, recording=replayed.recording)
    *_, ended = attempt(engine, launch, StopRule(epochs=epochs), start)
    return ended
