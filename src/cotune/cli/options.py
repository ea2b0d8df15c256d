"""Options that several verbs share, and how they are laid over the job file."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
import yaml
from sqlalchemy import URL

from cotune.cli.help import GOAL, MEASURING, OUTPUT, SPACE, flag, rare, rare_flag
from cotune.cli.output import note
from cotune.documents import goal_words
from cotune.errors import NotFound, UsageError, suggestion
from cotune.jobfile import settings as job_settings
from cotune.jobfile.file import asked, parse_yaml, wrong_setting
from cotune.jobfile.settings import Settings
from cotune.safety import private, redact
from cotune.store import Store
from cotune.store.location import RUNS, locate, work_folder
from cotune.types import Job, Value

_RECENT = 50  # plans that are looked through for the last one of a job
Word = TypeVar("Word", bound=str)
Number = TypeVar("Number", int, float)
REMEMBERED = ("run", "name", "examples", "pattern", "search", "engine")

Json = Annotated[bool, flag(OUTPUT, "--json", help="Print one JSON document on stdout.")]
Command = Annotated[
    list[str] | None,
    typer.Argument(rich_help_panel=rare("Arguments"), help="The training command, after --.", show_default=False),
]
File = Annotated[Path | None, rare_flag(OUTPUT, "--file", "-f", help="The job file (cotune.yaml).")]
StoreUrl = Annotated[
    str | None,
    rare_flag(OUTPUT, "--store", help="Where samples are stored: a file or database URL.", envvar="COTUNE_STORE"),
]
Name = Annotated[str | None, rare_flag(MEASURING, "--name", help="The job's name.")]
Examples = Annotated[int | None, rare_flag(MEASURING, "--examples", help="Examples in one epoch.", min=1)]
Workers = Annotated[str | None, flag(SPACE, "--workers", "-w", help="Worker counts: 4, 1,2,4 or 1..8.")]
BatchSize = Annotated[str | None, flag(SPACE, "--batch-size", "-b", help="Batches per worker: 64, 32,64 or 1..8.")]
Axis = Annotated[
    list[str] | None, rare_flag(SPACE, "--axis", help="A named axis, may be repeated: precision=fp32,bf16.")
]
Target = Annotated[str | None, flag(GOAL, "--target", help="What to reach: accuracy=0.98, or loss<=0.7.")]
Deadline = Annotated[str | None, flag(GOAL, "--deadline", help="In which time: 90s, 45m, 2h.")]
MaxEpochs = Annotated[int | None, rare_flag(GOAL, "--max-epochs", help="Most epochs a run may take.", min=1)]
MaxCost = Annotated[float | None, flag(GOAL, "--max-cost", help="Most a run may cost, in the unit of costs.")]
Confidence = Annotated[
    float | None, rare_flag(GOAL, "--confidence", help="Joint probability asked for (0.9).", min=0.01)
]
Prefer = Annotated[str | None, flag(GOAL, "--prefer", help="cheap, fast or accurate.")]
Pattern = Annotated[
    str | None,
    rare_flag(
        MEASURING,
        "--pattern",
        help="What the script prints, as a regular expression with (?P<epoch>) and (?P<accuracy>).",
    ),
]
Epochs = Annotated[
    int | None, flag(GOAL, "--epochs", help="Train this many epochs, or until the target is met.", min=1)
]
Timeout = Annotated[
    str | None, rare_flag(MEASURING, "--timeout", help="Most seconds for one start, or without a report.")
]
Engine = Annotated[str | None, rare_flag(MEASURING, "--engine", help="Where it runs (local).")]
Budget = Annotated[str | None, flag(MEASURING, "--budget", help="What measuring may take: 90s, 5m.")]
FromScratch = Annotated[
    bool, rare_flag(MEASURING, "--from-scratch", help="Begin anew, even if a probe has trained this recipe.")
]
NoHistory = Annotated[bool, rare_flag(MEASURING, "--no-history", help="Leave out samples of jobs like this one.")]
Seed = Annotated[int, rare_flag(OUTPUT, "--seed", help="Seed of everything random.")]


def load_settings(file: Path | None, overrides: Mapping[str, Any]) -> Settings:
    """Return the job file's settings with the flags laid over them.

    Where there is no job file, a command and its flags are remembered for this folder, so that the next verb need not
    repeat them.
    """
    match overrides.get("run"):
        case [str(word)] if word.endswith((".yaml", ".yml")):
            raise UsageError(f"{word} is no command to train with; a job file is named by --file {word}")
    found = file or job_settings.find(Path.cwd())
    if found is not None:
        return job_settings.load(found, overrides)
    given = {key: value for key, value in overrides.items() if value is not None}
    folder = hashlib.sha256(str(Path.cwd()).encode()).hexdigest()[:16]
    memory = work_folder(Path.cwd()) / "remembered" / f"{folder}.yaml"
    before = parse_yaml(str(memory), memory.read_text(encoding="utf-8")) if memory.is_file() else {}
    known = given if "run" in given and given["run"] != before.get("run") else before | given
    settings = job_settings.load(None, known)
    if "run" in given and redact.command(tuple(given["run"])) == tuple(given["run"]):  # a secret is never written down
        kept = {key: value for key, value in known.items() if key in REMEMBERED}
        try:
            private.make_folder(memory.parent)
            private.write(memory, yaml.safe_dump(kept))
        except OSError as error:
            note(f"these flags are not remembered for the next verb: {error}")
    return settings


def whole_numbers(text: str | None, axis: str) -> tuple[int, ...]:
    """Return the whole numbers of '4', '1,2,4' or '1..8', of at least 1; none where the flag was not given."""
    values = () if text is None else asked({"search": {axis: text}}).search[axis]
    return tuple(int(value) for value in values)


def numbers(kind: Callable[[str], Number], text: str, example: str) -> list[Number]:
    """Return the numbers of '4,8,16', which the value of a flag must be; an example of it is `--samples 4,8,16`."""
    try:
        return [kind(part) for part in text.split(",")]
    except ValueError:
        raise UsageError(f"cannot read {example.partition(' ')[0]} {text!r}; write {example}") from None


def one_of(known: Sequence[Word], word: str, flag: str) -> Word:
    """Return a word that must be one of some."""
    for one in known:
        if one == word:
            return one
    raise UsageError(f"{flag} is one of {', '.join(known)}, not {word!r}{suggestion(word, known)}")


def chosen_axes(axis: list[str] | None) -> dict[str, Value]:
    """Return one value for each named axis given as name=value."""
    chosen: dict[str, Value] = {}
    for name, (value, *more) in asked({"search": named_axes(axis)}).search.items():
        if more:
            raise wrong_setting(("search", name), f"expected one value, not {len(more) + 1}")
        chosen[name] = value
    return chosen


def require_model_file(model: str) -> None:
    """Refuse a model of a file that is not there, before torch is loaded to look for it."""
    file = Path(model.partition(":")[0])
    if file.suffix == ".py" and not file.is_file():
        raise NotFound(f"no file {file}")


def named_axes(axis: list[str] | None) -> dict[str, str]:
    """Return the values of each named axis as they were written."""
    axes = {}
    for entry in axis or []:
        name, equals, values = entry.partition("=")
        if not equals or not values:
            raise UsageError(f"cannot read --axis {entry!r}; write --axis precision=fp32,bf16")
        axes[name.strip()] = values
    return axes


def as_last_planned(settings: Settings, store: Store) -> Settings:
    """Return the settings with the metric that was planned for last, which a flag may have named."""
    by_fingerprint = _by_metric(settings.job, store)
    refused = store.refusal(settings.job.name, tuple(by_fingerprint))
    if refused is not None:
        return replace(settings, job=by_fingerprint[refused.fingerprint])
    for stored in store.plans(last=_RECENT):
        if stored.job == settings.job.name and stored.fingerprint in by_fingerprint:
            return replace(settings, job=by_fingerprint[stored.fingerprint])
    return settings


def as_planned(settings: Settings, store: Store, id: str) -> Settings:
    """Return the settings with the metric of a plan, which must be one of this job as it is."""
    stored, by_fingerprint = store.plan_of_id(id), _by_metric(settings.job, store)
    if stored.job != settings.job.name or stored.fingerprint not in by_fingerprint:
        raise UsageError(f"plan {id} is of another job, or of {settings.job.name} before it was changed")
    return replace(settings, job=by_fingerprint[stored.fingerprint])


def as_last_run(settings: Settings, store: Store) -> Settings:
    """Return the settings with the metric and goal of the last run, and say so where they are not those asked for."""
    jobs = _by_metric(settings.job, store).values()
    newest_first = [(sample.started, job, sample) for job in jobs for sample in reversed(store.samples(job, "run"))]
    _, job, last = max(newest_first, key=lambda run: run[0], default=("", settings.job, None))
    if last is None or last.goal is None:
        return settings
    if (job, last.goal.asked) != (settings.job, settings.goal.asked):
        unit = settings.cluster.unit
        words = f"{goal_words(job, last.goal, unit)}; the job file says {goal_words(settings.job, settings.goal, unit)}"
        note(f"following run {last.id}, made for {words}")
    return replace(settings, job=job, goal=last.goal)


def _by_metric(job: Job, store: Store) -> dict[str, Job]:
    """Return the job with every metric by which a store knows one of its name, by fingerprint."""
    metrics = {(known.definition.metric, known.definition.better) for known in store.jobs() if known.name == job.name}
    alike = [replace(job, metric=metric, better=better) for metric, better in metrics]
    return {one.fingerprint: one for one in (*alike, job)}


def refuse_budget(budget: str | None) -> None:
    """Refuse a time for real measuring where a recording is replayed."""
    if budget is not None:
        raise UsageError("--budget is time of real runs; bound a recording by --max-device-seconds and --max-samples")


def runs_folder() -> Path:
    """Return where the files of every start go."""
    return work_folder(Path.cwd()) / RUNS


def open_store(url: str | None, *, reading: bool = False) -> Store:
    """Return the store named by the flag, or the project's own; with `reading` one that is named must be there."""
    if reading and url is not None:
        require_store(locate(url, Path.cwd()))
    return Store(locate(url, Path.cwd()))


def require_store(url: URL) -> None:
    """Refuse to look at a store that is not there: looking must not make one."""
    if url.get_backend_name() == "sqlite" and not Path(url.database or ":memory:").is_file():
        raise NotFound(f"no store at {url.database}; name one with --store, or make it: cotune profile, cotune submit")
    if url.get_backend_name() == "sqlite" and not any(_sizes(Path(str(url.database)))):
        raise NotFound(f"{url.database} is an empty file and no store yet: cotune profile or submit makes it one")


def _sizes(path: Path) -> Iterator[int]:
    """Yield the bytes of a store's file and of its journal."""
    for file in (path, path.with_name(path.name + "-wal")):
        if file.is_file():
            yield file.stat().st_size
