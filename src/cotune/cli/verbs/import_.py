"""`cotune import`: read what other tools logged, or published measurements."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Annotated

import typer

from cotune.cli.help import MEASURING, OUTPUT, SPACE, flag, rare_flag
from cotune.cli.options import Axis, Examples, File, Json, Name, StoreUrl, chosen_axes, load_settings, open_store
from cotune.cli.output import emit_json, note, say
from cotune.documents import sample_document
from cotune.errors import CotuneError, NotFound, UsageError, suggestion
from cotune.interop import logged as logs
from cotune.interop.logged import logs_of
from cotune.interop.measured import Hints, measured
from cotune.jobfile import settings as job_settings
from cotune.recording import imported as recordings
from cotune.recording.imported import import_recordings
from cotune.types import Job, Sample, axes_of
from cotune.units import counted, number
from cotune.units import seconds as duration


def import_(
    name: Annotated[
        str | None, typer.Argument(help="The tool: tensorboard, mlflow, ...; or a data set: pollux, zeus, ...")
    ] = None,
    source: Annotated[Path | None, typer.Argument(help="The file or folder that holds it.")] = None,
    output: Annotated[
        Path | None, flag(OUTPUT, "--output", "-o", help="Where recordings of a data set go, one folder each.")
    ] = None,
    metric: Annotated[str | None, flag(MEASURING, "--metric", help="The name of the job's metric in the log.")] = None,
    workers: Annotated[int | None, flag(SPACE, "--workers", "-w", help="Workers that ran.", min=1)] = None,
    batch_size: Annotated[int | None, flag(SPACE, "--batch-size", "-b", help="Batch of each worker.", min=1)] = None,
    accumulate: Annotated[int, rare_flag(SPACE, "--accumulate", help="Steps of accumulation.", min=1)] = 1,
    device: Annotated[str | None, rare_flag(SPACE, "--device", help="The device (default: the job's first).")] = None,
    axis: Axis = None,
    runs: Annotated[
        str | None,
        flag(
            MEASURING, "--runs", help="Only runs whose name matches; groups (?P<workers>), (?P<batch_size>) are taken."
        ),
    ] = None,
    steps_are_epochs: Annotated[
        bool, rare_flag(MEASURING, "--steps-are-epochs", help="A step of the log is an epoch.")
    ] = False,
    seconds: Annotated[
        str | None, rare_flag(MEASURING, "--seconds", help="What the run took, for a log without times.")
    ] = None,
    speed_only: Annotated[bool, rare_flag(MEASURING, "--speed-only", help="Read no metric.")] = False,
    job: Name = None,
    examples: Examples = None,
    file: File = None,
    store: StoreUrl = None,
    json: Json = False,
) -> None:
    """Read other tools' logs as samples of a job, or a published data set.

    cotune import tensorboard runs/ --metric val_acc -w 2 -b 64
    cotune import zeus zeus-main/ -o recordings/
    """
    if name is None:
        raise UsageError(f"name what to read, and its file or folder; there are {_readers()}")
    if source is None:
        raise UsageError(f"name the file or folder to read: cotune import {name} PATH")
    known = name.lower().replace("-", "_").replace(".", "_")
    if known in recordings.names():
        _recordings(known, source, output, json=json)
        return
    if known not in logs.names():
        near = suggestion(known, (*logs.names(), *recordings.names()))
        raise NotFound(f"no reader named {name!r}; there are {_readers()}{near}")
    settings = load_settings(file, {"name": job, "examples": examples})
    asked = Hints(
        metric=metric,
        workers=workers,
        batch_size=batch_size,
        accumulate=accumulate,
        device=device or settings.cluster.devices[0].name,
        axes=axes_of(chosen_axes(axis)),
        runs=_pattern(runs),
        steps_are_epochs=steps_are_epochs,
        seconds=duration(seconds) if seconds else None,
        speed_only=speed_only,
    )
    _samples(known, source, settings.job, asked, store, json=json)


def _readers() -> str:
    return f"logs of {', '.join(logs.names())} and data sets {', '.join(recordings.names())}"


def _recordings(name: str, source: Path, output: Path | None, *, json: bool) -> None:
    if output is None:
        raise UsageError(f"{name} is a data set, which becomes recordings: say where they go with --output")
    written = import_recordings(name, source, output)
    if json:
        emit_json("import.recordings", {"recordings": [str(folder) for folder in written]})
        return
    for folder in written:
        say(str(folder))
    say(f"{len(written)} recordings; next: cotune bench planning --recordings {output}")


def _samples(tool: str, source: Path, job: Job, asked: Hints, store: str | None, *, json: bool) -> None:
    """Keep what can be read; runs that cannot are named, and are an error when there are no others."""
    logged = logs_of(tool, source)
    wanted = [run for run in logged if asked.runs is None or asked.runs.search(run.name)]
    if not wanted:
        raise NotFound(f"no run matches; {source} has {', '.join(run.name for run in logged[:5])}")
    found: list[Sample] = []
    left: list[CotuneError] = []
    for run in wanted:
        try:
            found.append(measured(job, tool, str(source.absolute()), run, asked))
        except CotuneError as error:
            left.append(error)
    if not found:
        raise left[0]
    for reason in left:
        note(f"left out: {reason}")
    with open_store(store) as opened:
        for sample in found:
            opened.save(job, sample)
    if json:
        documents = [sample_document(sample) for sample in found]
        emit_json("import", {"job": job.name, "samples": documents, "left_out": [str(reason) for reason in left]})
        return
    for sample in found:
        say(f"{sample.id}  {_line(sample)}")
    say(f"{counted(len(found), 'sample')} of {job.name}; next: {_next(job)}")


def _next(job: Job) -> str:
    """Return what may be done with samples: a job without a job file can be replayed, and not planned."""
    if job.command or job_settings.find(Path.cwd()) is not None:
        return "cotune samples, cotune predict, cotune plan"
    return f"cotune record --job {shlex.quote(job.name)} -o FOLDER, then cotune plan --recording FOLDER"


def _line(sample: Sample) -> str:
    pace = f"{number(sample.epoch_seconds, 3)} s an epoch" if sample.epoch_seconds is not None else "speed unknown"
    good = f", at last {number(sample.accuracy)}" if sample.accuracy is not None else ""
    odd = f" ({sample.failure or sample.warning})" if sample.failure or sample.warning else ""
    return f"{sample.config}: {sample.epochs:.3g} epochs, {pace}{good}{odd}"


def _pattern(text: str | None) -> re.Pattern[str] | None:
    try:
        return re.compile(text) if text is not None else None
    except re.error as error:
        raise UsageError(f"--runs {text!r} is not a regular expression: {error}") from None
