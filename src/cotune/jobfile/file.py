"""The job file as it is written: every field optional, flags win over it, unknown keys are errors.

text, flags ─▶ JobFile        or an error that names the source, the line and the nearest key
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import yaml
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from cotune.errors import InvalidFile, UsageError, suggestion
from cotune.jobfile import names
from cotune.jobfile.length import Length, parsed
from cotune.safety import yaml_text
from cotune.safety.printable import printable
from cotune.types import ASYNCHRONOUS, STOP_GRACE, Framework, Prefer, Schedule, Value, rule_power
from cotune.units import seconds

_TARGET = re.compile(r"([\w./-][\w./ -]*?)\s*(<=|>=|=)\s*([^<>=]+)")
_LEVELS = {"<=": "at_most", ">=": "at_least", "=": "at_least_as_good"}
_DEEP = ("search", "budget")  # sections of which a flag gives one entry
_LEAST = {"workers": 1, "batch_size": 1, "accumulate": 1, "micro_batch": 1, "servers": 0}
MOST_VALUES = 100_000  # of an axis
MOST_UNITS = 10**9  # workers, examples of a batch
MOST_SURE = 0.999  # of a goal
MOST_WHOLE = 2**53  # beyond it neighbours are the same number
_RANGE = re.compile(r"(\d+)\s*\.\.\s*(\d+)")


def _duration(value: object) -> float:
    try:
        return seconds(str(value))
    except UsageError:
        raise ValueError("a positive duration such as 90s, 45m or 2h") from None


def _pattern(value: str) -> str:
    try:
        re.compile(value)
    except re.error as error:
        raise ValueError(f"a regular expression ({error})") from None
    return value


def _rule(value: str) -> str:
    rule_power(value)
    return value


def _schedule(value: str) -> str:
    return str(Schedule.read(value)._replace(warmup=0.0))


def axis_values(value: object) -> tuple[Value, ...]:
    """Return the values of '1..8', '16,32', a list or a single value."""
    if isinstance(value, str) and (ends := _RANGE.fullmatch(value.strip())):
        first, last = int(ends[1]), int(ends[2])
        if first > last:
            raise ValueError("a range that rises, such as 1..8")
        if last - first >= MOST_VALUES:
            raise ValueError(f"a range of at most {MOST_VALUES:,} values")
        return tuple(range(first, last + 1))
    if isinstance(value, str):
        value = [_scalar(part) for part in value.split(",")]
    values = value if isinstance(value, list | tuple) else [value]
    if not values or not all(isinstance(entry, str | int | float | bool) for entry in values):
        raise ValueError("a range such as 1..8 or a list such as [16, 32, 64]")
    return tuple(values)


def _scalar(text: str) -> object:
    try:
        return yaml_text.read(text)
    except yaml_text.NotYaml:
        raise ValueError("a range such as 1..8 or a list such as 16,32,64") from None


def wrong_setting(path: Sequence[str | int], words: str) -> UsageError:
    """Return the error about a part of the job file that was given otherwise than by the file."""
    match path:
        case ("search", str(name), *_) | ("budget", "max_cost" as name, *_):
            return UsageError(f"{name}: {words}", setting=name, axis=path[0] == "search")
        case _:
            return UsageError(f"{path[0]}: {words}", setting=str(path[0]), axis=False)


def _target(value: object) -> object:
    """Read 'accuracy=0.98', 'loss<=0.3', 0.98 or a mapping; what is none of them is left as it is."""
    said = _TARGET.fullmatch(value.strip()) if isinstance(value, str) else None
    if said is not None:
        return {"metric": said[1], _LEVELS[said[2]]: said[3]} if _is_number(said[3]) else value
    return {"at_least_as_good": value} if _is_number(value) else value


def _is_number(value: object) -> bool:
    if not isinstance(value, str):
        return isinstance(value, int | float)
    try:
        float(value)
    except ValueError:
        return False
    return True


def _readable_target(value: object) -> object:
    """Return a target as `_target` reads it; refuse what it leaves."""
    read = _target(value)
    if read is not None and not isinstance(read, Mapping):
        raise ValueError("a target such as accuracy=0.98, 'loss<=0.3' (in quotes, for the shell) or a number")
    return read


def _confidence(value: float) -> float:
    if not 0 < value <= MOST_SURE:
        meant = f" (write {value / 100:g})" if 1 < value <= 100 * MOST_SURE else ""
        raise ValueError(f"a probability of at most {MOST_SURE:g}{meant}")
    return value


def _search(axes: dict[str, tuple[Value, ...]]) -> dict[str, tuple[Value, ...]]:
    """Return the values of axes; those that count something are whole numbers."""
    for name, values in axes.items():
        least = _LEAST.get(name)
        for value in values:
            if least is not None and (type(value) is not int or value < least):
                raise ValueError(f"{name}: whole numbers of at least {least}, such as 1,2,4, not {value!r}")
            if type(value) is int and abs(value) > MOST_UNITS:
                raise ValueError(f"{name}: numbers of at most {MOST_UNITS:,}, not {value}")
            if name == ASYNCHRONOUS and str(value).lower() not in ("true", "false"):
                raise ValueError(f"{name}: true or false, not {value!r}")
    return axes


Rule = Annotated[
    str, AfterValidator(_rule), Field(json_schema_extra={"pattern": r"^(linear|sqrt|fixed|power\(\s*\d*\.?\d+\s*\))$"})
]
_SCHEDULES = r"^(constant|cosine|linear|one_cycle|unknown|(wsd|step)(\([\d., factor=]+\))?)$"
ScheduleWords = Annotated[str, AfterValidator(_schedule), Field(json_schema_extra={"pattern": _SCHEDULES})]
Confidence = Annotated[
    float,
    AfterValidator(_confidence),
    Field(json_schema_extra={"exclusiveMinimum": 0, "maximum": MOST_SURE}),
]
Level = Annotated[float, Field(allow_inf_nan=False)]
Duration = Annotated[float, BeforeValidator(_duration, json_schema_input_type=str | float)]
Name = Annotated[str, AfterValidator(names.name)]
Variable = Annotated[str, AfterValidator(names.variable)]
Word = Annotated[str, AfterValidator(names.word)]
Values = Annotated[tuple[Value, ...], BeforeValidator(axis_values, json_schema_input_type=str | list[Value])]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class TargetSection(_Section):
    """What counts as good enough."""

    metric: Name | None = None
    at_least: Level | None = None
    at_most: Level | None = None
    at_least_as_good: Level | None = None

    @model_validator(mode="after")
    def _one_level(self) -> TargetSection:
        if sum(level is not None for level in (self.at_least, self.at_most, self.at_least_as_good)) != 1:
            raise ValueError("exactly one of at_least and at_most")
        return self

    @property
    def level(self) -> float:
        """Return the level that is asked, whichever way is better."""
        return next(one for one in (self.at_least, self.at_most, self.at_least_as_good) if one is not None)

    @property
    def better(self) -> Literal["higher", "lower"] | None:
        """Return which way is better, where the target says so."""
        if self.at_most is not None:
            return "lower"
        return "higher" if self.at_least is not None else None


class LearningRateSection(_Section):
    """A learning rate known at one global batch, and how it scales: without a rule linearly."""

    at: float = Field(gt=0)
    global_batch: int = Field(gt=0, le=MOST_WHOLE)
    rule: Rule | None = None


class BudgetSection(_Section):
    """What may be spent: seconds of measuring, cost of the run."""

    profile: Duration = 300.0
    max_cost: float | None = Field(default=None, gt=0)


class DeviceSection(_Section):
    """A kind of machine; without a price it has the listed one, if there is one, unless it says `none`."""

    price_per_hour: Annotated[float, Field(ge=0)] | Literal["none"] | None = None
    count: int | None = Field(default=None, gt=0, le=MOST_WHOLE)
    per_node: int | None = Field(default=None, gt=0, le=MOST_WHOLE)
    bill: Literal["device", "node"] = "device"


class JobFile(_Section):
    """A job, its goal, what may be chosen, and what there is to run it on."""

    name: Name | None = Field(default=None, min_length=1)
    run: Word | list[Word] | None = None
    framework: Framework | None = None
    reads: list[Name] = []
    examples: int | None = Field(default=None, gt=0, le=MOST_WHOLE)
    pattern: Annotated[str, AfterValidator(_pattern)] | None = None
    log: str | dict[str, str] | None = None
    env: dict[Variable, Word] = {}
    metric: Name | None = None
    better: Literal["higher", "lower"] | None = None
    target: Annotated[TargetSection | None, BeforeValidator(_readable_target)] = None
    deadline: Duration | None = None
    epochs: int | None = Field(default=None, gt=0, le=MOST_WHOLE)
    length: Annotated[Length, BeforeValidator(parsed, json_schema_input_type=str)] | None = None
    sequence: int | None = Field(default=None, gt=0, le=MOST_WHOLE)
    max_epochs: int = Field(default=30, gt=0, le=MOST_WHOLE)
    confidence: Confidence = 0.9
    prefer: Prefer = "cheap"
    global_batch: int | None = Field(default=None, gt=0, le=MOST_WHOLE)
    search: Annotated[dict[Name, Values], AfterValidator(_search)] = {}
    lr: LearningRateSection | None = None
    schedule: ScheduleWords | None = None
    warmup: float | None = Field(default=None, gt=0, le=MOST_WHOLE)
    budget: BudgetSection = BudgetSection()
    timeout: Duration | None = None
    stop_grace: Duration = STOP_GRACE
    devices: dict[Name, DeviceSection] = {}
    currency: Name = "USD"
    engine: str | dict[str, dict[str, Any]] = "local"
    model: str | None = None
    layout: Literal["auto"] | None = None
    input: str | list[str] = []
    team: Name | None = None
    priority: int = Field(default=0, ge=-1000, le=1000)


def checked(text: str, overrides: Mapping[str, Any], source: str) -> JobFile:
    """Return a job file's text with the flags laid over it."""
    raw = parse_yaml(source, text)
    given = {key: value for key, value in overrides.items() if value is not None}
    try:
        return JobFile.model_validate(_merge(raw, given))
    except ValidationError as error:
        path, words = _problem(error)
        if _was_given(path, given):
            raise wrong_setting(path, words) from None
        key = printable(".".join(str(part) for part in path))
        raise InvalidFile(f"{source}{_line(text, path)}: {key}: {words}") from None


def asked(said: Mapping[str, Any]) -> JobFile:
    """Return what flags, a call or a request ask for, by the keys of the job file."""
    return checked("{}", said, "what is asked")


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of the job file."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **JobFile.model_json_schema()}


def parse_yaml(source: str, text: str) -> dict[str, Any]:
    """Return the mapping in some YAML; errors name its source and line."""
    try:
        raw = yaml_text.read(text)
    except yaml_text.NotYaml as error:
        place = f":{error.line}" if error.line else ""
        raise InvalidFile(f"{source}{place}: not valid YAML: {error.problem}") from None
    raw = {} if raw is None else raw
    if not isinstance(raw, dict):
        raise InvalidFile(f"{source}: expected keys and values, found {type(raw).__name__}")
    return raw


def _merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Return base with over laid on top; `search` and `budget` are merged key by key, as is a target's metric."""
    merged = dict(base)
    for key, value in over.items():
        deep = key in _DEEP and isinstance(merged.get(key), Mapping)
        merged[key] = {**merged[key], **value} if deep else value
    if isinstance(base.get("target"), Mapping) and isinstance(asked := _target(over.get("target")), Mapping):
        metric = base["target"].get("metric")
        merged["target"] = {"metric": metric} | _given(asked)
        merged.setdefault("better", "lower" if base["target"].get("at_most") is not None else None)
    return merged


def _given(target: object) -> dict[str, Any]:
    """Return the parts of a target that were said."""
    return {key: value for key, value in target.items() if value is not None} if isinstance(target, Mapping) else {}


def _was_given(path: Sequence[str | int], given: Mapping[str, Any]) -> bool:
    """Return whether a part of a job file is what a flag laid over it."""
    over = given.get(str(path[0]))
    return over is not None and (path[0] not in _DEEP or path[1:2] == [] or str(path[1]) in over)


def _problem(error: ValidationError) -> tuple[list[str | int], str]:
    """Return the path of the first problem, and what is wrong there."""
    problems = error.errors()
    first = problems[0]
    path = [part for part in first["loc"] if not str(part).startswith(("function-", "[key]"))]
    words = first["msg"].removeprefix("Value error, ").removeprefix("Input should be ")
    if first["type"] == "extra_forbidden":
        words = f"unknown key{suggestion(str(path[-1]), _known_keys(path[:-1]))}"
    elif path == ["search"] and first["type"] == "value_error":  # a validator of a mapping cannot name the entry
        axis, _, words = words.partition(": ")
        path, words = [*path, axis], f"expected {words}"
    else:
        words = f"expected {words}, not {_short(first['input'])}"
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return path, words + more


def _short(value: object) -> str:
    text = repr(value).replace(r"\\", "\\")  # as it was written
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
