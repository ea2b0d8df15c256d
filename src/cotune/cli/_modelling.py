"""`cotune predict --model`: from what is asked to predictions, by the best tier there is.

here        a few steps are taken (and one probe of several workers), and kept in the store
elsewhere   what similar models took there, if the store knows any; else operators measured on a GPU
            here and scaled to the one asked for; else counts alone
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

from cotune import algorithms
from cotune.cli._output import note, progress
from cotune.counting import trace
from cotune.counting.calibrate import calibrate
from cotune.counting.counts import Counts
from cotune.counting.exposed import fingerprint
from cotune.counting.formulas import named_family
from cotune.counting.models import find
from cotune.counting.profiler import StepProfile, profiled
from cotune.counting.timing import measure
from cotune.counting.workload import Workload
from cotune.devices import HERE, Precision, Spec, known
from cotune.devices.calibration import keep, kept
from cotune.errors import NotFound, UsageError, suggestion
from cotune.predict import habitat
from cotune.predict._history import correction, distance
from cotune.predict._paleo_torch import from_paleo
from cotune.predict._roofline import Rates, split
from cotune.predict.model import (
    Prediction,
    StepTime,
    Target,
    TrainingWork,
    from_another,
    from_counts,
    from_steps,
    trained,
)
from cotune.stamps import new_id, timestamp
from cotune.store import ModelStep, Store, work_folder
from cotune.types import Cluster, Config, Job, Sample

if TYPE_CHECKING:
    from cotune.config import Settings

PROBE_STEPS = 30
_PROBE_SECONDS = 120.0
_SAME = 1e-6  # distance of fingerprints that are one
Word = TypeVar("Word", bound=str)
TIERS = ("auto", "counts", "history", "paleo", "scaled", "steps", "probe")


@dataclass(frozen=True, slots=True)
class ModelQuery:
    """What the command line asks of a model."""

    model: str
    inputs: tuple[str, ...]
    batches: tuple[int, ...]
    workers: tuple[int, ...]
    device: str | None
    work: TrainingWork
    precision: Precision = "fp32"
    optimiser: trace.Optimiser = "momentum"
    tier: str = "auto"
    network: float | None = None
    seconds: float = 20.0


@dataclass(frozen=True, slots=True)
class ModelAnswer:
    """The predictions of every config asked for, with the counts behind them."""

    workload: Workload
    device: str
    counts: tuple[Counts, ...]
    predictions: tuple[Prediction, ...]


@dataclass(frozen=True, slots=True)
class ModelDevice:
    """The device that was asked for: `runs` says where steps can be taken here, if they can."""

    target: Target
    identity: str
    runs: Literal["cpu", "cuda"] | None
    spec: Spec | None = None
    here: Spec | None = None


def model_of(name: str, settings: Settings) -> tuple[str, tuple[str, ...]]:
    """Return the model and inputs that `job` stands for: those of the job file, or of a ready-made job."""
    if name != "job":
        return name, ()
    if settings.model:
        return settings.model, settings.inputs
    command = settings.job.command
    if "cotune.workloads.train" in command:
        at = command.index("--model") + 1 if "--model" in command else None
        return (command[at] if at and at < len(command) else "lenet5"), ()
    raise NotFound(
        "the job does not say its model: write `model: package.module:callable` (and `input: 3x224x224`) in cotune.yaml"
    )


def answer(asked: ModelQuery, cluster: Cluster, store: Store) -> ModelAnswer:
    """Return what is expected of every batch and number of workers asked for."""
    workload = find(asked.model, asked.inputs)
    batches = asked.batches or (workload.batch_size,)
    counted = {batch: _count(asked, workload, batch) for batch in batches}
    place = _place(asked, cluster)
    times = _times(asked, place, workload, counted, store)
    predictions = [
        trained(
            _predicted(
                asked,
                place,
                workload,
                counted[batch],
                Config.data_parallel(batch, workers, place.identity),
                times,
                store,
            ),
            replace(asked.work, price=asked.work.price * workers),
        )
        for workers in asked.workers
        for batch in batches
    ]
    return ModelAnswer(workload, place.identity, tuple(counted.values()), tuple(predictions))


def _count(asked: ModelQuery, workload: Workload, batch: int) -> Counts:
    return trace.count(workload, batch, precision=asked.precision, optimiser=asked.optimiser)


def _place(asked: ModelQuery, cluster: Cluster) -> ModelDevice:
    """Return the device asked for; the machine at hand is measured first if it never was."""
    import torch

    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    name = asked.device or HERE
    spec = known(name)
    here_is = known(gpu) if gpu else None
    per_node = next((device.per_node for device in cluster.devices if device.name == name and device.per_node), 8)
    if name == "cpu" or (name == HERE and gpu is None):
        return _here("cpu", f"cpu on {platform.node()}", asked.network)
    if gpu is not None and (name in (HERE, "gpu", "cuda") or (spec is not None and spec == here_is)):
        return _here("cuda", here_is.name if here_is else gpu, asked.network)
    if asked.tier in ("steps", "probe"):
        raise UsageError(
            f"--tier {asked.tier} measures the machine at hand, not {name}; leave --device out, or the tier"
        )
    rates = Rates.published(spec) if spec else None
    if asked.tier == "scaled" and (here_is is None or spec is None or spec.kind != "gpu"):
        raise UsageError("--tier scaled carries times from a known GPU here to another one of the table; there is none")
    return ModelDevice(Target(name, rates, per_node, asked.network), spec.name if spec else name, None, spec, here_is)


def _here(runs: Literal["cpu", "cuda"], identity: str, network: float | None) -> ModelDevice:
    folder = work_folder(Path.cwd())
    kind: Literal["cpu", "gpu"] = "gpu" if runs == "cuda" else "cpu"
    found = kept(folder, kind)
    if found is None:
        note("measuring this machine once (cotune doctor --calibrate does it again)")
        found = calibrate(runs)
        keep(found, folder)
    rates = Rates.calibrated(found, known(found.name))
    return ModelDevice(Target(identity, rates, network=network), identity, runs, known(found.name))


def carried(counts: Counts, found: StepProfile, origin: Spec, destination: Spec, precision: str = "fp32") -> float:
    """Return the seconds of a profiled step on another GPU."""
    times = [(one.name, one.seconds, one.calls) for one in found.operators]
    idle = max(found.step_seconds - sum(seconds for _, seconds, _ in times), 0.0)
    return habitat.step_seconds(
        habitat.measured(times, named_family, counts.work, precision), origin, destination, idle
    )


def _predicted(
    asked: ModelQuery,
    place: ModelDevice,
    workload: Workload,
    counts: Counts,
    config: Config,
    times: Sequence[StepTime],
    store: Store,
) -> Prediction:
    if asked.tier.startswith("paleo"):
        scheme = algorithms.create("predict", asked.tier).checked_scheme()
        return from_paleo(workload, counts, config, place.target, spec=place.spec, scheme=scheme)
    if times:
        return from_steps(counts, config, place.target, times, precision=asked.precision)
    near = None
    if asked.tier in ("auto", "history"):
        alone = [step for step in store.steps_of_models(place.identity, asked.precision) if step.workers == 1]
        near = correction(fingerprint(counts), alone)
        if near is None and asked.tier == "history":
            raise NotFound(f"no measured step of a similar model on {place.identity} in the store; use --tier counts")
    another = place.spec is not None and place.spec.kind == "gpu" and place.here is not None
    if near is None and another and asked.tier in ("auto", "scaled"):
        assert place.spec is not None
        assert place.here is not None
        timed = profiled(workload, counts.batch, "cuda", precision=asked.precision)
        seconds = carried(counts, timed, place.here, place.spec, asked.precision)
        return from_another(counts, config, place.target, seconds, place.here.name, precision=asked.precision)
    return from_counts(counts, config, place.target, precision=asked.precision, history=near)


def _times(
    asked: ModelQuery, place: ModelDevice, workload: Workload, counted: dict[int, Counts], store: Store
) -> list[StepTime]:
    """Return the steps measured here, those of the store included; none when nothing is to be run."""
    if place.runs is None or asked.tier not in ("auto", "steps", "probe"):
        return []
    wanted = sorted({*counted, max(1, min(counted) // 4)})
    wanted = wanted if len(wanted) <= 3 else [wanted[0], wanted[len(wanted) // 2], wanted[-1]]
    runs = [(batch, 1) for batch in wanted if _fits(place, counted.get(batch))]
    if max(asked.workers) > 1 and (asked.tier == "probe" or _held(place) > 1):
        runs.append((max(batch for batch, _ in runs), min(max(asked.workers), max(_held(place), 2))))
    times: list[StepTime] = []
    with progress(len(runs)) as shown:
        for number, (batch, workers) in enumerate(runs):
            shown.update(number, f"steps of batch {batch} on {workers} worker{'s' if workers > 1 else ''}")
            counts = counted.get(batch) or _count(asked, workload, batch)
            times.append(_time(asked, place, workload, counts, workers, store))
    return times


def _fits(place: ModelDevice, counts: Counts | None) -> bool:
    memory = place.target.rates.memory if place.target.rates else None
    return counts is None or memory is None or counts.peak_bytes < memory


def _held(place: ModelDevice) -> int:
    """Return how many workers this machine holds."""
    import os

    import torch

    return torch.cuda.device_count() if place.runs == "cuda" else len(os.sched_getaffinity(0))


def _time(
    asked: ModelQuery, place: ModelDevice, workload: Workload, counts: Counts, workers: int, store: Store
) -> StepTime:
    """Return a step as the store knows it, else as it is now measured and kept."""
    mark = fingerprint(counts)
    for step in reversed(store.steps_of_models(place.identity, asked.precision)):
        if step.workers == workers and step.batch_size == counts.batch and distance(step.fingerprint, mark) < _SAME:
            return StepTime(counts.batch, workers, step.seconds, step.spread)
    assert place.runs is not None
    if workers == 1:
        found = measure(
            workload,
            counts.batch,
            place.runs,
            precision=asked.precision,
            optimiser=asked.optimiser,
            seconds=asked.seconds / 3,
        )
        time = StepTime(counts.batch, 1, found.seconds, found.spread, found.peak_bytes)
    else:
        time = _probed(asked, place, counts.batch, workers)
    assert place.target.rates is not None
    counted = split(counts, place.target.rates, workers, asked.precision).seconds
    kept_step = ModelStep(
        workload.name,
        place.identity,
        asked.precision,
        workers,
        counts.batch,
        time.seconds,
        time.spread,
        counted,
        mark,
        timestamp(),
    )
    store.save_model_step(kept_step)
    return time


def _probed(asked: ModelQuery, place: ModelDevice, batch: int, workers: int) -> StepTime:
    """Return a step of several workers, run by the local engine."""
    from cotune.errors import EngineError
    from cotune.run import Launch
    from cotune.run.attempt import Until, attempt
    from cotune.run.local import Local

    words = [sys.executable, "-m", "cotune.workloads.steps", "--model", asked.model, "--batch-size", "{batch_size}"]
    words += [word for text in asked.inputs for word in ("--input", text)]
    words += ["--precision", asked.precision, "--optimiser", asked.optimiser, "--steps", str(PROBE_STEPS)]
    job = Job("probe", (*words, "--device", str(place.runs)), examples=PROBE_STEPS * batch * workers)
    config = Config.data_parallel(batch, workers)
    engine = Local()
    name = f"probe-{new_id()}"
    launch = Launch(name, job, config, 1, work_folder(Path.cwd()) / "runs" / name)
    try:
        *_, sample = attempt(engine, launch, Until(timeout=_PROBE_SECONDS), Sample(config, id=name))
    finally:
        engine.close()
    if sample.failed or sample.epoch_seconds is None:
        raise EngineError(f"the probe of {workers} workers failed: {sample.failure}; its logs are in {launch.folder}")
    return StepTime(batch, workers, sample.epoch_seconds / PROBE_STEPS, 0.05)


def checked(word: str, known_words: Sequence[Word], flag: str) -> Word:
    """Return a word that must be one of some."""
    for known_word in known_words:
        if known_word == word:
            return known_word
    raise UsageError(f"{flag} is one of {', '.join(known_words)}, not {word!r}{suggestion(word, known_words)}")
