"""Reading a recording: every error names the file and the line.

Columns beyond those of the contract are named axes; `accumulate` and `servers` are those
of the layout. Rows may come in any order: repeats and seeds count by their labels. Rows of the
same config without a `repeat` are repeats; the same evaluation told twice with different values is an error.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import yaml
from pydantic import ValidationError

from cotune.errors import InvalidFile, NotFound, suggestion
from cotune.jobfile.file import DeviceSection, parse_yaml
from cotune.recording.truth import Cells, Curves, Layout, RecordedCurve, Recording
from cotune.types import Cluster, Device, Job, RateScaling, Value, axes_of, rule_power

JOB, TIMES, ACCURACY = "job.yaml", "epoch_time.csv", "accuracy.csv"
_KEYS = ("name", "examples", "metric", "better", "lr_rule", "devices", "currency", "restart_seconds")
_SCALED = ("scaled", "tuned", "adascale")  # beside the rules of a job file
_Kind = TypeVar("_Kind")
_TIME_COLUMNS = ("workers", "batch_size", "epoch_seconds")
_TIME_EXTRAS = ("device", "nodes", "repeat", "accumulate", "servers")
_ACCURACY_COLUMNS = ("global_batch", "epoch", "accuracy")


def read(folder: Path) -> Recording:
    """Return the recording in a folder, or raise an error that names file and line."""
    if not folder.is_dir():
        raise NotFound(f"no recording at {folder}: a recording is a folder with {JOB} and {TIMES} or {ACCURACY}")
    if not (folder / JOB).is_file():
        raise NotFound(f"{folder} is no recording: it has no {JOB}")
    facts = _Facts(folder / JOB)
    times = _times(folder / TIMES, facts.only_device) if (folder / TIMES).is_file() else {}
    curves = _curves(folder / ACCURACY) if (folder / ACCURACY).is_file() else {}
    if not times and not curves:
        raise InvalidFile(f"{folder}: a recording needs {TIMES}, {ACCURACY} or both")
    seeds = max((len(runs) for of in curves.values() for runs in of.values()), default=1)
    told = any(workers is not None for workers in curves)
    job = replace(facts.job, seeds=seeds, workers_matter=told)
    return Recording(job, facts.cluster({layout[0] for layout in times}), times, curves, facts.restart_seconds)


def scaling_of(rule: object) -> RateScaling:
    """Return whether the learning rate grows with the global batch, as far as the words of `lr_rule` tell."""
    words = str(rule or "").strip().lower()
    if words in _SCALED:
        return "scaled"
    try:
        return "scaled" if rule_power(words) > 0 else "fixed"
    except ValueError:
        return "unknown"


class _Facts:
    """What job.yaml says."""

    def __init__(self, path: Path) -> None:
        self.path = path
        text = _text(path)
        self.raw = parse_yaml(str(path), text)
        self.lines = {str(key.value): key.start_mark.line + 1 for key, _ in getattr(yaml.compose(text), "value", [])}
        for key in self.raw:
            if key not in _KEYS and (near := suggestion(str(key), _KEYS)):
                self._wrong(str(key), f"unknown key{near}")

    def _wrong(self, key: str, words: str) -> NoReturn:
        line = f":{self.lines[key]}" if key in self.lines else ""
        raise InvalidFile(f"{self.path}{line}: {key}: {words}")

    @property
    def job(self) -> Job:
        examples, better = self.raw.get("examples"), self.raw.get("better", "higher")
        if isinstance(examples, str):  # YAML reads 1.28e6 as text
            examples = _value(examples)
        if isinstance(examples, float) and examples.is_integer():
            examples = int(examples)
        if type(examples) is not int or examples < 1:
            self._wrong("examples", f"expected the number of examples in an epoch, not {examples!r}")
        if better not in ("higher", "lower"):
            self._wrong("better", f"expected higher or lower, not {better!r}")
        name = str(self.raw.get("name") or self.path.parent.resolve().name)
        metric = str(self.raw.get("metric") or "accuracy")
        return Job(name, examples=examples, metric=metric, better=better, scaling=scaling_of(self.raw.get("lr_rule")))

    @property
    def restart_seconds(self) -> float | None:
        """Return the seconds that a run takes to move to another config, where they are told."""
        told = self.raw.get("restart_seconds")
        if told is None:
            return None
        if type(told) not in (int, float) or not 0 <= told < math.inf:
            self._wrong("restart_seconds", f"expected the seconds that moving to another config takes, not {told!r}")
        return float(told)

    @property
    def devices(self) -> Mapping[str, Device]:
        raw = self.raw.get("devices") or {}
        if not isinstance(raw, dict):
            self._wrong("devices", "expected names with price_per_hour and per_node")
        return {str(name): self._device(str(name), section or {}) for name, section in raw.items()}

    def _device(self, name: str, section: Any) -> Device:
        if not isinstance(section, dict):
            self._wrong("devices", f"{name}: expected price_per_hour and per_node, not {section!r}")
        known = {key: value for key, value in section.items() if key in DeviceSection.model_fields}
        for key in section.keys() - known.keys():
            if near := suggestion(str(key), DeviceSection.model_fields):
                self._wrong("devices", f"{name}: {key}: unknown key{near}")
        try:
            read = DeviceSection.model_validate(known)
        except ValidationError as error:
            first = error.errors()[0]
            self._wrong("devices", f"{name}: {'.'.join(map(str, first['loc']))}: {first['msg']}")
        price = None if read.price_per_hour == "none" else read.price_per_hour
        return Device(name, read.count, price, read.per_node, read.bill)

    @property
    def only_device(self) -> str:
        """Return the device of rows that name none."""
        return next(iter(self.devices), "device")

    def cluster(self, used: set[str]) -> Cluster:
        known = self.devices
        names = sorted(used) or [self.only_device]
        devices = tuple(known.get(name, Device(name)) for name in names)
        return Cluster(devices, str(self.raw.get("currency") or "USD"))


class _Table:
    """A CSV file, row by row, with the line of each."""

    def __init__(self, path: Path, needed: Sequence[str]) -> None:
        self.path, self.line = path, 1
        self._rows = csv.reader(_text(path).splitlines())
        header = next((row for row in self._rows if any(cell.strip() for cell in row)), None)
        if header is None:
            raise InvalidFile(f"{path}: empty; expected the columns {','.join(needed)}")
        self.columns = [name.strip() for name in header]
        for name in needed:
            if name not in self.columns:
                one = len(self.columns) == 1 and any(sign in self.columns[0] for sign in ";\t|")
                near = "; put commas between columns" if one else suggestion(name, self.columns)
                raise InvalidFile(f"{path}:{self._rows.line_num}: no column {name!r}{near}")
        if doubled := next((name for name in self.columns if self.columns.count(name) > 1), None):
            raise InvalidFile(f"{path}:{self._rows.line_num}: column {doubled!r} stands there twice")

    def __iter__(self) -> Iterator[dict[str, str]]:
        found = False
        for cells in self._rows:
            self.line = self._rows.line_num
            if not any(cell.strip() for cell in cells):
                continue
            if len(cells) != len(self.columns):
                self.wrong(f"{len(cells)} cells, expected {len(self.columns)}: {','.join(self.columns)}")
            found = True
            yield dict(zip(self.columns, cells, strict=True))
        if not found:
            raise InvalidFile(f"{self.path}: no rows below the header")

    def wrong(self, words: str) -> NoReturn:
        raise InvalidFile(f"{self.path}:{self.line}: {words}")

    def number(self, row: Mapping[str, str], name: str, least: float = -math.inf) -> float:
        """Return a finite number that is not below `least`."""
        try:
            value = float(row[name])
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            self.wrong(f"{name}: expected a number, not {row[name]!r}")
        if value < least:
            self.wrong(f"{name}: must not be below {least:g}, and is {row[name]}")
        return value

    def count(self, row: Mapping[str, str], name: str, least: int = 1) -> int:
        """Return a whole number that is not below `least`."""
        value = self.number(row, name, least)
        if value != int(value):
            self.wrong(f"{name}: expected a whole number, not {row[name]!r}")
        return int(value)

    def optional(self, row: Mapping[str, str], name: str, default: int, least: int) -> int:
        return self.count(row, name, least) if row.get(name, "").strip() else default


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidFile(f"cannot read {path}: {error}") from None


def _times(path: Path, device: str) -> dict[Layout, Cells]:
    table = _Table(path, _TIME_COLUMNS)
    axes = [name for name in table.columns if name not in (*_TIME_COLUMNS, *_TIME_EXTRAS)]
    found: dict[Layout, dict[int, dict[int, tuple[int, dict[str, float]]]]] = {}
    for row in table:
        named = axes_of({name: _value(row[name]) for name in axes if row[name].strip()})
        layout = (
            row.get("device", "").strip() or device,
            table.optional(row, "accumulate", 1, 1),
            table.optional(row, "servers", 0, 0),
            named,
        )
        seconds = table.number(row, "epoch_seconds", 0)
        if seconds == 0:
            table.wrong("epoch_seconds: must be above 0")
        workers, batch = table.count(row, "workers"), table.count(row, "batch_size")
        nodes = table.optional(row, "nodes", 0, 1)
        cells = found.setdefault(layout, {}).setdefault(workers, {})
        fewest, repeats = cells.get(batch, (nodes, {}))
        if nodes > fewest:
            continue
        if nodes < fewest:
            repeats = {}
        cells[batch] = (nodes, repeats)
        label = row.get("repeat", "").strip() or f"row {len(repeats)}"
        if repeats.get(label, seconds) != seconds:
            table.wrong(f"repeat {label} of batch {batch} on {workers} workers stands there twice, with other seconds")
        repeats[label] = seconds
    return {
        layout: {w: {b: _by_label(repeats) for b, (_, repeats) in by.items()} for w, by in cells.items()}
        for layout, cells in found.items()
    }


def _curves(path: Path) -> dict[int | None, Curves]:
    table = _Table(path, _ACCURACY_COLUMNS)
    found: dict[int | None, dict[int, dict[str, dict[float, float]]]] = {}
    for row in table:
        workers = table.optional(row, "workers", 0, 1) or None
        batch, epoch = table.count(row, "global_batch"), table.number(row, "epoch", 0)
        accuracy = table.number(row, "accuracy")
        points = found.setdefault(workers, {}).setdefault(batch, {}).setdefault(row.get("seed", "").strip(), {})
        if points.get(epoch, accuracy) != accuracy:
            table.wrong(f"epoch {epoch:g} of global batch {batch} stands there twice; tell runs apart by a column seed")
        points[epoch] = accuracy
    return {
        workers: {batch: tuple(map(_curve, _by_label(seeds))) for batch, seeds in by.items()}
        for workers, by in found.items()
    }


def _by_label(runs: Mapping[str, _Kind]) -> tuple[_Kind, ...]:
    """Return runs in the order of their labels, whole numbers first and by size, whatever the order of the rows."""
    order = sorted(runs, key=lambda label: (not label.isdecimal(), len(label) if label.isdecimal() else 0, label))
    return tuple(runs[label] for label in order)


def _curve(points: Mapping[float, float]) -> RecordedCurve:
    ordered = sorted(points.items())
    return RecordedCurve(tuple(epoch for epoch, _ in ordered), tuple(accuracy for _, accuracy in ordered))


def _value(text: str) -> Value:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text.strip()
