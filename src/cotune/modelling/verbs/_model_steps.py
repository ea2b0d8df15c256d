"""Steps of a model that are taken here: at a few batches, of several workers in one probe, all kept in the store."""

from __future__ import annotations

import sys
from pathlib import Path

from cotune.cli.output import progress
from cotune.errors import EngineError
from cotune.identity import new_id, timestamp
from cotune.modelling.counting import trace
from cotune.modelling.counting.counts import Counts
from cotune.modelling.counting.timing import measure
from cotune.modelling.counting.workload import Workload
from cotune.modelling.model_counter import fingerprint
from cotune.modelling.roofline import split
from cotune.modelling.similar_models import distance
from cotune.modelling.step_law import StepTime
from cotune.modelling.verbs._model_query import ModelDevice, ModelQuery
from cotune.run.attempt import StopRule, attempt
from cotune.run.engines.local import Local
from cotune.run.launch import Launch
from cotune.store import ModelStep, Store, work_folder
from cotune.types import Config, Job, Sample

PROBE_STEPS = 30
_PROBE_SECONDS = 120.0
_PROBE_SPREAD = 0.05  # assumed of ln seconds, as several workers are probed once
_BATCHES = 3  # at most that are timed here, which share the seconds
_SAME = 1e-6  # distance of fingerprints that are one


def count(asked: ModelQuery, workload: Workload, batch: int) -> Counts:
    """Return what a step does, as it is asked for."""
    return trace.count(workload, batch, precision=asked.precision, optimiser=asked.optimiser)


def step_times(
    asked: ModelQuery, place: ModelDevice, workload: Workload, counted: dict[int, Counts], store: Store
) -> list[StepTime]:
    """Return the steps measured here, those of the store included; none when nothing is to be run."""
    if place.runs is None or asked.tier not in ("auto", "steps", "probe"):
        return []
    wanted = sorted({*counted, max(1, min(counted) // 4)})
    wanted = wanted if len(wanted) <= _BATCHES else [wanted[0], wanted[len(wanted) // 2], wanted[-1]]
    runs = [(batch, 1) for batch in wanted if place.fits(counted.get(batch))]
    if max(asked.workers) > 1 and (asked.tier == "probe" or place.held() > 1):
        runs.append((max(batch for batch, _ in runs), min(max(asked.workers), max(place.held(), 2))))
    times: list[StepTime] = []
    with progress(len(runs)) as shown:
        for number, (batch, workers) in enumerate(runs):
            shown.update(number, f"steps of batch {batch} on {workers} worker{'s' if workers > 1 else ''}")
            counts = counted.get(batch) or count(asked, workload, batch)
            times.append(_time(asked, place, workload, counts, workers, store))
    return times


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
        time = measure(
            *(workload, counts.batch, place.runs),
            precision=asked.precision,
            optimiser=asked.optimiser,
            seconds=asked.seconds / _BATCHES,
        )
    else:
        time = _probed(asked, place, counts.batch, workers)
    assert place.target.rates is not None
    counted = split(counts, place.target.rates, workers, asked.precision).seconds
    where = (workload.name, place.identity, asked.precision, workers, counts.batch)
    store.save_model_step(ModelStep(*where, time.seconds, time.spread, counted, mark, timestamp()))
    return time


def _probed(asked: ModelQuery, place: ModelDevice, batch: int, workers: int) -> StepTime:
    """Return a step of several workers, run by the local engine."""
    words = [
        sys.executable,
        "-m",
        "cotune.modelling.workloads.steps",
        "--model",
        asked.model,
        "--batch-size",
        "{batch_size}",
    ]
    words += [word for text in asked.inputs for word in ("--input", text)]
    words += ["--precision", asked.precision, "--optimiser", asked.optimiser, "--steps", str(PROBE_STEPS)]
    job = Job("probe", (*words, "--device", str(place.runs)), examples=PROBE_STEPS * batch * workers)
    config = Config.data_parallel(batch, workers)
    engine = Local()
    name = f"probe-{new_id()}"
    launch = Launch(name, job, config, 1, work_folder(Path.cwd()) / "runs" / name)
    try:
        *_, sample = attempt(engine, launch, StopRule(timeout=_PROBE_SECONDS), Sample(config, id=name))
    finally:
        engine.close()
    if sample.failed or sample.epoch_seconds is None:
        raise EngineError(f"the probe of {workers} workers failed: {sample.failure}; its logs are in {launch.folder}")
    return StepTime(batch, workers, sample.epoch_seconds / PROBE_STEPS, _PROBE_SPREAD)
