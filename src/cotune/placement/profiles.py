"""A profile: what every layer takes on every type of device, read from JSON.

All seconds are for `batch` examples on one unit. Per layer and type:

    compute (1 - a + a/k)      a = compute_parallel, k = units of the stage
    sync    (1 - b + b/k)      b = sync_parallel
    cut_before / k             paid on both sides of a cut, nothing at the two ends

A number per type is a list in the order of `types`, or an object by their names. `null` marks a layer that
does not fit a type. `stage_seconds` gives whole stages as a table
instead, for times that follow no such law. Optional: the part of the seconds that does not
grow with the batch (`compute_fixed`, `sync_fixed`, `cut_fixed`) and what memory holds
(`example_bytes`, `weight_bytes`, the type's `memory_bytes`), with which the batch is chosen too. `overlap`
says whether units compute and communicate at the same time; a profile that was measured knows. `input_bytes`
and `weight_bytes` stand in each layer, or beside them: one number per layer, or one for the whole network.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import from_json

from cotune.errors import InvalidFile, NotFound, suggestion

Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Bytes = Annotated[float, Field(ge=0, allow_inf_nan=False)]
PerType = list[Seconds | None]
STDIN = Path("-")
_SHOWN = 5
_RECORD = ConfigDict(frozen=True, extra="allow", strict=True)


def _whole(number: Any) -> Any:
    return int(number) if isinstance(number, float) and number.is_integer() else number


def _words(given: Any) -> Any:
    return tuple(given) if isinstance(given, list) else given


Whole = Annotated[int, BeforeValidator(_whole)]  # 3.0 is a way to write 3
Words = Annotated[tuple[str, ...], BeforeValidator(_words)]


class _Record(BaseModel):
    """Extra keys are notes for people; one that looks like a misspelt field is an error."""

    model_config = _RECORD

    @model_validator(mode="after")
    def _no_misspelt_fields(self) -> Self:
        for key in self.model_extra or {}:
            if near := suggestion(key, type(self).model_fields):
                raise ValueError(f"unknown field {key!r}{near}")
        return self


class TypeEntry(_Record):
    """A type of device: what a unit costs per hour, how many there are, what one holds.

    To run it here: the device that torch knows it by, and for an emulated unit its share of a core and its link.
    On Slurm: the options by which one is asked for, such as `--constraint=big`; on Ray its name is the resource.
    """

    name: Annotated[str, Field(min_length=1)]
    price_per_hour: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    limit: Annotated[Whole, Field(ge=1)] | None = None
    memory_bytes: Bytes | None = None
    device: str | None = None
    cores: Annotated[float, Field(gt=0, le=1)] | None = None
    link: str | None = None
    slurm: Words | None = None

    @property
    def torch_device(self) -> str:
        """Return what torch calls it: its device, or else its name."""
        return self.device or ("cpu" if self.name.lower().startswith("cpu") else self.name)


class LayerEntry(_Record):
    """A layer: its seconds and parallel shares, one number per type."""

    name: str = ""
    kind: str = ""
    compute: PerType | None = None
    compute_parallel: list[Share | None] | None = None
    sync: PerType | None = None
    sync_parallel: list[Share | None] | None = None
    cut_before: PerType | None = None
    compute_fixed: PerType | None = None
    sync_fixed: PerType | None = None
    cut_fixed: PerType | None = None
    input_bytes: Bytes | None = None
    weight_bytes: Bytes | None = None
    example_bytes: Bytes | None = None


class StageEntry(_Record):
    """The seconds of one stage, layers `first` to `last`, on so many units of a type."""

    type: str
    first: Annotated[Whole, Field(ge=0)]
    last: Annotated[Whole, Field(ge=0)]
    units: Annotated[Whole, Field(ge=1)]
    seconds: Seconds


class Profile(_Record):
    """What was measured of a network on some types of device."""

    batch: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    types: Annotated[list[TypeEntry], Field(min_length=1)]
    layers: list[LayerEntry] = Field(default_factory=list)
    stage_seconds: list[StageEntry] | None = None
    input_bytes: list[Bytes] | None = None
    weight_bytes: list[Bytes] | None = None
    name: str = ""
    currency: str = "USD"
    overlap: bool = True

    @property
    def depth(self) -> int:
        """Return the number of layers."""
        if self.layers:
            return len(self.layers)
        return 1 + max(entry.last for entry in self.stage_seconds or [])

    @model_validator(mode="before")
    @classmethod
    def _spelt_out(cls, raw: Any) -> Any:
        """Share sizes of the whole network out evenly over its layers; an empty table beside layers is none.

        What is given by the names of types is put into their order.
        """
        layers = raw.get("layers") if isinstance(raw, dict) else None
        if not isinstance(layers, list) or not layers:
            return raw
        types = raw.get("types")
        names = [one.get("name") for one in types if isinstance(one, dict)] if isinstance(types, list) else []
        raw = raw | {"layers": [_in_order(layer, names, f"layers[{place}]") for place, layer in enumerate(layers)]}
        sizes = {
            field: [raw[field] / len(layers)] * len(layers)
            for field in ("input_bytes", "weight_bytes")
            if isinstance(raw.get(field), int | float)
        }
        return raw | sizes | ({} if raw.get("stage_seconds") else {"stage_seconds": None})

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        problems = list(_names(self)) or list(_table(self) if self.stage_seconds is not None else _layers(self))
        if problems:
            raise ValueError("\n".join(problems[:_SHOWN]))
        return self


def _in_order(layer: Any, names: list[Any], where: str) -> Any:
    """Return a layer whose numbers by the names of types are lists, one number per type."""
    if not isinstance(layer, dict):
        return layer
    listed = {}
    for field, given in layer.items():
        if not (isinstance(given, dict) and field in LayerEntry.model_fields):
            continue
        if missing := [name for name in names if name not in given]:
            raise ValueError(f"{where}.{field}: has no number for {missing[0]} (null where it does not fit)")
        if others := [name for name in given if name not in names]:
            raise ValueError(f"{where}.{field}: no type is named {others[0]!r}{suggestion(others[0], names)}")
        listed[field] = [given[name] for name in names]
    return layer | listed


def read(path: Path) -> Profile:
    """Return the profile in a JSON file; `-` is standard input."""
    try:
        data = sys.stdin.buffer.read() if path == STDIN else path.read_bytes()
        text = data.decode("utf-8-sig")
    except FileNotFoundError:
        raise NotFound(f"no profile at {path}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidFile(f"{path}: cannot be read: {error}") from None
    try:
        data = from_json(text)
    except ValueError as error:
        raise InvalidFile(f"{path}: not JSON: {error}") from None
    return parse(data, str(path))


def parse(data: object, where: str = "profile") -> Profile:
    """Return the profile in plain JSON data; an error names each wrong field and the reason."""
    try:
        return Profile.model_validate(data)
    except ValidationError as error:
        lines = [line for one in error.errors() for line in _explain(dict(one))]
        more = f" (and {len(lines) - _SHOWN} more)" if len(lines) > _SHOWN else ""
        raise InvalidFile(f"{where}: " + "; ".join(lines[:_SHOWN]) + more) from None


def _explain(error: dict[str, Any]) -> list[str]:
    """Return 'field: reason' lines for one complaint of pydantic's."""
    parts = [part for part in error["loc"] if part not in ("float", "int", "list", "none")]
    field = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts).lstrip(".")
    reason = str(error["msg"]).removeprefix("Value error, ")
    if not field and error["type"] == "value_error":
        return reason.split("\n")
    given = error.get("input")
    if error["type"] == "missing":
        return [f"{field}: is missing"]
    shown = f", not {given!r}" if isinstance(given, bool | int | float | str | None) else ""
    reason = reason.replace("Input should", "must").replace("List should", "must")
    reason = reason.replace("a valid list", "a list, one number per type") if "layers" in parts[:-1] else reason
    return [f"{field or 'profile'}: {reason}{shown}"]


def _names(profile: Profile) -> Iterator[str]:
    seen: set[str] = set()
    for place, entry in enumerate(profile.types):
        if entry.name in seen:
            yield f"types[{place}].name: {entry.name!r} is given twice"
        seen.add(entry.name)
    if not profile.layers and not profile.stage_seconds:
        yield "layers: there are none; give layers with compute seconds, or a table stage_seconds"
    for field in ("input_bytes", "weight_bytes"):
        sizes = getattr(profile, field)
        if sizes is not None and profile.layers and len(sizes) != len(profile.layers):
            yield f"{field}: {len(sizes)} numbers for {len(profile.layers)} layers"


def _table(profile: Profile) -> Iterator[str]:
    """Yield what is wrong with a table of stages."""
    names, depth = [entry.name for entry in profile.types], profile.depth
    seen: set[tuple[str, int, int, int]] = set()
    for place, entry in enumerate(profile.stage_seconds or []):
        where = f"stage_seconds[{place}]"
        key = (entry.type, entry.first, entry.last, entry.units)
        if entry.type not in names:
            there = ", ".join(names)
            yield f"{where}.type: no type named {entry.type!r}; there are {there}{suggestion(entry.type, names)}"
        if entry.last < entry.first:
            yield f"{where}.last: {entry.last} is before first {entry.first}"
        elif entry.last >= depth:
            yield f"{where}.last: {entry.last} is past the last layer {depth - 1}"
        if entry.seconds == 0:
            yield f"{where}.seconds: must be positive, a stage takes some time"
        if key in seen:
            yield f"{where}: {entry.type} {entry.first}..{entry.last} on {entry.units} units is given twice"
        seen.add(key)


def _layers(profile: Profile) -> Iterator[str]:
    """Yield what is wrong with layers given by their seconds and shares."""
    for place, layer in enumerate(profile.layers):
        where = f"layers[{place}]"
        if layer.compute is None:
            yield f"{where}.compute: is missing"
            continue
        if layer.compute_parallel is None:
            yield f"{where}.compute_parallel: is missing"
        if any(layer.sync or []) and layer.sync_parallel is None:
            yield f"{where}.sync_parallel: is missing, and sync is given"
        yield from _lengths(layer, where, profile)
    if all(_weightless(layer) for layer in profile.layers):
        yield "layers: every layer has a type on which it takes no time at all; measure at a larger batch"


def _weightless(layer: LayerEntry) -> bool:
    sync = layer.sync or [0.0] * len(layer.compute or [])
    return any(compute == 0 and not moved for compute, moved in zip(layer.compute or [], sync, strict=False))


def _lengths(layer: LayerEntry, where: str, profile: Profile) -> Iterator[str]:
    names = [entry.name for entry in profile.types]
    fits = [seconds is not None for seconds in layer.compute or []]
    for field in _PER_TYPE:
        numbers, parent = getattr(layer, field), _PART_OF.get(field)
        if numbers is None:
            continue
        if len(numbers) < len(names):
            missing = ", ".join(names[len(numbers) :])
            yield f"{where}.{field}: {len(numbers)} numbers for {len(names)} types; none for {missing}"
        elif len(numbers) > len(names):
            yield f"{where}.{field}: {len(numbers)} numbers for {len(names)} types ({', '.join(names)})"
        elif field != "compute":
            yield from (
                f"{where}.{field}[{column}]: is null although compute says that the layer fits {name}"
                for column, name in enumerate(names)
                if numbers[column] is None and len(fits) == len(names) and fits[column]
            )
        whole = getattr(layer, parent) if parent else None
        if whole is not None and len(whole) == len(numbers):
            yield from (
                f"{where}.{field}[{column}]: {part} is more than {parent} {total}, of which it is a part"
                for column, (part, total) in enumerate(zip(numbers, whole, strict=True))
                if part is not None and total is not None and part > total
            )


_PART_OF = {"compute_fixed": "compute", "sync_fixed": "sync", "cut_fixed": "cut_before"}
_PER_TYPE = ("compute", "compute_parallel", "sync", "sync_parallel", "cut_before", *_PART_OF)
