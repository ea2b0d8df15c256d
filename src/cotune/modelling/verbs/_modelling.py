"""`cotune model predict`: from what is asked to predictions, by the best tier there is.

here        a few steps are taken (and one probe of several workers), and kept in the store
elsewhere   what similar models took there, if the store knows any; else operators measured on a GPU
            here and scaled to the one asked for; else counts alone
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from cotune import registry
from cotune.devices import Spec, known
from cotune.errors import NotFound, UsageError
from cotune.modelling.counting.counts import Counts
from cotune.modelling.counting.formulas import named_family
from cotune.modelling.counting.profiler import StepProfile, profiled
from cotune.modelling.counting.workload import Workload
from cotune.modelling.layer_rows import read_layers
from cotune.modelling.model_counter import fingerprint
from cotune.modelling.prediction import Prediction, from_another, from_counts, from_steps, trained, with_input
from cotune.modelling.predictors import habitat
from cotune.modelling.similar_models import correction
from cotune.modelling.step_law import StepTime
from cotune.modelling.verbs._model_query import ModelDevice, ModelQuery, device_of
from cotune.modelling.verbs._model_steps import count, step_times
from cotune.modelling.workloads.named import find
from cotune.store import Store
from cotune.types import Cluster, Config


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
    batches = asked.batches or (workload.batch_size,)
    counted = {batch: count(asked, workload, batch) for batch in batches}
    places = [device_of(one, cluster) for one in queries]
    predictions = [
        prediction
        for one, place in zip(queries, places, strict=True)
        for prediction in _on_device(one, place, workload, counted, store)
    ]
    return ModelAnswer(workload, tuple(place.identity for place in places), tuple(counted.values()), tuple(predictions))


def _on_device(
    asked: ModelQuery, place: ModelDevice, workload: Workload, counted: dict[int, Counts], store: Store
) -> Iterator[Prediction]:
    times = step_times(asked, place, workload, counted, store)
    for workers in asked.workers:
        for batch, counts in counted.items():
            config = Config.data_parallel(batch, workers, place.identity)
            found = _predicted(asked, place, workload, counts, config, times, store)
            found = found if asked.input is None else with_input(found, asked.input)
            yield trained(found, replace(asked.work, price=asked.work.price * workers))


def carried(counts: Counts, found: StepProfile, origin: Spec, destination: Spec, precision: str = "fp32") -> float:
    """Return the seconds of a profiled step on another GPU."""
    times = [(one.name, one.seconds, one.calls) for one in found.operators]
    idle = max(found.step_seconds - sum(seconds for _, seconds, _ in times), 0.0)
    return habitat.step_seconds(
        habitat.measured(times, named_family, counts.work, precision), origin, destination, idle
    )


def _summed(asked: ModelQuery, place: ModelDevice, workload: Workload, counts: Counts, config: Config) -> Prediction:
    """Return the sum of the layers, by the tables of timed layers of the device asked for."""
    from cotune.modelling.layer_sums import from_layers  # and torch's tracing with it, which no other tier needs
    from cotune.modelling.workloads.random_layers import device_name

    if asked.precision != "fp32":
        raise UsageError(f"layers are timed in fp32, so --tier layerwise cannot tell {asked.precision}")
    if place.target.rates is None:
        raise UsageError(f"nothing is known of {place.target.name}, not even its communication; use --tier counts")
    timed = read_layers(asked.layers)
    named = {str(name) for table in timed.values() for name in table.device}
    here = {device_name(place.runs)} if place.runs else {name for name in named if known(name) == place.spec}
    if not here & named:
        have = ", ".join(sorted(named))
        raise NotFound(
            f"{asked.layers} has timed layers of {have}, none of {place.identity}: cotune model layers there"
        )
    law = registry.create("predictor", asked.tier)
    return from_layers(
        workload,
        counts,
        config,
        place.target,
        timed=timed,
        device=min(here & named),
        law=law,
        optimiser=asked.optimiser,
        once=asked.tier.startswith("layer_trees"),  # as published every layer pays for all that timing adds
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
        from cotune.modelling.paleo_torch import from_paleo  # and scipy with it, which no other tier needs

        scheme = registry.create("predictor", asked.tier).checked_scheme()
        return from_paleo(workload, counts, config, place.target, spec=place.spec, scheme=scheme)
    if asked.tier.startswith(("layerwise", "layer_trees")):
        return _summed(asked, place, workload, counts, config)
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
