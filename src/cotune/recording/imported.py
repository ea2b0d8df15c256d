"""Published measurements as recordings: a reader for each data set.

A reader is a function (source) -> Iterator[Imported]. Measured rows only;
of several placements the one with the fewest nodes, and of those the most even. Where an
epoch is not defined by the data set, it is a round number of examples that the reader
names: only ratios of seconds matter then.
"""

from __future__ import annotations

import csv
import io
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from cotune import registry
from cotune.errors import InvalidFile, NotFound, suggestion
from cotune.recording import AccuracyRow, TimeRow, write
from cotune.safety import gzipped
from cotune.types import Device, Job


@dataclass(frozen=True)
class Imported:
    """A recording that was read from somewhere else."""

    job: Job
    times: list[TimeRow]
    accuracy: list[AccuracyRow] = field(default_factory=list)
    devices: tuple[Device, ...] = ()


def names() -> tuple[str, ...]:
    """Return the data sets that can be read."""
    return tuple(sorted(registry.modules("importers")))


def import_recordings(name: str, source: Path, into: Path) -> list[Path]:
    """Read a data set and write its recordings below a folder; return their folders."""
    known = name.replace("-", "_").replace(".", "_")
    if known not in names():
        raise NotFound(f"no reader named {name!r}; there are {', '.join(names())}{suggestion(known, names())}")
    if not source.is_dir():
        raise NotFound(f"no folder {source}")
    reader = registry.part("importers", known)
    try:
        found: list[Imported] = list(reader(source))
    except (KeyError, TypeError, ValueError, ArithmeticError) as error:
        raise InvalidFile(f"{source} is not what the reader {name} expects: {error!r}") from None
    if not found:
        raise NotFound(f"{source} holds nothing that the reader {name} knows")
    try:
        return [write(into / one.job.name, one.job, one.times, one.accuracy, one.devices) for one in found]
    except OSError as error:
        raise InvalidFile(f"cannot write {into}: {error.strerror}") from None


def rows(path: Path) -> Iterator[dict[str, str]]:
    """Yield the rows of a CSV file, which may be gzipped."""
    try:
        data = path.read_bytes()
        text = (gzipped.decompress(data) if path.suffix == ".gz" else data).decode("utf-8-sig")
        yield from csv.DictReader(io.StringIO(text, newline=""))
    except FileNotFoundError:
        raise NotFound(f"no file {path}") from None
    except (OSError, EOFError, ValueError, zlib.error, csv.Error) as error:
        raise InvalidFile(f"cannot read {path}: {error}") from None
