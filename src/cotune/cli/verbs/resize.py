"""`cotune resize`: change the number of workers of a running job."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cotune.checkpoints import is_own
from cotune.cli.options import File, Json, Name, StoreUrl, load_settings, open_store, runs_folder
from cotune.cli.output import emit_json, say, writing
from cotune.errors import NotFound, UsageError
from cotune.jobfile.metric import as_measured
from cotune.run.supervise import RESIZE, can_move, resized


def resize(
    workers: Annotated[int, typer.Argument(min=1, help="How many workers it shall have.")],
    name: Name = None,
    file: File = None,
    store: StoreUrl = None,
    json: Json = False,
) -> None:
    """Resume the present run with more or fewer workers. From its next epoch; its global batch stays."""
    settings = load_settings(file, {"name": name})
    with open_store(store, reading=True) as opened:
        settings = as_measured(settings, opened)
        running = [sample for sample in opened.samples(settings.job, "run") if not sample.ended]
    if not running:
        raise NotFound(f"no run of {settings.job.name} is running")
    last = running[-1]
    if not is_own(last.folder, runs_folder()):
        where = f"{last.folder}, which is none of this project's run folders ({runs_folder()})"
        raise NotFound(f"run {last.id} of {settings.job.name} is in {where}: resize it there")
    config = resized(last.config, workers)
    if config is None:
        batch = last.config.global_batch
        fits = ", ".join(str(count) for count in range(1, 65) if resized(last.config, count))
        raise UsageError(f"{workers} workers cannot share a global batch of {batch} evenly; it could be {fits}")
    if settings.job.command and not can_move(settings.job, last.engine, last.folder):
        raise UsageError(
            f"run {last.id} has left no checkpoint (COTUNE_CHECKPOINT) that other workers could go on from"
        )
    asked = Path(last.folder) / RESIZE
    with writing(asked):
        asked.write_text(str(workers))
    if json:
        emit_json("resize", {"run": last.id, "workers": workers, "batch_size": config.batch_size})
        return
    say(f"run {last.id} resumes with {config} after its present epoch")
