"""Records to rows and back, without losing a bit.

Numbers that must be there (epochs, seconds, axes) are finite or refused. Where a number
may be unknown, what is not finite is stored as unknown. An evaluation that yielded no
number (a diverged model) keeps its place in the curve and reads back as NaN.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cache
from typing import Any, TypeVar

from pydantic import TypeAdapter

from cotune.safety import redact
from cotune.safety.printable import printable
from cotune.space import Space
from cotune.types import Cause, Config, Evaluation, Failure, Goal, Load, Sample, Stage, Terms

Row = Mapping[str, Any]
_AS_IT_IS = (  # columns of a sample that hold its field of that name
    "id", "purpose", "engine", "started", "ended", "folder", "resumed_from", "modelled", "seed", "peak_bytes",
    "limit_bytes", "length", "copies",
)  # fmt: skip
_OF_CONFIG = ("workers", "batch_size", "accumulate", "servers", "device", "global_batch")
_TEXTS = ("id", "purpose", "engine", "started", "failure", "warning", "folder", "resumed_from")
Record = TypeVar("Record")


def of_config(config: Config) -> dict[str, Any]:
    """Return a config as JSON; named axes keep their order and types."""
    for name, value in config.axes:
        if isinstance(value, float):
            _number(value, f"axis {name}")
    return {
        "batch_size": config.batch_size,
        "stages": [asdict(stage) for stage in config.stages],
        "servers": config.servers,
        "accumulate": config.accumulate,
        "axes": dict(config.axes),
    }


def config(row: Row) -> Config:
    """Return the config of its JSON."""
    stages = tuple(Stage(**stage) for stage in row["stages"])
    sizes = (row["batch_size"], row["servers"], row["accumulate"], *(stage.workers for stage in stages))
    if not all(type(size) is int for size in sizes):
        raise TypeError(f"a config whose sizes are {sizes}")
    return Config(row["batch_size"], stages, row["servers"], row["accumulate"], tuple(row["axes"].items()))


def of_sample(sample: Sample) -> dict[str, Any]:
    """Return the columns of a sample, all but its curve."""
    failure = sample.failure
    return {
        **{name: getattr(sample, name) for name in _AS_IT_IS},
        **{name: getattr(sample.config, name) for name in _OF_CONFIG},
        "config": of_config(sample.config),
        "epochs": _number(sample.epochs, "epochs"),
        "epoch_seconds": _known(sample.epoch_seconds),
        "accuracy": _known(sample.accuracy),
        "terms": {name: value for name, value in sample.terms.known().items() if math.isfinite(value)},
        "seconds": _number(sample.seconds, "seconds"),
        "failure": _words(failure.words) if failure else None,
        "cause": failure.cause.value if failure else None,
        "room": failure.room if failure else None,
        "warning": _words(sample.warning),
        "goal": None if sample.goal is None else of_record(sample.goal),
        "load": None if sample.load is None else of_record(sample.load),
    }


def sample(row: Row, curve: tuple[Evaluation, ...]) -> Sample:
    """Return the sample of a row and its curve; what SQLite let in although it is no number is refused."""
    for name in _TEXTS:
        if row[name] is not None and not isinstance(row[name], str):
            raise TypeError(f"{name} is {row[name]!r}, not a text")
    return Sample(
        config=config(row["config"]),
        epochs=_number(row["epochs"], "epochs"),
        epoch_seconds=_known(row["epoch_seconds"]),
        accuracy=_known(row["accuracy"]),
        terms=Terms(**row["terms"]),
        curve=curve,
        seconds=_number(row["seconds"], "seconds"),
        failure=None if row["failure"] is None else Failure(row["failure"], Cause(row["cause"]), row["room"]),
        warning=row["warning"],
        goal=None if row["goal"] is None else record(Goal, row["goal"]),
        load=None if row["load"] is None else record(Load, row["load"]),
        **{name: row[name] for name in _AS_IT_IS},
    )


def of_evaluation(evaluation: Evaluation, sample_id: str, place: int) -> dict[str, Any]:
    """Return the columns of one point of a curve."""
    return {
        "sample": sample_id,
        "place": place,
        "epoch": _number(evaluation.epoch, "epoch"),
        "accuracy": _known(evaluation.accuracy),
        "seconds": _number(evaluation.seconds, "seconds"),
        "metrics": {printable(name): _known(value) for name, value in evaluation.metrics} or None,
    }


def evaluation(epoch: float, accuracy: float | None, seconds: float, metrics: Row | None) -> Evaluation:
    """Return one point of a curve from its columns."""
    given: Row = metrics or {}
    if not isinstance(given, Mapping):
        raise TypeError(f"metrics are {type(given).__name__}, not names and numbers")
    numbers = tuple((name, math.nan if value is None else float(value)) for name, value in given.items())
    return Evaluation(epoch, math.nan if accuracy is None else accuracy, seconds, numbers)


def of_record(record: Any) -> Any:
    """Return a record, such as a `Job` or a `Plan`, as plain JSON; a number that is not finite becomes a word."""
    if isinstance(record, Space) and record.only is not None:  # many whole numbers, plain already
        return {**plain(asdict(replace(record, only=None))), "only": record.only}
    return plain(asdict(record))


def record(kind: type[Record], definition: Row) -> Record:
    """Return the record of a kind from its JSON; a job has its secrets masked."""
    read: Record = _reader(kind).validate_python(definition)  # type: ignore[arg-type]  # it looks for an instance's hash
    return read


@cache
def _reader(kind: type) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def plain(value: Any) -> Any:
    """Return a value as JSON can hold it."""
    if isinstance(value, Mapping):
        return {str(name): plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _number(value: float, what: str) -> float:
    if not math.isfinite(value):
        raise ValueError(f"{what} must be a finite number, not {value}")
    return float(value)


def _known(value: float | None) -> float | None:
    return float(value) if value is not None and math.isfinite(value) else None


def _words(text: str | None) -> str | None:
    """Return a program's last words without secrets and without what no database can hold."""
    if text is None:
        return None
    clean = text.encode("utf-8", "replace").decode().replace("\0", "\N{REPLACEMENT CHARACTER}")
    return redact.text(clean)


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What makes steps alike; `mix` is the share of the bytes by family of operators."""

    flops: float
    bytes: float
    operators: int
    parameters: int
    mix: tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True)
class ModelStep:
    """Seconds of a step as measured, beside what its counts alone would have said."""

    model: str
    device: str
    precision: str
    workers: int
    batch_size: int
    seconds: float
    spread: float
    counted_seconds: float
    fingerprint: Fingerprint
    measured: str
