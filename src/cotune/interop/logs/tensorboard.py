"""TensorBoard: scalars of event files, read by TensorBoard's own reader; each folder with such files is a run.

A record is its length (8 bytes), a checksum (4), the event and a checksum (4). A run that
was killed may leave a torn one at the end; what stands before it counts.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

from cotune.errors import InvalidFile, missing_extra
from cotune.interop.logged import Logged, below, by_step, hyperparameters

_PATTERN = "*tfevents*"
_HEAD, _TAIL = 12, 4


def runs(source: Path) -> Iterator[Logged]:
    """Yield the runs below a folder, or that of one event file."""
    for folder, paths in groupby(below(source, _PATTERN), key=lambda path: path.parent):
        files = list(paths)
        events = [event for path in files for event in _events(path)]
        torn = [path.name for path in files if _is_torn(path)]
        yield Logged(
            name=str(folder.relative_to(source)) if folder != source and source.is_dir() else folder.name,
            points=by_step(_scalars(events)),
            params=hyperparameters(folder),
            began=min(event.wall_time for event in events),
            warning=f"the last record of {torn[0]} is torn: the run was killed, or still writes" if torn else None,
        )


def _events(path: Path) -> list[Any]:
    try:
        load = importlib.import_module("tensorboard.backend.event_processing.event_file_loader").RawEventFileLoader
        event = importlib.import_module("tensorboard.compat.proto.event_pb2").Event
        undecodable: type[Exception] = importlib.import_module("google.protobuf.message").DecodeError
    except ModuleNotFoundError:
        raise missing_extra("tensorboard, which reads its own event files,", "tensorboard") from None
    try:
        events = [event.FromString(record) for record in load(str(path)).Load()]
    except undecodable as error:
        raise InvalidFile(f"{path} holds records that are no events: {error}") from None
    if not events:
        raise InvalidFile(f"{path} is not an event file of TensorBoard, or is torn at its first record")
    return events


def _scalars(events: list[Any]) -> Iterator[tuple[float, str, float, float]]:
    """Yield the numbers of events, each with its step and time."""
    for event in events:
        for value in event.summary.value:
            number = _scalar(value)
            if number is not None:
                yield event.step, value.tag, number, event.wall_time


def _scalar(value: Any) -> float | None:
    if value.HasField("simple_value"):
        return float(value.simple_value)
    if value.HasField("tensor") and not value.tensor.tensor_shape.dim and value.tensor.dtype in (1, 2):
        return float(importlib.import_module("tensorboard.util.tensor_util").make_ndarray(value.tensor))
    return None


def _is_torn(path: Path) -> bool:
    """Say whether a file ends within a record."""
    size, place = path.stat().st_size, 0
    with path.open("rb") as file:
        while place + _HEAD <= size:
            file.seek(place)
            place += _HEAD + int.from_bytes(file.read(8), "little") + _TAIL
    return place != size
