"""From the job file `cotune.yaml` to the records of `types`: a `Job`, a `Goal`, a `Space` and a `Cluster`."""

from __future__ import annotations

import json
import platform
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypedDict, cast

from cotune.devices.present import visible_gpus
from cotune.errors import InvalidFile, NotFound, UsageError, suggestion
from cotune.jobfile import metric_names, names
from cotune.jobfile.file import DeviceSection, JobFile, asked, checked
from cotune.jobfile.length import Length, cut, examples_of
from cotune.jobfile.pattern import group_of, metric_in, metrics_in, pattern_of, require_unit
from cotune.jobfile.search_space import check_axis, large_model, space_of, whole
from cotune.safety.printable import printable
from cotune.space import Space
from cotune.types import (
    STOP_GRACE,
    Cluster,
    Device,
    Goal,
    Job,
    LearningRate,
    Prefer,
    ProgressUnit,
    Schedule,
    Unit,
    Value,
    rule_power,
)

FILE_NAME = "cotune.yaml"
LOG_TOOLS = ("lightning", "mlflow", "tensorboard")  # what their logs gain while a job runs can be read


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
    stop_grace: float = STOP_GRACE
    metric_named: bool = True  # by a target, or by which way is better
    notes: tuple[str, ...] = ()  # what the file leaves open, and how it was taken
    team: str = ""  # whose it is, and how much it matters, where many jobs share a cluster
    priority: int = 0


def find(start: Path) -> Path | None:
    """Return the job file of this folder or the nearest one above."""
    candidates = (folder / FILE_NAME for folder in (start, *start.parents))
    return next((path for path in candidates if path.is_file()), None)


def no_job_file(folder: Path) -> NotFound:
    """Return the error of a folder that has no job file, nor any above it."""
    return NotFound(f"there is no {FILE_NAME} here or above ({folder})", remedy="init")


def load(path: Path | None, overrides: Mapping[str, Any]) -> Settings:
    """Return the settings of a job file with the flags laid over it."""
    if path is None:
        return loads("{}", overrides, "the command line", Path.cwd())
    return loads(_read(path), overrides, str(path), path.parent)


def loads(text: str, overrides: Mapping[str, Any], source: str, folder: Path) -> Settings:
    """Return the settings of a job file's text, as one that stands in a folder."""
    settings = _records(checked(text, overrides, source), folder.resolve(), source)
    if overrides.get("target") is not None:
        pattern_of(settings.job)  # a flag asks for a metric: one that is never read is a slip
    return settings


def described(
    job: str | Sequence[str] | Mapping[str, Any] | None, parts: Mapping[str, Any], goal: Mapping[str, Any], folder: Path
) -> Settings:
    """Return the settings of a job without a file: its command, or all that a job file would say of it."""
    for what, given in (("job", job), ("goal", goal)):
        if not isinstance(given, Mapping | None) and (what == "goal" or not isinstance(given, str | Sequence)):
            raise UsageError(f"a {what} is what a job file would say of it, not {given!r:.80}")
    said = dict(job) if isinstance(job, Mapping) else {"run": job if isinstance(job, str | None) else list(job)}
    return loads("{}", {**said, **parts, **goal}, "the project", folder)


class PlanRequest(TypedDict, total=False):
    """What may be asked of a plan, over what the job file says; durations are seconds or words such as "2h"."""

    target: float | str
    deadline: float | str
    max_cost: float
    prefer: Prefer
    confidence: float
    epochs: int
    max_epochs: int
    workers: int | str | Sequence[int]
    batch_size: int | str | Sequence[int]
    axes: Mapping[str, Value | Sequence[Value]]


def as_job_file(said: PlanRequest | Mapping[str, Any]) -> dict[str, Any]:
    """Return what is said by the keys of the job file."""
    axes = {"workers": said.get("workers"), "batch_size": said.get("batch_size"), **said.get("axes", {})}
    search = {name: _listed(values) for name, values in axes.items() if values is not None}
    nested: dict[str, Any] = {
        "search": search or None,
        "budget": {"max_cost": said["max_cost"]} if said.get("max_cost") is not None else None,
    }
    plain = {name: value for name, value in said.items() if name not in ("workers", "batch_size", "axes", "max_cost")}
    return {name: value for name, value in (plain | nested).items() if value is not None}


def _listed(values: object) -> object:
    return list(values) if isinstance(values, Sequence) and not isinstance(values, str) else values


def laid_over(settings: Settings, said: Mapping[str, Any]) -> Settings:
    """Return settings with what is asked now laid over them, by the keys of the job file.

    A target may name another metric and its direction; an axis of `search` takes the place of the one there was.
    """
    file = asked(said)
    job, given = settings.job, file.model_fields_set & {"target", "deadline", "epochs", "confidence", "prefer"}
    if file.target is not None:
        metric = file.target.metric or job.metric
        named = job.better if metric == job.metric else metric_names.better(metric) or job.better
        job = replace(job, metric=metric, better=file.target.better or named)
    given |= {"max_cost"} if file.budget.max_cost is not None else set()
    given |= {"max_epochs"} if file.model_fields_set & {"epochs", "max_epochs"} else set()
    wanted = _goal(file, file.epochs, file.epochs or file.max_epochs)
    goal = replace(settings.goal, **{name: getattr(wanted, name) for name in given})
    require_unit(job, wanted.target)
    for name in file.search:
        check_axis(name, job, "what is asked")
    space = settings.space.with_axes(file.search) if job.large is None else settings.space.pinned(**file.search)
    return replace(
        settings,
        job=job,
        goal=goal,
        space=space if file.search else settings.space,
        metric_named=settings.metric_named or file.target is not None,
    )


def _goal(file: JobFile, epochs: int | None, most: int) -> Goal:
    return Goal(
        target=file.target.level if file.target else None,
        deadline=file.deadline,
        max_cost=file.budget.max_cost,
        epochs=epochs,
        max_epochs=most,
        confidence=file.confidence,
        prefer=file.prefer,
    )


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise NotFound(f"no job file at {path}; `cotune init` writes one") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidFile(f"cannot read {path}: {error}") from None


def _records(file: JobFile, folder: Path, source: str) -> Settings:
    command = _split(file.run, source)
    engine, settings = _engine(file, source)
    metric = (file.target and file.target.metric) or file.metric or (file.pattern and metric_in(file.pattern))
    metric = metric or "accuracy"
    examples, parts, counting = _length(file, command, source)
    rate = LearningRate(file.lr.at, file.lr.global_batch, file.lr.rule or "linear") if file.lr else None
    job = Job(
        name=file.name or _name(command, folder),
        command=command,
        examples=examples,
        metric=metric,
        better=_better(file, metric),
        lr=rate,
        pattern=file.pattern,
        folder=str(folder),
        env=tuple(sorted(file.env.items())),
        where=_where(engine, settings),
        log=_log(file, source),
        counting=counting,
        schedule=_schedule(file, examples, counting, source) if file.schedule or file.warmup is not None else None,
        scaling="unknown" if rate is None else "scaled" if rule_power(rate.rule) > 0 else "fixed",
        framework=file.framework,
        reads=tuple(file.reads),
    )
    cluster = Cluster(
        tuple(
            _device(name, section, file.currency)
            for name, section in (file.devices or _present(engine, settings)).items()
        ),
        file.currency,
    )
    goal = _goal(file, parts if file.length and file.target is None else file.epochs, parts)
    require_unit(job, goal.target)
    if file.layout is not None:
        job = replace(job, large=large_model(file, cluster, folder, source))
    inputs = (file.input,) if isinstance(file.input, str) else tuple(file.input)
    return Settings(
        job,
        goal,
        space_of(file, cluster, job, source),
        cluster,
        file.budget.profile,
        file.timeout,
        engine,
        settings,
        file.model,
        inputs,
        file.stop_grace,
        metric_named=file.target is not None or file.better is not None,
        notes=tuple(_open_questions(file)),
        team=file.team or "",
        priority=file.priority,
    )


def _length(file: JobFile, command: tuple[str, ...], source: str) -> tuple[int | None, int, ProgressUnit]:
    """Return how long the training is and how it counts: by its length, else in epochs."""
    if file.length is not None:
        if file.epochs is not None or "max_epochs" in file.model_fields_set:
            given = "epochs" if file.epochs is not None else "max_epochs"
            raise InvalidFile(f"{source}: the job has a length, so {given} cannot be given too; drop one")
        return cut(file.length, examples=file.examples, sequence=file.sequence, batch=_batch(file), source=source)
    told = set(re.compile(file.pattern).groupindex) if file.pattern else set()
    unit: Unit = "epochs"
    for group, name in (("tokens", "tokens"), ("step", "steps")):
        if (group in told and "epoch" not in told) or any(f"{{{name}}}" in word for word in command):
            unit = cast("Unit", name)
    if unit != "epochs" and (file.examples is None or (unit == "tokens" and file.sequence is None)):
        how = "`length: 20000 steps of 64`" if unit == "steps" else "`length: 2e9 tokens` and `sequence: 1024`"
        whole = (
            "; where each is an epoch to the job, name it so in the pattern: (?P<epoch>...)" if unit == "steps" else ""
        )
        raise InvalidFile(f"{source}: the job counts {unit}: say how long it is with {how}{whole}")
    return file.examples, file.epochs or file.max_epochs, ProgressUnit(unit, 1.0, file.sequence)


def _schedule(file: JobFile, examples: int | None, counting: ProgressUnit, source: str) -> str:
    """Return the schedule with its milestones and warm-up in parts; below 1 they are shares of a run."""
    told = Schedule.read(file.schedule or "unknown")
    counted = partial(_in_parts, file, examples, counting, source)
    milestones = tuple(map(counted, told.numbers)) if told.kind == "step" else told.numbers
    return str(told._replace(numbers=milestones, warmup=counted(file.warmup or 0.0)))


def _in_parts(file: JobFile, examples: int | None, counting: ProgressUnit, source: str, count: float) -> float:
    if count < 1 or counting.unit == "epochs":
        return count if count < 1 else count * counting.parts
    of = file.length.of if file.length else None
    whole = examples_of(Length(count, counting.unit, of), examples, counting.sequence, _batch(file), source)
    return max(1.0, (whole or 0.0) / (examples or 1))


def _batch(file: JobFile) -> int | None:
    return file.global_batch or (file.lr.global_batch if file.lr else None)


def _present(engine: str, settings: Mapping[str, Any]) -> dict[str, DeviceSection]:
    """Return what a job gets whose file names no devices: this machine's GPUs where it has any, else cores."""
    there = visible_gpus()[: whole(settings.get("gpus"))] if engine == "local" and "nodes" not in settings else ()
    slices = whole(settings.get("gpu_slices")) or 1
    return {"gpu": DeviceSection(count=len(there) * slices)} if there else {"cpu": DeviceSection()}


def _device(name: str, section: DeviceSection, currency: str) -> Device:
    price = section.price_per_hour
    given = Device(name, section.count, None, section.per_node, section.bill)
    if price == "none" or (price is None and name == "cpu"):
        return given
    if price is not None:
        return replace(given, price_per_hour=price)
    from cotune.jobfile.prices import lookup

    found = lookup(name, currency)
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


def _better(file: JobFile, metric: str) -> Literal["higher", "lower"]:
    """Return which way the metric is better: as the file says, else as the metric's name does."""
    target = file.target
    found = file.better or (target.better if target else None) or metric_names.better(metric)
    if found is not None:
        return found
    if file.pattern and group_of(metric, metrics_in(file.pattern)) is None:
        return "higher"  # it is refused as a metric that is never reported, with the names that are
    if target is None:
        raise UsageError(f"is a higher or a lower {metric} better? write `better: higher` or `better: lower`")
    level = f"{target.level:g}"
    near = suggestion(metric, ("accuracy", "loss", "perplexity", "error"))
    raise UsageError(f"is a higher or a lower {metric} better? write {metric}>={level} or {metric}<={level}{near}")


def _open_questions(file: JobFile) -> Iterator[str]:
    """Yield what a job file leaves open about the learning rate, and what is assumed of it."""
    if file.lr is not None and file.lr.rule is None:
        yield "lr has no rule, so the learning rate is assumed to follow the global batch linearly (rule: linear)"
    if file.lr is None and file.target is not None and file.run and file.global_batch is None:
        yield (
            "lr is not given, so whether the learning rate grows with the batch is unknown; "
            "lr: {at: 0.1, global_batch: 64, rule: fixed} says that it does not"
        )
    if file.schedule in (None, "unknown") and file.target is not None and file.run:
        yield (
            "the schedule of the learning rate is unknown, so forecasts assume that a short run is the beginning of a "
            "longer one, until runs show otherwise; schedule: constant, cosine, linear, one_cycle, wsd(0.3) or "
            "step(30,60,80) says which it is"
        )


def _name(command: tuple[str, ...], folder: Path) -> str:
    script = next((Path(word).stem for word in command if word.endswith(".py")), None)
    return printable(script or folder.name or "job")[: names.MOST_LETTERS]


def _engine(file: JobFile, source: str) -> tuple[str, Mapping[str, Any]]:
    if isinstance(file.engine, str):
        return file.engine, {}
    if len(file.engine) != 1:
        raise InvalidFile(f"{source}: engine: expected one engine, not {', '.join(file.engine) or 'none'}")
    return next(iter(file.engine.items()))
