"""`cotune model predict`: from what is asked to predictions, by the best tier there is.

here        a few steps are taken at a few batches (and one probe of several workers), and kept in the store
elsewhere   what similar models took there, if the store knows any; else operators measured on a GPU
            here and scaled to the one asked for; else counts alone
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from cotune import registry
from cotune.cli.output import progress
from cotune.devices import Spec, known
from cotune.errors import EngineError, NotFound, UsageError
from cotune.identity import new_id, timestamp
from cotune.modelling import habitat
from cotune.modelling.counting import trace
from cotune.modelling.counting.counts import Counts
from cotune.modelling.counting.formulas import named_family
from cotune.modelling.counting.profiler import StepProfile, profiled
from cotune.modelling.counting.timing import measure
from cotune.modelling.counting.workload import Workload
from cotune.modelling.layer_rows import read_layers
from cotune.modelling.model_counter import fingerprint
from cotune.modelling.prediction import Prediction, from_another, from_counts, from_steps, trained, with_input
from cotune.modelling.roofline import split
from cotune.modelling.similar_models import correction, distance
from cotune.modelling.step_law import StepTime
from cotune.modelling.verbs._model_query import ModelDevice, ModelQuery, device_of
from cotune.modelling.workloads.named import find
from cotune.run.attempt import StopRule, attempt
from cotune.run.engines.local import Local
from cotune.run.launch import Launch
from cotune.store import ModelStep, Store, work_folder
from cotune.types import Cluster, Config, Job, Sample

PROBE_STEPS = 30
_PROBE_SECONDS = 120.0
_PROBE_SPREAD = 0.05  # assumed of ln seconds, as several workers are probed once
_BATCHES = 3  # at most that are timed here, which share the seconds
_SAME = 1e-6  # distance of fingerprints that are one


@dataclass(frozen=True, slots=True)
class ModelAnswer:
    """The predictions of every device and config asked for, with the counts behind them."""

    workload: Workload
    devices: tuple[str, ...]
    counts: tuple[Counts, ...]
    predictions: tuple[Prediction, ...]


def answer(queries: Sequence[ModelQuery], cluster: Cluster, store: Store) -> ModelAnswer:
    """Return what is expected on every device, of every batch and number of workers; queries differ in devices only."""
    asked = queries[0]
    workload = find(asked.model, asked.inputs)
    places = [_OnDevice(one, device_of(one, cluster), workload, store) for one in queries]
    counted = {batch: places[0].count(batch) for batch in asked.batches or (workload.batch_size,)}
    predictions = tuple(prediction for place in places for prediction in place.predictions(counted))
    return ModelAnswer(workload, tuple(one.device.identity for one in places), tuple(counted.values()), predictions)


@dataclass(frozen=True, slots=True)
class _OnDevice:
    """What is asked of a model on one device."""

    asked: ModelQuery
    device: ModelDevice
    workload: Workload
    store: Store

    def count(self, batch: int) -> Counts:
        """Return what a step does, as it is asked for."""
        return trace.count(self.workload, batch, precision=self.asked.precision, optimiser=self.asked.optimiser)

    def predictions(self, counted: dict[int, Counts]) -> Iterator[Prediction]:
        """Yield what is expected of every number of workers and batch."""
        asked, times = self.asked, self._step_times(counted)
        for workers in asked.workers:
            for batch, counts in counted.items():
                config = Config.data_parallel(batch, workers, self.device.identity)
                found = self._predicted(counts, config, times)
                found = found if asked.input is None else with_input(found, asked.input)
                yield trained(found, replace(asked.work, price=asked.work.price * workers))

    def _step_times(self, counted: dict[int, Counts]) -> list[StepTime]:
        """Return the steps measured here, those of the store included; none when nothing is to be run."""
        asked, device = self.asked, self.device
        if device.runs is None or asked.tier not in ("auto", "steps", "probe"):
            return []
        wanted = sorted({*counted, max(1, min(counted) // 4)})
        wanted = wanted if len(wanted) <= _BATCHES else [wanted[0], wanted[len(wanted) // 2], wanted[-1]]
        runs = [(batch, 1) for batch in wanted if device.fits(counted.get(batch))]
        if max(asked.workers) > 1 and (asked.tier == "probe" or device.held() > 1):
            runs.append((max(batch for batch, _ in runs), min(max(asked.workers), max(device.held(), 2))))
        times: list[StepTime] = []
        with progress(len(runs)) as shown:
            for number, (batch, workers) in enumerate(runs):
                shown.update(number, f"steps of batch {batch} on {workers} worker{'s' if workers > 1 else ''}")
                times.append(self._time(counted.get(batch) or self.count(batch), workers))
        return times

    def _time(self, counts: Counts, workers: int) -> StepTime:
        """Return a step as the store knows it, else as it is now measured and kept."""
        device, precision = self.device, self.asked.precision
        mark = fingerprint(counts)
        for step in reversed(self.store.steps_of_models(device.identity, precision)):
            if step.workers == workers and step.batch_size == counts.batch and distance(step.fingerprint, mark) < _SAME:
                return StepTime(counts.batch, workers, step.seconds, step.spread)
        assert device.runs is not None
        assert device.target.rates is not None
        if workers > 1:
            time = self._probed(counts.batch, workers)
        else:
            time = measure(
                *(self.workload, counts.batch, device.runs),
                precision=precision,
                optimiser=self.asked.optimiser,
                seconds=self.asked.seconds / _BATCHES,
            )
        counted = split(counts, device.target.rates, workers, precision).seconds
        where = (self.workload.name, device.identity, precision, workers, counts.batch)
        self.store.save_model_step(ModelStep(*where, time.seconds, time.spread, counted, mark, timestamp()))
        return time

    def _probed(self, batch: int, workers: int) -> StepTime:
        """Return a step of several workers, run by the local engine."""
        asked = self.asked
        words = [sys.executable, "-m", "cotune.modelling.workloads.steps", "--model", asked.model]
        words += ["--batch-size", "{batch_size}", *(word for text in asked.inputs for word in ("--input", text))]
        words += ["--precision", asked.precision, "--optimiser", asked.optimiser, "--steps", str(PROBE_STEPS)]
        job = Job("probe", (*words, "--device", str(self.device.runs)), examples=PROBE_STEPS * batch * workers)
        config = Config.data_parallel(batch, workers)
        name = f"probe-{new_id()}"
        launch = Launch(name, job, config, 1, work_folder(Path.cwd()) / "runs" / name)
        with closing(Local()) as engine:
            *_, sample = attempt(engine, launch, StopRule(timeout=_PROBE_SECONDS), Sample(config, id=name))
        if sample.failed or sample.epoch_seconds is None:
            raise EngineError(
                f"the probe of {workers} workers failed: {sample.failure}; its logs are in {launch.folder}"
            )
        return StepTime(batch, workers, sample.epoch_seconds / PROBE_STEPS, _PROBE_SPREAD)

    def _predicted(self, counts: Counts, config: Config, times: Sequence[StepTime]) -> Prediction:
        asked, device = self.asked, self.device
        if asked.tier.startswith("paleo"):
            from cotune.modelling.paleo_torch import from_paleo  # and scipy with it, which no other tier needs

            scheme = registry.create("predictor", asked.tier).checked_scheme()
            return from_paleo(self.workload, counts, config, device.target, spec=device.spec, scheme=scheme)
        if asked.tier.startswith(("layerwise", "layer_trees")):
            return self._summed(counts, config)
        if times:
            return from_steps(counts, config, device.target, times, precision=asked.precision)
        near = None
        if asked.tier in ("auto", "history"):
            known_steps = self.store.steps_of_models(device.identity, asked.precision)
            near = correction(fingerprint(counts), [step for step in known_steps if step.workers == 1])
            if near is None and asked.tier == "history":
                raise NotFound(
                    f"no measured step of a similar model on {device.identity} in the store; use --tier counts"
                )
        spec, here = device.spec, device.here
        if near is None and spec and spec.kind == "gpu" and here and asked.tier in ("auto", "scaled"):
            timed = profiled(self.workload, counts.batch, "cuda", precision=asked.precision)
            seconds = carried(counts, timed, here, spec, asked.precision)
            return from_another(counts, config, device.target, seconds, here.name, precision=asked.precision)
        return from_counts(counts, config, device.target, precision=asked.precision, history=near)

    def _summed(self, counts: Counts, config: Config) -> Prediction:
        """Return the sum of the layers, by the tables of timed layers of the device asked for."""
        from cotune.modelling.layer_sums import from_layers  # and torch's tracing with it, which no other tier needs
        from cotune.modelling.workloads.random_layers import device_name

        asked, device = self.asked, self.device
        if asked.precision != "fp32":
            raise UsageError(f"layers are timed in fp32, so --tier layerwise cannot tell {asked.precision}")
        if device.target.rates is None:
            raise UsageError(f"nothing is known of {device.target.name}, not even its communication; use --tier counts")
        timed = read_layers(asked.layers)
        named = {str(name) for table in timed.values() for name in table.device}
        here = {device_name(device.runs)} if device.runs else {name for name in named if known(name) == device.spec}
        if not here & named:
            have = ", ".join(sorted(named))
            raise NotFound(
                f"{asked.layers} has timed layers of {have}, none of {device.identity}: cotune model layers there"
            )
        return from_layers(
            *(self.workload, counts, config, device.target),
            timed=timed,
            device=min(here & named),
            law=registry.create("predictor", asked.tier),
            optimiser=asked.optimiser,
            once=asked.tier.startswith("layer_trees"),  # as published every layer pays for all that timing adds
        )


def carried(counts: Counts, found: StepProfile, origin: Spec, destination: Spec, precision: str = "fp32") -> float:
    """Return the seconds of a profiled step on another GPU."""
    times = [(one.name, one.seconds, one.calls) for one in found.operators]
    idle = max(found.step_seconds - sum(seconds for _, seconds, _ in times), 0.0)
    return habitat.step_seconds(
        habitat.measured(times, named_family, counts.work, precision), origin, destination, idle
    )
