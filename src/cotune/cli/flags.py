"""Flags that belong together, as records: a verb that takes one has a flag for each of its fields.

@records_as_flags
def predict(space: SpaceFlags = SpaceFlags(), ...)        --workers, --batch-size and --axis
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, get_type_hints

from cotune import registry
from cotune.cli import options
from cotune.cli.help import MEASURING, REPLAY, flag, rare_flag
from cotune.display import Terminal
from cotune.jobfile.settings import Settings, as_job_file
from cotune.predict import ACCURACY
from cotune.predict.evidence import Evidence, Predictors
from cotune.project.project import Project
from cotune.recording.replayed import ReplayedJob


@dataclass(frozen=True, slots=True)
class JobFlags:
    """Which job: its command and name, its file and its store."""

    command: options.Command = None
    name: options.Name = None
    file: options.File = None
    store: options.StoreUrl = None

    def load(self, asked: Mapping[str, Any]) -> Settings:
        """Return the settings of the job with what else is asked."""
        return options.load_settings(self.file, {"run": self.command, "name": self.name, **asked})

    @contextmanager
    def project(self, settings: Settings, *, reading: bool = False) -> Iterator[Project]:
        """Yield the project of a live job; with `reading` a store that is named must be there."""
        with options.open_store(self.store, reading=reading) as opened:
            yield Project(settings=settings, store=opened, display=Terminal())

    def replayed(self, recording: Path, asked: Mapping[str, Any], seed: int = 0) -> Project:
        """Return the project of a recording; its samples stay in memory unless a store is named."""
        replayed = ReplayedJob.open(recording, asked, self.file, seed)
        return Project(replayed=replayed, store=self.store, display=Terminal())


@dataclass(frozen=True, slots=True)
class GoalFlags:
    """What is asked of a plan."""

    target: options.Target = None
    deadline: options.Deadline = None
    max_cost: options.MaxCost = None
    prefer: options.Prefer = None
    confidence: options.Confidence = None
    epochs: options.Epochs = None
    max_epochs: options.MaxEpochs = None


@dataclass(frozen=True, slots=True)
class SpaceFlags:
    """What may be chosen."""

    workers: options.Workers = None
    batch_size: options.BatchSize = None
    axis: options.Axis = None


def request(goal: GoalFlags | None = None, space: SpaceFlags | None = None) -> dict[str, Any]:
    """Return what the flags ask for, by the keys of the job file."""
    said = asdict(goal or GoalFlags()) | asdict(space or SpaceFlags())
    return as_job_file(said | {"axes": options.named_axes(said.pop("axis"))})


@dataclass(frozen=True, slots=True)
class PredictorFlags:
    """What predicts seconds per epoch, and accuracy."""

    predictor: Annotated[str, rare_flag(MEASURING, "--predictor", help="What predicts seconds per epoch.")] = "gaussian"
    accuracy: Annotated[str, rare_flag(MEASURING, "--accuracy-predictor", help="What predicts accuracy.")] = ACCURACY

    def with_seed(self, seed: int) -> Predictors:
        """Return the predictors; a name that there is not is refused before anything is measured."""
        for name in (self.predictor, self.accuracy):
            registry.require("predictor", name.partition("(")[0].strip())
        return Predictors(self.predictor, self.accuracy, seed)


@dataclass(frozen=True, slots=True)
class ReplayFlags:
    """A recording to replay, and how much of it may be read: a number of starts and device-seconds, or everything."""

    recording: Annotated[Path | None, flag(REPLAY, "--recording", help="Replay this recording instead of running.")] = (
        None
    )
    max_samples: Annotated[int, rare_flag(REPLAY, "--max-samples", help="Most starts on a recording.", min=0)] = 16
    max_device_seconds: Annotated[
        float | None,
        rare_flag(REPLAY, "--max-device-seconds", help="Most replayed device-seconds of measuring.", min=0),
    ] = None
    all_samples: Annotated[bool, rare_flag(REPLAY, "--all-samples", help="Read every row, for study only.")] = False

    def evidence(self, project: Project, seed: int) -> Evidence:
        """Return what may be known of a recording: what was measured of it, with more measured now."""
        if self.all_samples:
            return project.every_row()
        project.profile(self.max_device_seconds, max_samples=self.max_samples, seed=seed)
        return project.evidence()


def records_as_flags(verb: Callable[..., None]) -> Callable[..., None]:
    """Return a verb that takes the fields of its records as separate flags, in the place of each record."""
    hints = get_type_hints(verb, include_extras=True)
    records: dict[str, Any] = {name: kind for name, kind in hints.items() if is_dataclass(kind)}
    parameters: list[Parameter] = []
    for parameter in signature(verb).parameters.values():
        if (record := records.get(parameter.name)) is None:
            parameters.append(parameter.replace(annotation=hints[parameter.name]))
            continue
        kinds = get_type_hints(record, include_extras=True)
        parameters += [
            Parameter(field.name, Parameter.KEYWORD_ONLY, default=field.default, annotation=kinds[field.name])
            for field in fields(record)
        ]

    @wraps(verb)
    def called(**given: Any) -> None:
        made = {
            name: kind(**{field.name: given.pop(field.name) for field in fields(kind)})
            for name, kind in records.items()
        }
        verb(**given, **made)

    called.__signature__ = Signature(parameters)  # type: ignore[attr-defined]  # what typer reads
    called.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return called
