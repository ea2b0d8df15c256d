"""`cotune samples`: what was measured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from cotune import progress
from cotune.cli.options import Json, StoreUrl, open_store
from cotune.cli.output import emit_json, repeated, say, table
from cotune.documents import config_cells, config_columns, head, sample_document
from cotune.errors import NotFound, suggestion
from cotune.types import Sample
from cotune.units import number


def samples(
    job: Annotated[str | None, typer.Option("--job", help="Only this job (default: all).")] = None,
    store: StoreUrl = None,
    json: Json = False,
) -> None:
    """List what was measured, start by start. Each with its speed, its metric and its cost."""
    with open_store(store, reading=True) as opened:
        jobs = opened.jobs()
        wanted = [known for known in jobs if job in (None, known.name)]
        found = [(known.definition, sample) for known in wanted for sample in opened.samples(known)]
    if job is not None and not wanted:
        raise NotFound(f"no job named {job!r} in the store{suggestion(job, {known.name for known in jobs})}")
    if json:
        documents = [{"job": of.name, "metric": of.metric, **sample_document(sample, of)} for of, sample in found]
        emit_json("samples", {"samples": documents})
        return
    if not found:
        say("no samples yet: cotune profile measures a job")
        return
    metrics = {of.metric for of, _ in found}
    metric = metrics.pop() if len(metrics) == 1 else None
    layout = [name for name in config_columns([sample.config for _, sample in found]) if name != "global_batch"]
    units = {of.counting.unit for of, _ in found}
    unit = units.pop() if len(units) == 1 else "done"
    rest = (
        unit,
        f"s/{unit.removesuffix('s')}" if unit != "done" else "s/each",
        metric or "metric",
        "device-s",
        "outcome",
    )
    said = repeated(sample.warning for _, sample in found if sample.ended and not sample.failed)
    table(
        ("id", "job", "what", *head(layout), *rest),
        [
            (
                sample.id,
                of.name,
                sample.purpose,
                *config_cells(sample.config, layout),
                number(progress.amount(of, sample.config, sample.epochs), 3),
                number(progress.pace(of, sample.config, sample.epoch_seconds), 3) if sample.epoch_seconds else "",
                "" if sample.accuracy is None else number(sample.accuracy) + ("" if metric else f" {of.metric}"),
                number(sample.device_seconds, 3),
                sample.failure or _outcome(sample, said),
            )
            for of, sample in found
        ],
    )
    for words in said:
        say(f"note      {words}")


def _outcome(sample: Sample, said: Sequence[str]) -> str:
    """Return what came of a sample that did not fail, without what is said below the table."""
    if not sample.ended:
        return "running"
    return "ok" if sample.warning is None or sample.warning in said else sample.warning
