"""From samples to forecasts: laws of time and accuracy, fitted once, asked for many configs.

samples ─┬─ law of seconds ─ errors left out ──────────▶ median, spread, source
         ├─ law of accuracy ─ errors left out ─────────▶ median, spread, source
         ├─ terms ─────────────────────────────────────▶ start-up, overhead
         └─ memory: ran out, or will ──────────────────▶ impossible: infinite seconds
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import _lru_cache_wrapper, lru_cache
from typing import Any, TypeVar

import numpy as np

from cotune import registry
from cotune.checkpoints import joined
from cotune.errors import UsageError
from cotune.forecast import Learning, Outlook, Success, standard_draws
from cotune.layouts import LayoutModel, layout_law
from cotune.predict import (
    ACCURACY,
    SECONDS,
    AccuracyModel,
    AccuracyPredictor,
    SecondsModel,
    SecondsPredictor,
    TooFewSamples,
    WithErrors,
    WithRemark,
)
from cotune.predict.learning.job_runs import Recipes
from cotune.predict.learning.outlook import DRAWS, LearningOutlook, fitted_outlook
from cotune.predict.learning.schedules import contradiction, falling
from cotune.predict.memory import MemoryLaw
from cotune.predict.resolution import Rhythm, rhythm_of
from cotune.predict.samples import KEPT, curves, failing, timed, timings
from cotune.predict.seconds import SecondsOutlook, seconds_outlook
from cotune.predict.starts import at_last_load, engine_start, load_words
from cotune.predict.successes import successes
from cotune.progress import whole_units
from cotune.space import Configs
from cotune.types import Cause, Cluster, Config, Floats, Job, Mask, Sample
from cotune.units import counted

_FEW_CONFIGS = 4096
_REPEATS = 9  # of one config that tell its seconds; one more where their number is even, so that the median stays
Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Forecaster:
    """What was learnt from samples; call it with configs and the most epochs of interest."""

    seconds: SecondsOutlook
    accuracy: LearningOutlook | None  # of a training from scratch
    continuing: LearningOutlook | None  # of one that goes on from what a probe has left
    by_worker_batch: bool
    workers_matter: bool
    engine: float
    engine_spread: float
    startup: _Term
    overhead: _Term  # of an evaluation
    rhythm: Rhythm
    memory: MemoryLaw
    too_large: tuple[Config, ...]
    broken: tuple[Config, ...]  # whose own error would come again
    apart: bool  # workers train alone, so that several are of no use
    draws: int
    seed: int
    reason: tuple[str, ...]
    successes: tuple[Success, ...] = ()
    before: Callable[[], Forecaster] | None = None  # without the last of them

    def going_on(self) -> Forecaster:
        """Return the forecast of runs that resume from what probes left, where they left anything."""
        law = self.continuing or self.accuracy
        return replace(self, accuracy=law, continuing=None, successes=(), before=None)

    def __call__(self, configs: Configs, max_epochs: int) -> Outlook:
        """Return the outlook of some configs over 1, 2, ... `max_epochs` epochs."""
        median, spread, source = _kept(self.seconds.predict, configs)
        impossible, expected = self._impossible(configs), self.memory.too_large(configs)
        broken, alone = self._broken(configs), (configs.workers > 1) & self.apart
        lacking = self._lacking(configs) & (source != "measured")
        median = np.where(impossible | expected | broken | alone | lacking, np.inf, median)
        z_time = self.seconds.starts.draws(standard_draws(self.draws, self.seed))
        workers = configs.workers.astype(np.float64)
        notes = self.reason
        if impossible.any():
            notes += (f"{counted(int(impossible.sum()), 'config')} left out: {self.too_large[0]} ran out of memory",)
        if broken.any():
            first, others = configs[int(broken.argmax())], int(broken.sum()) - 1
            what = f"{first} and {others} more are" if others else f"{first} is"
            notes += (f"{what} left out, having failed",)
        if alone.any():
            notes += ("several workers are left out: each would train alone, as none makes a process group",)
        if expected.any():
            notes += (self.memory.note(configs, expected),)
        if lacking.any():
            notes += (f"{int(lacking.sum())} of {configs.length} layouts are left out: too little memory, as counted",)
        return Outlook(
            configs=configs,
            epoch_seconds=median,
            spread=spread,
            seconds_source=source,
            startup=self.engine + self.startup.of(workers),
            startup_spread=self.engine_spread,
            overhead=self.overhead.of(workers) / self.rhythm.gaps(configs.global_batch),
            z_time=z_time,
            learning=self._learning(self.accuracy, configs, max_epochs),
            continued=self._learning(self.continuing, configs, max_epochs),
            notes=notes,
            memory=self.memory.outlook(configs),
            successes=self.successes,
            before=None if self.before is None else self._before,
            layouts=self.seconds.model if isinstance(self.seconds.model, LayoutModel) else None,
        )

    def _lacking(self, configs: Configs) -> Mask:
        """Return which layouts of a large model should not run, as far as can be counted."""
        model = self.seconds.model
        return model.too_large(configs) if isinstance(model, LayoutModel) else np.zeros(configs.length, dtype=bool)

    def _before(self, configs: Configs, max_epochs: int) -> Outlook:
        assert self.before is not None
        return self.before()(configs, max_epochs)

    def _learning(self, law: LearningOutlook | None, configs: Configs, max_epochs: int) -> Learning | None:
        """Return what configs learn: it is worked out for one config of each recipe."""
        if law is None:
            return None
        recipes = configs.batch_size if self.by_worker_batch else configs.recipes(workers_matter=self.workers_matter)
        _, first, recipe = np.unique(recipes, return_index=True, return_inverse=True)
        found = _kept(law.learning, configs.take(first), max_epochs)
        return replace(found, recipe=found.recipe[recipe])

    def _impossible(self, configs: Configs) -> Mask:
        """Return which configs take at least a batch that ran out of memory, other things equal."""
        result = np.zeros(configs.length, dtype=bool)
        for failed in self.too_large:
            result |= configs.at_least(failed)
        return result

    def _broken(self, configs: Configs) -> Mask:
        """Return which configs ended by an error of their own."""
        result = np.zeros(configs.length, dtype=bool)
        for failed in self.broken:
            result |= configs.same(failed)
        return result


def _kept(predict: Callable[..., Answer], configs: Configs, *more: int) -> Answer:
    """Return a prediction, which is kept unless it is large: goals of one job ask for the same again and again."""
    return _predicted(predict, configs, *more) if configs.length <= _FEW_CONFIGS else predict(configs, *more)


@lru_cache(64)
def _predicted(predict: Callable[..., Any], configs: Configs, *more: int) -> Any:
    return predict(configs, *more)


@dataclass(frozen=True, slots=True)
class _Term:
    """Seconds that may grow with the workers: base + slope x workers."""

    base: float = 0.0
    slope: float = 0.0

    @classmethod
    def fit(cls, samples: Sequence[Sample], *names: str) -> _Term:
        """Return the sum of some terms as measured: a line where several worker counts were."""
        known = [(sample.config.workers, sample.terms.known()) for sample in timed(samples)]
        parts = [cls._one([(n, terms[name]) for n, terms in known if name in terms]) for name in names]
        return cls(sum(part.base for part in parts), sum(part.slope for part in parts))

    @classmethod
    def _one(cls, points: Sequence[tuple[int, float]]) -> _Term:
        if not points:
            return cls()
        measured: dict[int, list[float]] = {}
        for workers, value in points:
            measured.setdefault(workers, []).append(value)
        by_workers = {workers: float(np.median(values)) for workers, values in measured.items()}
        if len(by_workers) > 1:
            slope, base = np.polyfit(list(by_workers), list(by_workers.values()), 1)
            if slope > 0 and base >= 0:
                return cls(float(base), float(slope))
        return cls(float(np.median([value for _, value in points])))

    def of(self, workers: Floats) -> Floats:
        return self.base + self.slope * workers


def forecaster(
    job: Job,
    samples: Sequence[Sample],
    cluster: Cluster,
    *,
    predictor: str | SecondsPredictor = SECONDS,
    accuracy: str | AccuracyPredictor | None = ACCURACY,
    draws: int = DRAWS,
    seed: int = 0,
) -> Forecaster:
    """Return what forecasts configs: call it with `Configs` and the most epochs of interest.

    `predictor` and `accuracy` are the predictors of time and of accuracy, or name them, settings included
    ('isotonic(reading=sliced)'); `accuracy=None` plans a fixed recipe, for which no learning curve is needed. Its
    `reason` says how far these were off.
    """
    known = timed(samples)
    if job.large is not None and predictor == SECONDS:
        predictor = layout_law()
    if not known:
        raise TooFewSamples(f"{job.name} has no sample with epoch seconds: run `cotune profile` first")
    met = successes(job, samples)

    def before() -> Forecaster:
        fewer = [sample for place, sample in enumerate(samples) if place != met[-1][0]]
        return forecaster(job, fewer, cluster, predictor=predictor, accuracy=accuracy, draws=draws, seed=seed)

    per_node = _per_node(cluster, known)
    seconds, reason = _once(_seconds, predictor)(job, _times_alone(known), predictor, per_node)
    fall = falling(job, samples)
    curved = replace(job, schedule=fall) if fall else job
    learnt, why, by_worker = _once(_accuracy, accuracy)(curved, _evaluated_alone(samples), accuracy)
    if learnt is not None:
        rhythm, grain = rhythm_of(job, samples, annealed=fall is not None), float(whole_units(job, 1))
        learnt = replace(learnt, rhythm=rhythm, annealed=fall is not None, grain=grain)
    engine, engine_spread = engine_start(samples)
    return Forecaster(
        seconds=seconds,
        accuracy=learnt,
        continuing=None if learnt is None or fall else learnt.with_past(job, samples),
        by_worker_batch=by_worker,
        workers_matter=job.workers_matter,
        engine=engine,
        engine_spread=engine_spread,
        startup=_Term.fit(at_last_load([one for one in known if one.terms.startup] or known), "startup"),
        overhead=_Term.fit(known, "evaluation", "checkpoint"),
        rhythm=rhythm_of(job, known),
        memory=MemoryLaw.of(job, samples),
        too_large=tuple(sample.config for sample in failing(samples) if sample.out_of_memory),
        broken=_broken(samples, known),
        apart=any(sample.apart for sample in failing(samples)),
        draws=draws,
        seed=seed,
        reason=tuple(line for line in (reason, why, contradiction(job, samples), load_words(known)) if line),
        successes=tuple(success for _, success in met),
        before=before if met and len(known) > 1 else None,
    )


def _broken(samples: Sequence[Sample], known: Sequence[Sample]) -> tuple[Config, ...]:
    """Return the configs that ended by an error of their own whenever they were started."""
    ran = {sample.config for sample in known}
    failed = {sample.config for sample in samples if sample.failure and sample.failure.cause is Cause.JOB}
    return tuple(failed - ran)


def _times_alone(known: Sequence[Sample]) -> tuple[Sample, ...]:
    """Return what samples tell of time: equal ones need no second fit; of many repeats, those around the median."""
    by_config: dict[Config, list[float]] = {}
    for sample in known:
        by_config.setdefault(sample.config, []).append(sample.epoch_seconds or 0.0)
    middle = {
        config: sorted(seconds)[(len(seconds) - _REPEATS) // 2 : (len(seconds) + _REPEATS + 1) // 2]
        for config, seconds in by_config.items()
        if len(seconds) > _REPEATS + 1
    }
    many = [Sample(config, epoch_seconds=seconds) for config, kept in middle.items() for seconds in kept]
    few = [
        Sample(s.config, epoch_seconds=s.epoch_seconds, load=s.load, started=s.started)
        for s in known
        if s.config not in middle
    ]
    return (*few, *many)


def _evaluated_alone(samples: Sequence[Sample]) -> tuple[Sample, ...]:
    """Return what samples tell of accuracy: with other names and other seconds, the fit is the same."""
    return tuple(
        Sample(
            sample.config,
            sample.epochs,
            accuracy=sample.accuracy,
            curve=tuple(replace(point, seconds=0.0) for point in sample.curve),
            length=sample.length,
        )
        for sample in joined(samples)
        if sample.curve or sample.accuracy is not None
    )


def _once(fit: _lru_cache_wrapper[Answer], predictor: Any) -> Callable[..., Answer]:
    """Return a fit that answers again what it was asked before, unless it is of a predictor that may change."""
    return fit if isinstance(predictor, Hashable) else fit.__wrapped__


def _called(predictor: object) -> str:
    return predictor if isinstance(predictor, str) else type(predictor).__name__


@lru_cache(KEPT)
def _seconds(
    job: Job, known: tuple[Sample, ...], predictor: str | SecondsPredictor, per_node: int | None
) -> tuple[SecondsOutlook, str]:
    chosen, name = with_nodes(registry.create("predictor", predictor), per_node), _called(predictor)
    if not isinstance(chosen, SecondsPredictor):
        raise UsageError(f"predictor {name!r} does not predict time; {SECONDS} does")
    model = chosen.fit_seconds(job, known)
    _require_seconds(name, model, known)
    configs = len({sample.config for sample in known})
    assumed = configs == 1 and not isinstance(model, LayoutModel)
    reason = f"time by {_remark(model, name, configs)}"
    if assumed:
        reason = "one config measured: others are assumed to be as much faster or slower as is usual"
    return seconds_outlook(model, known, per_node, assumed=assumed), reason


def with_nodes(predictor: Any, per_node: int | None) -> Any:
    """Return a predictor that knows how many workers a node holds, where it asks for that."""
    asks = is_dataclass(predictor) and any(setting.name == "per_node" for setting in fields(predictor))
    return replace(predictor, per_node=per_node) if asks and predictor.per_node is None else predictor


def _remark(model: SecondsModel, name: str, configs: int) -> str:
    if isinstance(model, WithRemark):
        return model.remark
    if isinstance(model, WithErrors):
        return f"{name}: configs left out are missed by {np.abs(model.errors).mean():.1%} ({configs} configs)"
    return name


@lru_cache(KEPT)
def _accuracy(
    job: Job, samples: tuple[Sample, ...], predictor: str | AccuracyPredictor | None
) -> tuple[LearningOutlook | None, str, bool]:
    """Return the outlook of accuracy (None without a curve), why, and whether b is that of a worker."""
    if predictor is None or not curves(job, samples, least_points=0):
        return None, "", False
    chosen, name = registry.create("predictor", predictor), _called(predictor)
    if not isinstance(chosen, AccuracyPredictor):
        raise UsageError(f"predictor {name!r} does not predict accuracy; {ACCURACY} does")
    by_worker = getattr(chosen, "batch", "global") == "worker"
    fitted = chosen.fit_accuracy(job, samples)
    if isinstance(fitted, LearningOutlook):
        return fitted, f"accuracy by {name}{fitted.recipes}", False
    _require_accuracy(name, fitted, job, samples)
    remark = f"; {fitted.remark}" if isinstance(fitted, WithRemark) else ""
    outlook = fitted_outlook(fitted, job, samples, Recipes(-1.0 if by_worker else 0.0))
    return outlook, f"accuracy by {name}{remark}", by_worker


def _per_node(cluster: Cluster, known: Sequence[Sample]) -> int | None:
    """Return how many workers a node of the device with the most samples holds."""
    usual = Counter(sample.config.device for sample in known).most_common(1)[0][0]
    return next((device.per_node for device in cluster.devices if device.name == usual), None)


def _require_seconds(name: str, model: SecondsModel, samples: Sequence[Sample]) -> None:
    """Refuse a predictor by whose model a measured config takes no time, or none that is a number."""
    measured = timings(timed(samples))
    with np.errstate(all="ignore"):
        found = np.asarray(model.predict(measured.configs), dtype=np.float64)
    _require_numbers(name, found, found > 0, measured.configs, "positive seconds")


def _require_accuracy(name: str, model: AccuracyModel, job: Job, samples: Sequence[Sample]) -> None:
    """Refuse a predictor by whose model a trained config comes to no number."""
    trained = [sample for sample in samples if curves(job, [sample], least_points=0)]
    configs = Configs.of([sample.config for sample in trained])
    with np.errstate(all="ignore"):
        found = np.asarray(model.predict(configs, np.ones(1)), dtype=np.float64).reshape(configs.length, -1)[:, -1]
    _require_numbers(name, found, np.isfinite(found), configs, "a number")


def _require_numbers(name: str, found: Floats, good: Mask, configs: Configs, expected: str) -> None:
    wrong = np.flatnonzero(~(good & np.isfinite(found)))
    if len(wrong):
        where = configs[int(wrong[0])]
        raise UsageError(f"predictor {name!r} returned {found[wrong[0]]:g} for {where}, where it should be {expected}")
