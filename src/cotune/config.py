"""The job file `cotune.yaml`: every field optional, flags win, unknown keys are errors.

What is read becomes the records of `types`: a `Job`, a `Goal`, a `Space` and a `Cluster`.
"""

from __future__ import annotations

import json
import os
import platform
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from cotune.errors import InvalidFile, NotFound, UsageError, suggestion
from cotune.space import LAYOUT, Axis, Space
from cotune.types import Cluster, Device, Goal, Job, LearningRate, Prefer, Value
from cotune.units import seconds

FILE_NAME = "cotune.yaml"
LOG_TOOLS = ("lightning", "mlflow", "tensorboard")  # what their logs gain while a job runs can be told
BATCH_SIZES = (16, 32, 64, 128, 256, 512)
_TARGET = re.compile(r"([\w./-]+)\s*(<=|>=|=)\s*(.+)")
_FALLING = re.compile(r"loss|error|perplexity|wer|rmse|mae|mse", re.IGNORECASE)
_RANGE = re.compile(r"(\d+)\s*\.\.\s*(\d+)")
_BATCH_FLAG = re.compile(r"(?:--batch[-_]?size|--bs|-b)(?:=|$)")


def _duration(value: object) -> float:
    try:
        return seconds(str(value))
    except UsageError:
        raise ValueError("a positive duration such as 90s, 45m or 2h") from None


def axis_values(value: object) -> tuple[Value, ...]:
    """Return the values of '1..8', '16,32', a list or a single value."""
    if isinstance(value, str) and (ends := _RANGE.fullmatch(value.strip())):
        first, last = int(ends[1]), int(ends[2])
        if first > last:
            raise ValueError(f"a range that rises, not {value!r}")
        return tuple(range(first, last + 1))
    if isinstance(value, str) and "," in value:
        value = [yaml.safe_load(part) for part in value.split(",")]
    elif isinstance(value, str):
        value = [yaml.safe_load(value)]
    values = value if isinstance(value, list | tuple) else [value]
    if not values or not all(isinstance(entry, str | int | float | bool) for entry in values):
        raise ValueError("a range such as 1..8 or a list such as [16, 32, 64]")
    return tuple(values)


def _target(value: object) -> object:
    """Read 'accuracy=0.98', 'loss<=0.3', 0.98 or a mapping."""
    if isinstance(value, str) and (said := _TARGET.fullmatch(value.strip())):
        level = {"<=": "at_most", ">=": "at_least", "=": "at_least_as_good"}[said[2]]
        return {"metric": said[1], level: said[3]}
    return value if isinstance(value, Mapping) else {"at_least_as_good": value}


Duration = Annotated[float, BeforeValidator(_duration, json_schema_input_type=str | float)]
Values = Annotated[tuple[Value, ...], BeforeValidator(axis_values, json_schema_input_type=str | list[Value])]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class TargetSection(_Section):
    """What counts as good enough."""

    metric: str | None = None
    at_least: float | None = None
    at_most: float | None = None
    at_least_as_good: float | None = None

    @model_validator(mode="after")
    def _one_level(self) -> TargetSection:
        if sum(level is not None for level in (self.at_least, self.at_most, self.at_least_as_good)) != 1:
            raise ValueError("exactly one of at_least and at_most")
        return self


class LearningRateSection(_Section):
    """A learning rate known at one global batch, and how it scales."""

    at: float = Field(gt=0)
    global_batch: int = Field(gt=0)
    rule: Literal["linear", "sqrt", "fixed"] = "linear"


class BudgetSection(_Section):
    """What may be spent: seconds of measuring, cost of the run."""

    profile: Duration = 300.0
    max_cost: float | None = Field(default=None, gt=0)


class DeviceSection(_Section):
    """A kind of machine; without a price it has the listed one, if there is one, unless it says `none`."""

    price_per_hour: Annotated[float, Field(ge=0)] | Literal["none"] | None = None
    count: int | None = Field(default=None, gt=0)
    per_node: int | None = Field(default=None, gt=0)
    bill: Literal["device", "node"] = "device"


class JobFile(_Section):
    """A job, its goal, what may be chosen, and what there is to run it on."""

    name: str | None = Field(default=None, min_length=1)
    run: str | list[str] | None = None
    examples: int | None = Field(default=None, gt=0)
    pattern: str | None = None
    log: str | dict[str, str] | None = None
    env: dict[str, str] = {}
    better: Literal["higher", "lower"] | None = None
    target: Annotated[TargetSection | None, BeforeValidator(lambda v: None if v is None else _target(v))] = None
    deadline: Duration | None = None
    epochs: int | None = Field(default=None, gt=0)
    max_epochs: int = Field(default=30, gt=0)
    confidence: float = Field(default=0.9, gt=0, lt=1)
    prefer: Prefer = "cheap"
    global_batch: int | None = Field(default=None, gt=0)
    search: dict[str, Values] = {}
    lr: LearningRateSection | None = None
    budget: BudgetSection = BudgetSection()
    timeout: Duration | None = None
    devices: dict[str, DeviceSection] = {}
    currency: str = "USD"
    engine: str | dict[str, dict[str, Any]] = "local"
    model: str | None = None
    input: str | list[str] = []


@dataclass(frozen=True, slots=True)
class Settings:
    """A job file as records, ready for use."""

    job: Job
    goal: Goal
    space: Space
    cluster: Cluster
    profile_seconds: float
    timeout: float | None
    engine: str
    engine_settings: Mapping[str, Any]
    model: str | None = None
    inputs: tuple[str, ...] = ()


def find(start: Path) -> Path | None:
    """Return the job file of this folder or the nearest one above."""
    candidates = (folder / FILE_NAME for folder in (start, *start.parents))
    return next((path for path in candidates if path.is_file()), None)


def load(path: Path | None, overrides: Mapping[str, Any]) -> Settings:
    """Return the settings of a job file with the flags laid over it."""
    if path is None:
        return loads("{}", overrides, "the command line", Path.cwd())
    return loads(_read(path), overrides, str(path), path.parent)


def loads(text: str, overrides: Mapping[str, Any], source: str, folder: Path) -> Settings:
    """Return the settings of a job file's text, as one that stands in a folder."""
    raw = parse_yaml(source, text)
    given = {key: value for key, value in overrides.items() if value is not None}
    try:
        JobFile.model_validate(given)
    except ValidationError as error:
        raise UsageError(f"--{_words(error)[1].replace('_', '-')}: {_words(error)[2]}") from None
    try:
        file = JobFile.model_validate(_merge(raw, given))
    except ValidationError as error:
        path_of, key, words = _words(error)
        raise InvalidFile(f"{source}{_line(text, path_of)}: {key}: {words}") from None
    return _records(file, folder.resolve(), source)


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of the job file."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **JobFile.model_json_schema()}


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise NotFound(f"no job file at {path}; `cotune init` writes one") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidFile(f"cannot read {path}: {error}") from None


def parse_yaml(source: str, text: str) -> dict[str, Any]:
    """Return the mapping in some YAML; errors name its source and line."""
    try:
        raw = yaml.safe_load(text) or {}
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f":{mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or str(error)
        raise InvalidFile(f"{source}{place}: not valid YAML: {problem}") from None
    if not isinstance(raw, dict):
        raise InvalidFile(f"{source}: expected keys and values, found {type(raw).__name__}")
    return raw


def _merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Return base with over laid on top; `search` and `budget` are merged key by key, as is a target's metric."""
    merged = dict(base)
    for key, value in over.items():
        deep = key in ("search", "budget") and isinstance(merged.get(key), Mapping)
        merged[key] = {**merged[key], **value} if deep else value
    if isinstance(base.get("target"), Mapping) and "target" in over:
        metric = base["target"].get("metric")
        merged["target"] = {"metric": metric} | _given(_target(over["target"]))
        merged.setdefault("better", "lower" if base["target"].get("at_most") is not None else None)
    return merged


def _given(target: object) -> dict[str, Any]:
    """Return the parts of a target that were said."""
    return {key: value for key, value in target.items() if value is not None} if isinstance(target, Mapping) else {}


def _words(error: ValidationError) -> tuple[list[str | int], str, str]:
    """Return the path, the key and what is wrong with it, of the first problem."""
    problems = error.errors()
    first = problems[0]
    path = [part for part in first["loc"] if not str(part).startswith("function-")]
    key = ".".join(str(part) for part in path)
    if first["type"] == "extra_forbidden":
        words = f"unknown key{suggestion(str(path[-1]), _known_keys(path[:-1]))}"
    else:
        words = first["msg"].removeprefix("Value error, ").removeprefix("Input should be ")
        words = f"expected {words}, not {_short(first['input'])}"
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return path, key, words + more


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) < 60 else text[:57] + "..."


def _known_keys(path: list[str | int]) -> list[str]:
    sections: dict[str, type[BaseModel]] = {
        "target": TargetSection,
        "lr": LearningRateSection,
        "budget": BudgetSection,
        "devices": DeviceSection,
    }
    model = sections.get(str(path[0]), JobFile) if path else JobFile
    return list(model.model_fields)


def _line(text: str, path: list[str | int]) -> str:
    """Return ':line' of the deepest part of the path that stands in the text."""
    node = yaml.compose(text)
    line = None
    for part in path:
        if not isinstance(node, yaml.MappingNode):
            break
        entry = next(((key, value) for key, value in node.value if key.value == str(part)), None)
        if entry is None:
            break
        line, node = entry[0].start_mark.line + 1, entry[1]
    return f":{line}" if line else ""


def _records(file: JobFile, folder: Path, source: str) -> Settings:
    command = _split(file.run, source)
    engine, settings = _engine(file, source)
    job = Job(
        name=file.name or _name(command, folder),
        command=command,
        examples=file.examples,
        metric=(file.target and file.target.metric) or "accuracy",
        better=_better(file),
        lr=LearningRate(file.lr.at, file.lr.global_batch, file.lr.rule) if file.lr else None,
        pattern=file.pattern,
        folder=str(folder),
        env=tuple(sorted(file.env.items())),
        where=_where(engine, settings),
        log=_log(file, source),
    )
    cluster = Cluster(
        tuple(
            _device(name, section, file.currency, folder)
            for name, section in (file.devices or {"cpu": DeviceSection()}).items()
        ),
        file.currency,
    )
    goal = Goal(
        target=_level(file.target),
        deadline=file.deadline,
        max_cost=file.budget.max_cost,
        epochs=file.epochs,
        max_epochs=file.epochs or file.max_epochs,
        confidence=file.confidence,
        prefer=file.prefer,
    )
    space = _space(file, cluster, job, source)
    inputs = (file.input,) if isinstance(file.input, str) else tuple(file.input)
    return Settings(job, goal, space, cluster, file.budget.profile, file.timeout, engine, settings, file.model, inputs)


def _device(name: str, section: DeviceSection, currency: str, folder: Path) -> Device:
    price = section.price_per_hour
    given = Device(name, section.count, None, section.per_node, section.bill)
    if price == "none" or (price is None and name == "cpu"):
        return given
    if price is not None:
        return replace(given, price_per_hour=price)
    from cotune.prices import lookup
    from cotune.store.location import work_folder

    found = lookup(name, currency, work_folder(folder))
    return replace(given, price_per_hour=found.price_per_hour, price_source=str(found)) if found else given


def _split(run: str | list[str] | None, source: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(run) if isinstance(run, str) else run or ())
    except ValueError as error:
        raise InvalidFile(f"{source}: run: {str(error).lower()} in {run!r}") from None


def _log(file: JobFile, source: str) -> tuple[str, str] | None:
    """Return which log files to read while the job runs, and as what."""
    if file.log is None:
        return None
    if isinstance(file.log, str):
        if file.pattern is None:
            raise InvalidFile(f"{source}: log: its lines are read by a `pattern` with (?P<epoch>) and (?P<accuracy>)")
        return "text", file.log
    if len(file.log) != 1:
        raise InvalidFile(f"{source}: log: expected one tool and its path, not {', '.join(file.log) or 'none'}")
    ((tool, path),) = file.log.items()
    if tool not in LOG_TOOLS:
        near = suggestion(tool, LOG_TOOLS)
        raise InvalidFile(
            f"{source}: log: no tool {tool!r} is read while a job runs; there are {', '.join(LOG_TOOLS)}{near}"
        )
    return tool, path


def _where(engine: str, settings: Mapping[str, Any]) -> str:
    """Return what measured seconds depend on besides the job: the engine, and the machine of a local one."""
    host = f" on {platform.node()}" if engine == "local" else ""
    return f"{engine}{json.dumps(settings, sort_keys=True) if settings else ''}{host}"


def _better(file: JobFile) -> Literal["higher", "lower"]:
    target = file.target
    if target and target.at_least_as_good is not None and file.better is None and _FALLING.search(target.metric or ""):
        level = f"{target.at_least_as_good:g}"
        raise UsageError(f"is a lower {target.metric} better? write {target.metric}<={level} (or >=)")
    implied: Literal["higher", "lower"] = "lower" if file.target and file.target.at_most is not None else "higher"
    return file.better or implied


def _level(target: TargetSection | None) -> float | None:
    if target is None:
        return None
    levels = (target.at_least, target.at_most, target.at_least_as_good)
    return next(level for level in levels if level is not None)


def _name(command: tuple[str, ...], folder: Path) -> str:
    script = next((Path(word).stem for word in command if word.endswith(".py")), None)
    return script or folder.name or "job"


def _engine(file: JobFile, source: str) -> tuple[str, Mapping[str, Any]]:
    if isinstance(file.engine, str):
        return file.engine, {}
    if len(file.engine) != 1:
        raise InvalidFile(f"{source}: engine: expected one engine, not {', '.join(file.engine) or 'none'}")
    return next(iter(file.engine.items()))


def _space(file: JobFile, cluster: Cluster, job: Job, source: str) -> Space:
    axes: dict[str, tuple[Value, ...]] = {"workers": tuple(range(1, _most_workers(file, cluster) + 1))}
    axes |= {"batch_size": BATCH_SIZES} if file.global_batch is None else {}
    axes |= {"device": tuple(device.name for device in cluster.devices)}
    for name, values in file.search.items():
        _check_axis(name, values, job, source)
        axes[name] = values
    if file.global_batch is not None and "batch_size" in file.search:
        raise InvalidFile(f"{source}: global_batch fixes the recipe, so search.batch_size cannot be chosen; drop one")
    if job.command:
        require_batch(job, source)
    return Space(tuple(Axis(name, values) for name, values in axes.items()), file.global_batch)


def _most_workers(file: JobFile, cluster: Cluster) -> int:
    counts = [device.count for device in cluster.devices if device.count]
    if isinstance(file.engine, dict) and not counts:
        counts = [settings["nodes"] for settings in file.engine.values() if isinstance(settings.get("nodes"), int)]
    return max(counts) if counts else len(os.sched_getaffinity(0))


def _check_axis(name: str, values: tuple[Value, ...], job: Job, source: str) -> None:
    used = any("{" + name + "}" in word for word in job.command) or reads_environment(job, f"COTUNE_{name.upper()}")
    if name not in LAYOUT and not used:
        near = suggestion(name, LAYOUT)
        raise InvalidFile(f"{source}: search.{name}: the command has no {{{name}}}{near}")
    least = {"workers": 1, "batch_size": 1, "accumulate": 1, "servers": 0}.get(name)
    for value in values:
        if least is not None and (type(value) is not int or value < least):
            raise InvalidFile(f"{source}: search.{name}: expected whole numbers of at least {least}, not {value!r}")


def require_batch(job: Job, source: str) -> None:
    """Refuse a command through which cotune cannot set the batch, with the one to write instead."""
    if any("{batch_size}" in word or "{global_batch}" in word for word in job.command):
        return
    if reads_environment(job, "COTUNE_BATCH_SIZE", "COTUNE_GLOBAL_BATCH"):
        return
    words = list(job.command)
    for place, word in enumerate(words):
        if _BATCH_FLAG.match(word):
            if "=" in word:
                words[place] = word.partition("=")[0] + "={batch_size}"
            elif place + 1 < len(words):
                words[place + 1] = "{batch_size}"
            break
    else:
        words.append("--batch-size={batch_size}")
    raise UsageError(
        f"{source}: the command has no {{batch_size}}, so cotune cannot set the batch; write: {' '.join(words)}"
        " (or let the script read COTUNE_BATCH_SIZE)"
    )


def reads_environment(job: Job, *names: str) -> bool:
    """Return whether a script of the command takes a number from one of these variables."""
    scripts = (Path(job.folder) / word for word in job.command if word.endswith((".py", ".sh")))
    return any(script.is_file() and any(n in script.read_text(errors="replace") for n in names) for script in scripts)
