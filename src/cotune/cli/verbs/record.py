"""`cotune record`: what the store measured of a job, as a recording."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from cotune.checkpoints import joined
from cotune.cli.flags import JobFlags, records_as_flags
from cotune.cli.options import Examples, Json, open_store
from cotune.cli.output import emit_json, refuse_overwriting, say, writing
from cotune.errors import NotFound, suggestion
from cotune.jobfile.metric import as_measured
from cotune.predict.samples import trusted
from cotune.recording import write
from cotune.recording.reader import ACCURACY, JOB, TIMES
from cotune.recording.samples import recorded_tables
from cotune.store import Store
from cotune.types import Cluster, Device, Job, Sample
from cotune.units import counted


@records_as_flags
def record(
    *,
    output: Annotated[Path, typer.Option("--output", "-o", help="The folder to write.")],
    job: Annotated[str | None, typer.Option("--job", help="A job of the store by its name, wherever it ran.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Write over an existing recording.")] = False,
    own: JobFlags,
    examples: Examples = None,
    json: Json = False,
) -> None:
    """Write a job's samples as a recording that can be replayed."""
    for table in (JOB, TIMES, ACCURACY):
        refuse_overwriting(output / table, force=force)
    with open_store(own.store, reading=True) as store:
        if job is None:
            settings = as_measured(own.load({}), store)
            recorded, cluster, samples = settings.job, settings.cluster, list(store.samples(settings.job))
        else:
            recorded, samples = _stored(store, job)
            cluster = Cluster(tuple(map(Device, sorted({sample.config.device for sample in samples}))))
    # Only here: in the job file they would make another job of it, of which nothing was measured.
    recorded = replace(recorded, examples=examples or recorded.examples)
    if recorded.examples is None:
        raise NotFound(f"a recording names the examples in an epoch of {recorded.name}: give them by --examples")
    times, accuracy = recorded_tables(recorded, trusted(joined(samples)))
    if not times:
        raise NotFound(f"no samples of job {recorded.name!r} to record; measure it first: cotune profile")
    with writing(output):
        write(output, recorded, times, accuracy, cluster.devices, currency=cluster.currency)
    if json:
        emit_json("record", {"recording": str(output), "times": len(times), "evaluations": len(accuracy)})
        return
    say(f"{output}: {counted(len(times), 'time')} and {counted(len(accuracy), 'evaluation')} of {recorded.name}")


def _stored(store: Store, name: str) -> tuple[Job, list[Sample]]:
    """Return the definition and all samples of the stored jobs of that name."""
    known = [found for found in store.jobs() if found.name == name]
    if not known:
        names = [found.name for found in store.jobs()]
        raise NotFound(f"no job {name!r} in {store.label}{suggestion(name, names)}")
    return known[-1].definition, [sample for found in known for sample in store.samples(found)]
