"""What flows through cotune: frozen records, from the job to the plan.

    job ─profile▶ samples ─predict▶ forecast ─plan▶ plan ─run▶ samples

A change is a new record (`dataclasses.replace`). Quantities are named by their unit.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from types import ModuleType
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Value = str | int | float | bool
Axes = tuple[tuple[str, Value], ...]
Prefer = Literal["cheap", "fast", "accurate"]
_RULES = {"linear": 1.0, "sqrt": 0.5, "fixed": 0.0}
Unit = Literal["epochs", "steps", "tokens"]
Schedule = Literal["constant", "cosine", "linear", "one_cycle"]  # how the learning rate goes, the last three to the end
Source = Literal["measured", "interpolated", "extrapolated", "assumed"]
RECORDED = "recorded"  # the engine that replays a recording
STOP_GRACE = 600.0  # seconds for a job to save what it saves at its end, once there is nothing left to train
MODEL_PARALLEL = ("tp", "pp")  # axes that share one replica of the model among so many workers
SPREADING = (*MODEL_PARALLEL, "shard", "recompute")  # axes that say how a model lies on its workers, not what it learns
ASYNCHRONOUS = "asynchronous"  # the axis by which a config asks for servers that do not wait


@dataclass(frozen=True, slots=True)
class Device:
    """A kind of machine with its price in money per hour; no price counts device-seconds.

    `price_source` says where a price comes from that the user has not given.
    """

    name: str = "cpu"
    count: int | None = None
    price_per_hour: float | None = None
    per_node: int | None = None
    bill: Literal["device", "node"] = "device"
    price_source: str = ""
    nodes_per_rack: int | None = None


@dataclass(frozen=True, slots=True)
class Cluster:
    """The devices there are, and the currency of their prices."""

    devices: tuple[Device, ...] = (Device(),)
    currency: str = "USD"

    @property
    def priced(self) -> bool:
        return all(device.price_per_hour is not None for device in self.devices)

    @property
    def unit(self) -> str:
        """Return the unit of every cost on this cluster."""
        return self.currency if self.priced else "device-seconds"


@dataclass(frozen=True, slots=True)
class Stage:
    """A run of layers on one kind of device, shared by its workers."""

    device: str
    workers: int
    first: int = 0
    last: int = 0


@dataclass(frozen=True, slots=True)
class Config:
    """How a job is trained; a data-parallel job is a pipeline of one stage."""

    batch_size: int
    stages: tuple[Stage, ...]
    servers: int = 0
    accumulate: int = 1
    axes: Axes = ()

    @classmethod
    def data_parallel(
        cls,
        batch_size: int,
        workers: int,
        device: str = "cpu",
        *,
        servers: int = 0,
        accumulate: int = 1,
        axes: Axes = (),
    ) -> Config:
        return cls(batch_size, (Stage(device, workers),), servers, accumulate, axes)

    @property
    def workers(self) -> int:
        return sum(stage.workers for stage in self.stages)

    @property
    def units(self) -> int:
        """Return the workers and servers, all of which are held and paid for."""
        return self.workers + self.servers

    @property
    def device(self) -> str:
        return self.stages[0].device

    @property
    def replicas(self) -> int:
        """Return how many copies of the model take a batch each: workers / (tp x pp) where it has such axes."""
        return self.stages[0].workers // split_over(self.axes)

    @property
    def global_batch(self) -> int:
        return self.batch_size * self.accumulate * self.replicas

    @property
    def waits(self) -> bool:
        """Return whether every step waits for all workers: servers need not, by the axis `asynchronous`."""
        return not (self.servers and str(dict(self.axes).get(ASYNCHRONOUS, False)).lower() == "true")

    def __str__(self) -> str:
        extra = [f"accumulate {self.accumulate}"] if self.accumulate > 1 else []
        extra += [f"{self.servers} servers"] if self.servers else []
        extra += [f"{name} {value}" for name, value in self.axes]
        kind = "" if self.device == "cpu" else f"{self.device} "
        workers = f"{self.workers} {kind}worker" + ("s" if self.workers > 1 else "")
        whole = f" (global batch {self.global_batch})"
        return f"batch {self.batch_size} on {workers}{whole}" + "".join(f", {word}" for word in extra)


def split_over(axes: Axes) -> int:
    """Return over how many workers one replica of the model is split, as named axes say."""
    return math.prod(value for name, value in axes if name in MODEL_PARALLEL and type(value) is int and value > 0)


def rule_power(rule: str) -> float:
    """Return the power of the global batch that a learning-rate rule is: linear, sqrt, fixed or power(0.3)."""
    if rule in _RULES:
        return _RULES[rule]
    said = re.fullmatch(r"power\(\s*(\d*\.?\d+)\s*\)", rule)
    if said is None or float(said[1]) > 1:
        raise ValueError("linear, sqrt, fixed or power(p) with p from 0 to 1, such as power(0.3)")
    return float(said[1])


@dataclass(frozen=True, slots=True)
class LearningRate:
    """A learning rate measured at one global batch, and the rule that carries it to others."""

    at: float
    global_batch: int
    rule: str = "linear"

    def of(self, global_batch: int) -> float:
        """Return the rate for a global batch."""
        return float(self.at * (global_batch / self.global_batch) ** rule_power(self.rule))


@dataclass(frozen=True, slots=True)
class CountedModel:
    """What was counted of the model that a job names: who it is, and the memory of a step of b examples.

    `fixed_bytes` + `bytes_per_example` x b are parameters, gradients and optimiser state, and activations.
    """

    fingerprint: str
    fixed_bytes: float
    bytes_per_example: float


@dataclass(frozen=True, slots=True)
class ProgressUnit:
    """How a job counts its progress, which inside is in parts of `Job.examples` examples (`cotune.progress`).

    `parts` are in one epoch of the data, or in the whole training where no epoch is known. `sequence` is the tokens
    of one example.
    """

    unit: Unit = "epochs"
    parts: float = 1.0
    sequence: int | None = None
    epoch_known: bool = True


@dataclass(frozen=True, slots=True)
class LargeModel:
    """The model of a job whose layout is cotune's to choose: its shape (a config.json or a name), and its machines.

    `sequence` is the tokens of an example; `devices` are by name, with how many a node holds (0: nothing is said).
    """

    shape: str
    sequence: int
    devices: tuple[tuple[str, int], ...] = ()


class Recipe(NamedTuple):
    """The global batch, and the workers where accuracy depends on them too."""

    global_batch: int
    workers: int | None


@dataclass(frozen=True, slots=True)
class Job:
    """What is trained: a command with placeholders, its data and its metric.

    `where` names the engine, its settings and, for one on this machine, the host:
    seconds measured elsewhere are not this job's. `log` is (tool or "text", path): log files
    of the job's own to read instead of its output. `model` is known where the job names its model.
    `seeds` is how many runs of a recipe a recording holds: a run is judged by all of them.
    `large` is the model whose layout is chosen (`layout: auto`).
    `workers_matter` says that accuracy depends on the workers too, and not on the global batch alone.
    `schedule` is how its learning rate goes; None where that is not known.
    """

    name: str
    command: tuple[str, ...] = ()
    examples: int | None = None
    metric: str = "accuracy"
    better: Literal["higher", "lower"] = "higher"
    lr: LearningRate | None = None
    pattern: str | None = None
    folder: str = "."
    env: tuple[tuple[str, str], ...] = ()
    where: str = ""
    log: tuple[str, str] | None = None
    model: CountedModel | None = None
    seeds: int = 1
    workers_matter: bool = False
    counting: ProgressUnit = ProgressUnit()
    schedule: Schedule | None = None
    large: LargeModel | None = None

    def recipe(self, config: Config) -> Recipe:
        """Return what accuracy depends on in a config: two that share it learn alike."""
        return Recipe(config.global_batch, config.workers if self.workers_matter or not config.waits else None)

    @property
    def hears(self) -> bool:
        """Return whether it can know that it should stop: it calls cotune.report, and is not merely read."""
        return self.pattern is None and self.log is None

    @property
    def sign(self) -> int:
        """Return 1 where higher is better and -1 where lower is: sign x metric always rises."""
        return 1 if self.better == "higher" else -1

    def same_model(self, other: Job) -> bool:
        """Return whether both jobs name their model, and it counts the same."""
        return self.model is not None and other.model is not None and self.model.fingerprint == other.model.fingerprint

    def meets(self, target: float | None, accuracy: float | None) -> bool:
        """Return whether a value of the metric is as good as a target; False without either."""
        return target is not None and accuracy is not None and self.sign * accuracy >= self.sign * target

    def reached(self, target: float | None, sample: Sample) -> bool:
        """Return whether an evaluation of a sample is as good as a target."""
        return any(self.meets(target, point.accuracy) for point in sample.curve)

    @property
    def fingerprint(self) -> str:
        """Return what makes samples comparable: the command, its folder, data, metric, rate and engine."""
        rate = (self.lr.at, self.lr.global_batch, self.lr.rule) if self.lr else None
        what = [self.command, self.folder, self.examples, self.metric, self.better, rate, sorted(self.env)]
        facts = [*what, self.where, *([self.counting.parts] if self.counting.parts != 1 and not self.examples else [])]
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Goal:
    """What is asked: reach `target` within `deadline` seconds and `max_cost`, with `confidence`.

    `epochs` fixes the amount of work; without it a run may take up to `max_epochs`.
    """

    target: float | None = None
    deadline: float | None = None
    max_cost: float | None = None
    epochs: int | None = None
    max_epochs: int = 30
    confidence: float = 0.9
    prefer: Prefer = "cheap"

    @property
    def cap(self) -> int:
        """Return the epochs that a run takes unless it meets its target before."""
        return self.epochs or self.max_epochs


@dataclass(frozen=True, slots=True)
class Terms:
    """Where the seconds of a run go; None where it is not known.

    `engine` passes until the job's own code begins and `startup` until its first step,
    both once; `evaluation` and `checkpoint` are paid each time; `compute`,
    `communication` and `input` are parts of a whole epoch.
    """

    engine: float | None = None
    startup: float | None = None
    compute: float | None = None
    communication: float | None = None
    input: float | None = None
    evaluation: float | None = None
    checkpoint: float | None = None

    def known(self) -> dict[str, float]:
        """Return the terms that are known, by name."""
        values = {term.name: getattr(self, term.name) for term in fields(self)}
        return {name: float(value) for name, value in values.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The metric after some epochs, `seconds` after the start of the run."""

    epoch: float
    accuracy: float
    seconds: float
    metrics: tuple[tuple[str, float], ...] = ()


class Cause(StrEnum):
    """What ended a start early, as far as it decides what happens next."""

    JOB = "job"  # its own error, which would come again
    MEMORY = "memory"  # the config needs more than there is
    APART = "apart"  # its workers never met: each trained alone, as those of any other config would
    UNHEARD = "unheard"  # it said nothing that we could read, and no other config would with the same pattern
    OUTSIDE = "outside"  # a kill, silence, a lost node: it may go on from its checkpoint
    INTERRUPTED = "interrupted"  # no fault of the config, which may be tried again
    NOT_RECORDED = "not recorded"  # a recording does not say


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a start ended early; `room` is how many of its workers the cluster still holds, where it was that."""

    words: str
    cause: Cause = Cause.JOB
    room: int | None = None

    @classmethod
    def interrupted(cls, why: str) -> Failure:
        return cls(f"interrupted: {why}", Cause.INTERRUPTED)

    def __str__(self) -> str:
        return self.words


@dataclass(frozen=True, slots=True)
class Load:
    """How busy a machine was with other things while a start ran: their running processes, and its cores."""

    others: float
    cores: int

    @property
    def per_core(self) -> float:
        return self.others / max(self.cores, 1)


@dataclass(frozen=True, slots=True)
class Sample:
    """One start of one config, as measured: how far it got, how fast, how well.

    It is `modelled` when part of its machine was, such as links that are only slept for.
    `peak_bytes` is the most memory a worker took, of the `limit_bytes` it could have had.
    `goal` is what a run was for, which the one that goes on from it is for as well.
    `load` is what else the machine did meanwhile, where that was looked at.
    `length` is the epochs that it was told to train, however few it did.
    """

    config: Config
    epochs: float = 0.0
    epoch_seconds: float | None = None
    accuracy: float | None = None
    terms: Terms = Terms()
    curve: tuple[Evaluation, ...] = ()
    seconds: float = 0.0
    failure: Failure | None = None
    purpose: Literal["probe", "run"] = "probe"
    id: str = ""
    started: str = ""
    ended: bool = True
    engine: str = "local"
    warning: str | None = None
    folder: str = ""
    resumed_from: str | None = None
    modelled: bool = False
    seed: int | None = None
    peak_bytes: int | None = None
    limit_bytes: int | None = None
    goal: Goal | None = None
    load: Load | None = None
    length: int | None = None

    @property
    def failed(self) -> bool:
        """Return whether the config is to blame: a crash, no memory, a time-out, but not an interruption."""
        return self.failure is not None and self.failure.cause is not Cause.INTERRUPTED

    @property
    def out_of_memory(self) -> bool:
        """Return whether the config needs more memory than there is."""
        return self.failure is not None and self.failure.cause is Cause.MEMORY

    @property
    def unheard(self) -> bool:
        """Return whether it ended without a word that could be read."""
        return self.failure is not None and self.failure.cause is Cause.UNHEARD

    @property
    def apart(self) -> bool:
        """Return whether its workers never met, so that each trained alone."""
        return self.failure is not None and self.failure.cause is Cause.APART

    @property
    def device_seconds(self) -> float:
        """Return what this sample cost: seconds times the units held, servers included."""
        return self.seconds * self.config.units


Z90 = 1.2816  # standard deviations from the middle of a normal distribution to its 90th percentile


@dataclass(frozen=True, slots=True)
class Quantity:
    """A predicted number: its 10th, 50th and 90th percentiles, and where it comes from."""

    low: float
    mid: float
    high: float
    source: Source
    unit: str = ""


@dataclass(frozen=True, slots=True)
class Forecast:
    """What is expected of a config that runs to its target, or for its epochs.

    `probability` is the joint chance that target, deadline and budget are all met.
    `epochs` is the cap: the most that deadline and budget allow, for a run that misses its
    target; `epochs_needed` is what a run is expected to take.
    """

    config: Config
    epochs: int
    seconds: Quantity
    cost: Quantity
    epoch_seconds: Quantity
    accuracy: Quantity | None
    probability: float
    epochs_needed: Quantity | None = None
    memory: Quantity | None = None  # bytes that a worker takes at most
    p_fits: float | None = None  # in a device's memory; None on CPUs, and where nothing tells


@dataclass(frozen=True, slots=True, repr=False)
class Plan:
    """The chosen config with its forecast, the cap on epochs, its rivals and the reason.

    `forecast` is of a whole training. Where the recipe was trained already, `continues` names the
    sample that did, and `rest` is what is left for a run that goes on from there.
    """

    forecast: Forecast
    goal: Goal
    reason: str
    rivals: tuple[Forecast, ...] = ()
    searched: int = 0
    notes: tuple[str, ...] = ()
    continues: str | None = None
    rest: Forecast | None = None
    metric: str = "accuracy"  # of the job, and how it counts its progress: so a plan shows itself in its own words
    examples: int | None = None
    counting: ProgressUnit = ProgressUnit()

    @property
    def config(self) -> Config:
        return self.forecast.config

    @property
    def epochs(self) -> int:
        return self.forecast.epochs

    @property
    def probability(self) -> float:
        """Return the chance that target, deadline and budget are all met by a training from scratch."""
        return self.forecast.probability

    def __repr__(self) -> str:
        """Return the decision table and the reason, as text."""
        return str(_documents().plan_text(self))

    def _repr_html_(self) -> str:
        """Return the decision table and the reason, for a notebook."""
        return str(_documents().plan_html(self))


def _documents() -> ModuleType:
    """Return what shows records: it stands above them, and is looked up when something is to be shown."""
    return importlib.import_module("cotune.documents")


def axes_of(values: Mapping[str, Value]) -> Axes:
    """Return named axes in one order, so that equal configs compare equal."""
    return tuple(sorted(values.items()))
