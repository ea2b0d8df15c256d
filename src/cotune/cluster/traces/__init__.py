"""Job traces as submissions: one small reader per format, chosen by the header.

    plain     job_id,submit_s,gpus,duration_s[,deadline_s,...]; ITP and Philly are of this kind
    tiresias  job_id,num_gpu,submit_time,...,duration,...
    pollux    name,time,application,num_replicas,batch_size; measurements in the folder above
    sacct     JobID|Submit|...: Slurm's `sacct --parsable2` with AllocTRES and ElapsedRaw

A line that cannot be a job is an error that names it, or is left out and counted. The
order of the file breaks ties between jobs of the same second. `-` is standard input.
"""

from __future__ import annotations

import csv
import io
import sys
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from cotune.cluster.policy import Submission, capacity
from cotune.cluster.traces import _pollux, _sacct, _tables
from cotune.cluster.traces._lines import Make, Reader, TraceLine
from cotune.errors import InvalidFile, NotFound
from cotune.safety import gzipped
from cotune.safety.printable import printable
from cotune.types import Cluster
from cotune.units import counted

__all__ = ["Trace", "fitting", "read"]

STDIN = Path("-")
_READERS: tuple[Reader, ...] = (_sacct.READER, _pollux.READER, _tables.TIRESIAS, _tables.PLAIN)


@dataclass(frozen=True)
class Trace:
    """The jobs of a file, and what was left out of it."""

    path: Path
    format: str
    jobs: tuple[Submission, ...]
    left_out: tuple[str, ...] = ()
    zero: datetime | None = None  # the date of second 0, where the format has dates


def read(
    path: Path, only: Mapping[str, str] | None = None, *, team_column: str | None = None, skip_bad: bool = False
) -> Trace:
    """Return the jobs of a trace, or of those lines that have the given values in some columns.

    Teams are those of the format (`team`, Slurm's `Account`), or of any column that is named.
    """
    lines = _lines(path)
    header = next(lines, None)
    if header is None:
        raise InvalidFile(f"{path} is empty; a trace begins with a line such as job_id,submit_s,gpus,duration_s")
    reader = next((reader for reader in _READERS if reader.knows(header.columns)), _tables.PLAIN)
    judged = _judged(reader, header.columns, team_column)
    left_out = [_bad(header.number, why) for why in reader.header_problems(judged)]
    if reader.missing(header.columns):
        raise InvalidFile(f"{path}, line {header.number}: {'; '.join(reader.header_problems(judged))}")
    if left_out and not skip_bad:
        raise InvalidFile(f"{path}, {left_out[0]}{_more(left_out)}", remedy="skip_bad")
    unknown = sorted({*(only or {}), *([team_column] if team_column else [])} - set(header.columns))
    if unknown:
        raise InvalidFile(f"{path} has no column {unknown[0]!r} to choose by; there are {', '.join(header.columns)}")
    wanted = [(header.columns.index(name), value) for name, value in (only or {}).items()]
    team = header.columns.index(team_column) if team_column else None
    jobs, bad = _jobs(lines, len(header.columns), wanted, reader.open(header.columns, path))
    left_out += bad
    if left_out and not skip_bad:
        raise InvalidFile(f"{path}, {left_out[0]}{_more(left_out)}", remedy="skip_bad")
    if not jobs:
        chosen = " with " + ", ".join(f"{name}={value}" for name, value in only.items()) if only else ""
        raise InvalidFile(f"{path} has no jobs{chosen}")
    zero = reader.date(header.columns, jobs[0][0])
    made = tuple(job if team is None else replace(job, team=line.columns[team]) for line, job in jobs)
    return Trace(path, reader.name, made, tuple(left_out), zero)


def _judged(reader: Reader, columns: Sequence[str], team_column: str | None) -> Sequence[str]:
    """Return the columns that a format must know: a column of teams need not be one, unless it is needed anyway."""
    others = [column for column in columns if column != team_column]
    return columns if set(reader.missing(others)) - set(reader.missing(columns)) else others


def _jobs(
    lines: Iterator[TraceLine],
    fields: int,
    wanted: Sequence[tuple[int, str]],
    make: Make,
) -> tuple[list[tuple[TraceLine, Submission]], list[str]]:
    """Return those lines that have the wanted values at some places, with their jobs, and those that cannot be jobs."""
    jobs: list[tuple[TraceLine, Submission]] = []
    bad: list[str] = []
    seen: dict[str, int] = {}
    for line in lines:
        try:
            if len(line.columns) != fields:
                raise ValueError(f"{len(line.columns)} fields where the header has {fields}")
            job = make(line) if all(line.columns[place] == value for place, value in wanted) else None
            if job is not None and job.name in seen:
                raise ValueError(f"job_id {job.name!r} was used before, in line {seen[job.name]}")
        except ValueError as error:
            bad.append(_bad(line.number, str(error)))
            continue
        if job is not None:
            seen[job.name] = line.number
            jobs.append((line, job))
    return jobs, bad


def fitting(trace: Trace, cluster: Cluster, *, skip_bad: bool = False) -> Trace:
    """Return the trace without the jobs that the whole cluster could not hold; they are errors too."""
    there = capacity(cluster)
    bad = [
        _bad(job.row, f"job {job.name!r} asks for {job.gpus} GPUs, the cluster has {_most(job, there)}")
        for job in trace.jobs
        if job.gpus > _most(job, there)
    ]
    if bad and not skip_bad:
        raise InvalidFile(f"{trace.path}, {bad[0]}{_more(bad)}", remedy="skip_bad")
    kept = tuple(job for job in trace.jobs if job.gpus <= _most(job, there))
    if not kept:
        raise InvalidFile(f"{trace.path} has no job that fits on the cluster")
    return replace(trace, jobs=kept, left_out=(*trace.left_out, *bad))


def _bad(number: int, why: str) -> str:
    """Return which line cannot be a job, and why."""
    return f"line {number}: {why}"


def _most(job: Submission, there: Mapping[str, int]) -> int:
    return max((count for name, count in there.items() if job.device in (None, name)), default=0)


def _more(bad: Sequence[str]) -> str:
    return f" (and {counted(len(bad) - 1, 'more line')})" if len(bad) > 1 else ""


def _lines(path: Path) -> Iterator[TraceLine]:
    if path != STDIN and (not path.exists() or path.is_dir()):
        raise NotFound(f"no trace at {path}")
    try:
        data = sys.stdin.buffer.read() if path == STDIN else path.read_bytes()
        text = (gzipped.decompress(data) if data.startswith(gzipped.MAGIC) else data).decode("utf-8-sig")
    except (OSError, EOFError, zlib.error, ValueError) as error:
        raise InvalidFile(f"{path} cannot be read as text: {error}") from None
    first = text.partition("\n")[0]
    rows = csv.reader(io.StringIO(text), delimiter="|" if "|" in first else ",")
    try:
        for row in rows:
            if any(field.strip() for field in row):
                yield TraceLine(rows.line_num, [printable(field.strip()) for field in row])
    except csv.Error as error:
        raise InvalidFile(f"{path}, line {rows.line_num}: {error}") from None
