"""`cotune samples`: what was measured."""

from __future__ import annotations

from typing import Annotated

import typer

from cotune.cli._options import Json, StoreUrl


def samples(
    job: Annotated[str | None, typer.Option("--job", help="Only this job (default: all).")] = None,
    store: StoreUrl = None,
    json: Json = False,
) -> None:
    """List what was measured, start by start. Each with its speed, its metric and its cost."""
    from cotune.cli._options import open_store
    from cotune.cli._output import emit_json, say, table
    from cotune.documents import sample_document
    from cotune.units import number

    with open_store(store) as kept:
        found = [
            (known.name, sample) for known in kept.jobs() if job in (None, known.name) for sample in kept.samples(known)
        ]
    if json:
        emit_json("samples", {"samples": [{"job": name, **sample_document(sample)} for name, sample in found]})
        return
    if not found:
        say("no samples yet: cotune profile measures a job")
        return
    columns = ("id", "job", "what", "workers", "batch", "epochs", "s/epoch", "accuracy", "device-s", "outcome")
    table(
        columns,
        [
            (
                sample.id,
                name,
                sample.purpose,
                sample.config.workers,
                sample.config.batch_size,
                f"{sample.epochs:.3g}",
                number(sample.epoch_seconds, 3) if sample.epoch_seconds is not None else "",
                number(sample.accuracy) if sample.accuracy is not None else "",
                number(sample.device_seconds, 3),
                sample.failure or ("running" if not sample.ended else sample.warning or "ok"),
            )
            for name, sample in found
        ],
    )
