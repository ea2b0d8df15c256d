"""A model's step, epoch, training, memory and cost before it is trained, each with bounds and a source.

    counts    nothing is run: counts and the rates of a device           x / 1.8, the device's own rates unknown
    history   the counts, corrected by what similar models took there    x / 1.2 and more with distance
    scaled    operators measured on the GPU here, carried to another one x / 1.6
    steps     a few steps here at two or three batches: T^p = a^p + (c b)^p, p = 1 on a CPU, 1.5 on a GPU
    probe     and one of several workers: T + k (n - 1) / n              a few per cent inside what was measured

Each tier replaces the assumptions of the one before. A device nobody knows spans all that are known,
and a quantity that cannot be told is None, with the reason among the notes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace
from typing import Literal

import numpy as np

from cotune.devices import table
from cotune.errors import suggestion
from cotune.modelling.counting.counts import Counts
from cotune.modelling.roofline import SIDE_BY_SIDE, Rates, Split, entering, split
from cotune.modelling.similar_models import HistoryCorrection
from cotune.modelling.step_law import StepLaw, StepTime, measured_at
from cotune.predict.input_law import InputLaw
from cotune.types import Z90, Config, Quantity, Source
from cotune.units import short_duration

Tier = Literal["counts", "history", "layerwise", "paleo", "scaled", "steps", "probe"]
_PUBLISHED = 0.5  # spread of the logarithm of counted seconds at assumed shares of the peak
_CALIBRATED = 0.35  # and at measured rates
_ANOTHER = 0.35  # where operator times were carried from one GPU to another
_STRANGE = 0.8  # and where nothing is known of the device
_NETWORK = 100e9 / 8  # bytes per second between nodes, where nobody says
_NEW_NETWORK = 0.3
PER_NODE = 8
_FRAGMENTS = 1.1  # what an allocator keeps beside what is alive
_CONTEXT = 0.5e9  # what a GPU's driver and libraries take
_WORKSPACE = 7e7  # what the libraries of a GPU allocate for themselves
_FUSED = 0.7  # of the counted peak, where a GPU's fused kernels keep less than a CPU's steps


@dataclass(frozen=True, slots=True)
class Target:
    """Where a model would be trained; without rates nothing is known of the device."""

    name: str
    rates: Rates | None
    per_node: int = PER_NODE
    network: float | None = None

    @property
    def known(self) -> list[Rates]:
        """Return the rates to reckon with: its own, or those of every GPU of the table."""
        if self.rates is not None:
            return [self.rates]
        return [Rates.published(spec) for spec in table().values() if spec.kind == "gpu"]


@dataclass(frozen=True, slots=True)
class TrainingWork:
    """How much is to be trained and what a second costs; None where nobody said."""

    examples: int | None = None
    epochs: int | None = None
    price: float = 1.0
    unit: str = "device-seconds"


@dataclass(frozen=True, slots=True)
class Prediction:
    """What is expected of one config of a model."""

    config: Config
    tier: Tier
    known_from: str
    step_seconds: Quantity
    split: Split
    peak_bytes: Quantity
    fits: bool | None
    epoch_seconds: Quantity | None = None
    seconds: Quantity | None = None
    cost: Quantity | None = None
    notes: tuple[str, ...] = ()


def from_counts(
    counts: Counts, config: Config, target: Target, *, precision: str = "fp32", history: HistoryCorrection | None = None
) -> Prediction:
    """Return what the counts alone say, or with what similar models took there."""
    network, notes = _network(config.workers, target)
    splits = [split(counts, rates, config.workers, precision, network) for rates in target.known]
    chosen = sorted(splits, key=lambda one: one.seconds)[len(splits) // 2]
    factor, base = (history.factor, history.spread) if history else (1.0, _spread(target))
    wider = math.hypot(base, counts.unknown_share, _NEW_NETWORK if notes else 0.0)
    reach = math.exp(Z90 * wider)
    low, high = (factor * pick(one.seconds for one in splits) for pick in (min, max))
    middle = factor * math.exp(sum(math.log(one.seconds) for one in splits) / len(splits))
    words = "counted operations and bytes"
    if history:
        nearest = history.neighbours[0].step
        words += f", corrected by {len(history.neighbours)} measured steps (nearest: {nearest.model})"
    elif target.rates is None:
        unknown = f"nothing is known of {target.name!r}: the interval spans the {len(splits)} GPUs of the table"
        notes = (*notes, unknown + suggestion(target.name, table()))
    else:
        words += " at measured rates" if target.rates.measured else " at assumed shares of published peaks"
    source: Source = "extrapolated" if history else "assumed"
    return Prediction(
        config=config,
        tier="history" if history else "counts",
        known_from=words,
        step_seconds=Quantity(low / reach, middle, high * reach, source, "s"),
        split=_scaled(chosen, middle),
        peak_bytes=_memory(counts, target, []),
        fits=_fits(counts, target),
        notes=(*counts.notes, *notes, *_formulas(counts)),
    )


def from_another(
    counts: Counts, config: Config, target: Target, seconds: float, origin: str, *, precision: str = "fp32"
) -> Prediction:
    """Return what a step of one worker, carried over from another GPU, says; communication is counted."""
    if target.rates is None:
        raise ValueError("nothing can be carried to a device of which nothing is known")
    found = from_counts(counts, config, target, precision=precision)
    counted = split(counts, target.rates, config.workers, precision, _network(config.workers, target)[0])
    parts = _as_measured(counted, seconds, counted.communication, entering(counts, target.rates))
    step = within(parts.seconds, math.exp(Z90 * _ANOTHER), "extrapolated")
    words = f"operators measured on the {origin} here, scaled by their rooflines"
    return replace(found, tier="scaled", known_from=words, step_seconds=step, split=parts)


def from_steps(
    counts: Counts, config: Config, target: Target, times: Sequence[StepTime], *, precision: str = "fp32"
) -> Prediction:
    """Return what measured steps say: a line over the batch, and a ring where workers were measured."""
    alone = [time for time in times if time.workers == 1]
    if target.rates is None or not alone:
        raise ValueError("measured steps need the rates of their device, and one of a single worker")
    network, notes = _network(config.workers, target)
    counted = split(counts, target.rates, config.workers, precision, network)
    together = [time for time in times if time.workers > 1]
    law = StepLaw.of(alone, target.rates.kind, _dispatched(counted))
    single = law.seconds(config.batch_size)
    communication = 0.0
    if config.workers > 1 and together:
        communication = law.ring(together) * (config.workers - 1) / config.workers
    elif config.workers > 1:
        communication = counted.communication
        notes = (*notes, "several workers were not measured: their communication is counted")
    parts = _as_measured(counted, single, communication, entering(counts, target.rates))
    source, wider = law.trust(config, times, communication / parts.seconds if not together else 0.0)
    reach = math.exp(Z90 * math.hypot(wider, _NEW_NETWORK * bool(notes and together)))
    return Prediction(
        config=config,
        tier="probe" if together else "steps",
        known_from=measured_at(times),
        step_seconds=within(parts.seconds, reach, source),
        split=parts,
        peak_bytes=_memory(counts, target, times),
        fits=_fits(counts, target),
        notes=(*counts.notes, *notes, *_formulas(counts)),
    )


def within(seconds: float, reach: float, source: Source) -> Quantity:
    """Return seconds with percentiles a factor below and above them."""
    return Quantity(seconds / reach, seconds, seconds * reach, source, "s")


def with_input(found: Prediction, law: InputLaw) -> Prediction:
    """Return a prediction with what the loop waits for its data, as starts of the job have shown."""
    waits = float(law.step(np.array([float(found.config.batch_size)]))[0])
    late = max(waits - found.split.input, 0.0)
    step = found.step_seconds
    words = f"input: loading takes {short_duration(law.per_example)} for each example, {law.how}, as measured in starts"
    return replace(
        found,
        step_seconds=replace(step, low=step.low + late, mid=step.mid + late, high=step.high + late),
        split=replace(found.split, input=found.split.input + late),
        notes=(*found.notes, words) if law.per_example else found.notes,
    )


def trained(found: Prediction, work: TrainingWork) -> Prediction:
    """Return a prediction with what an epoch and a whole training take and cost."""
    if work.examples is None:
        return replace(
            found, notes=(*found.notes, "an epoch needs the number of examples, a training that of epochs too")
        )
    steps = work.examples / found.config.global_batch
    epoch = _times(found.step_seconds, steps, "s")
    if work.epochs is None:
        return replace(found, epoch_seconds=epoch, notes=(*found.notes, "a whole training needs the number of epochs"))
    whole = _times(epoch, work.epochs, "s")
    notes = (*found.notes, "start-up, evaluation and checkpoints are not counted")
    return replace(found, epoch_seconds=epoch, seconds=whole, cost=_times(whole, work.price, work.unit), notes=notes)


def _times(quantity: Quantity, factor: float, unit: str) -> Quantity:
    low, mid, high = (value * factor for value in (quantity.low, quantity.mid, quantity.high))
    return Quantity(low, mid, high, quantity.source, unit)


def _network(workers: int, target: Target) -> tuple[float | None, tuple[str, ...]]:
    """Return the slowest link in bytes per second, None for that of the device, and what was assumed."""
    if target.network is not None:
        return target.network, ()
    if workers <= target.per_node:
        return None, ()
    nodes = math.ceil(workers / target.per_node)
    return _NETWORK, (f"{workers} workers span {nodes} nodes, whose network is assumed: 100 Gb/s",)


def _spread(target: Target) -> float:
    if target.rates is None:
        return _STRANGE
    return _CALIBRATED if target.rates.measured else _PUBLISHED


def _formulas(counts: Counts) -> tuple[str, ...]:
    if not counts.without_formula:
        return ()
    named = ", ".join(f"{name} x {calls}" for name, calls in counts.without_formula.items())
    return (f"no formula for {named} ({counts.unknown_share:.1%} of the bytes): only their bytes count",)


def _scaled(parts: Split, seconds: float) -> Split:
    factor = seconds / parts.seconds
    return Split(*(part * factor for part in astuple(parts)))


def _dispatched(counted: Split) -> float:
    """Return the counted share of launching in what one worker's step takes on a GPU, in its p-th power."""
    return 1 - math.pow(counted.compute / (counted.compute + counted.overhead), SIDE_BY_SIDE)


def _as_measured(counted: Split, single: float, communication: float, entered: float) -> Split:
    """Return a measured step of one worker, shared out as counted, with what is added to it."""
    computing = counted.compute / (counted.compute + counted.overhead)
    late = max(entered - single - communication, 0.0)
    return Split(single * computing, communication, late, single * (1 - computing))


def _memory(counts: Counts, target: Target, times: Sequence[StepTime]) -> Quantity:
    """Return the peak of one worker's memory: what was measured, or counted with what an allocator adds."""
    gpu = target.rates is None or target.rates.kind == "gpu"
    own = [time.peak_bytes for time in times if time.batch == counts.batch and time.peak_bytes is not None]
    if own:
        return Quantity(own[0], own[0], own[0] * _FRAGMENTS + _CONTEXT, "measured", "bytes")
    middle = counts.peak_bytes * _FRAGMENTS + (_WORKSPACE if gpu else 0.0)
    most = counts.peak_bytes * 1.3 + (_CONTEXT if gpu else 0.0)
    least = counts.peak_bytes * (_FUSED if gpu else 1.0)
    return Quantity(least, middle, max(most, middle), "extrapolated", "bytes")


def _fits(counts: Counts, target: Target) -> bool | None:
    if target.rates is None or target.rates.memory is None:
        return None
    return counts.peak_bytes * _FRAGMENTS <= target.rates.memory
