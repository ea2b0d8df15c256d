"""The next start of a live job: on from the checkpoint of the one before, or anew where that left none."""

from __future__ import annotations

from dataclasses import replace

from cotune.checkpoints import has_checkpoint
from cotune.cluster.live_job import Serving
from cotune.cluster.node_rules import Taking
from cotune.identity import new_id, timestamp
from cotune.run.launch import Launch
from cotune.run.supervise import going_on
from cotune.types import RECORDED, Config, Sample


def next_start(served: Serving, nodes: Taking, engine: str) -> tuple[Launch, Sample]:
    """Return the next start of a job in the config that it was given, on so many units of each node.

    What its starts have done before is forgotten where it begins anew.
    """
    assert served.active.config is not None
    queued, config = served.queued, _called(served.active.config, served.queued.device)
    target = None if queued.goal.prefer == "accurate" else queued.goal.target
    name = new_id()
    launch = Launch(
        name, queued.job, config, queued.goal.cap, served.folder, target, stop_grace=queued.stop_grace,
        nodes=tuple(node for node, units in nodes for _ in range(units)),
    )  # fmt: skip
    sample = Sample(
        config, purpose="run", id=name, started=timestamp(),
        engine=queued.engine or engine,
        folder=str(served.folder), seed=0, goal=queued.goal,
    )  # fmt: skip
    before = next(reversed((*queued.earlier, *served.starts)), None)
    if before is None or not (engine == RECORDED or has_checkpoint(served.folder)):
        served.done_before = 0.0
        return launch, sample
    before = replace(before, goal=queued.goal)
    if not served.starts:
        served.done_before = min(before.epochs / queued.needed[config.global_batch], 1.0)
    return going_on(launch, before, config)


def _called(config: Config, device: str | None) -> Config:
    """Return a config with its units called as the job calls them."""
    if device is None:
        return config
    return replace(config, stages=tuple(replace(stage, device=device) for stage in config.stages))
