"""The predictor that did best on what it had not seen.

    chosen = argmin over predictors of  mean |ln(predicted / measured)|      (time)
                                        mean |predicted - measured|          (accuracy)

over samples left out in turn (see `validation`). `CANDIDATES` take part, or those that `among` names.
The least of many errors is partly luck, so `gaussian` and `curve`, which did best on other jobs, stay
unless another's error is clearly smaller. Below four configs leaving one out says nothing: `gaussian`
stands, and for a single config its law with the coefficients that are usual, which is an assumption and says so. Below
five batches `curve` stands, which expects larger ones to take more epochs, as does what is assumed of a single
evaluation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import numpy as np

from cotune import registry
from cotune.bounds import Count
from cotune.predict import (
    AccuracyModel,
    AccuracyPredictor,
    SecondsModel,
    SecondsPredictor,
    TooFewSamples,
    WithErrors,
)
from cotune.predict.batch_prior import BatchPrior, batch_prior
from cotune.predict.fits import fit_accuracy
from cotune.predict.groups import fit_seconds
from cotune.predict.predictors.curve import usual_pace
from cotune.predict.predictors.gaussian import Gaussian
from cotune.predict.samples import curves, timings
from cotune.predict.validation import AccuracyErrors, accuracy_errors, seconds_errors
from cotune.space import Configs
from cotune.types import Floats, Job, Sample

_COMPARABLE, _COMPARABLE_BATCHES = 4, 5
_USUAL, _USUAL_CURVE = "gaussian", "curve"
CANDIDATES = (  # those of rooms that are not installed are left out
    *(
        "amdahl",
        "cynthia",
        "ernest",
        "eta",
        "gaussian",
        "isotonic",
        "log_isotonic",
        "optimus",
        "paleo",
        "pollux",
        "ring",
    ),
    *("ring_of_nodes", "saturating", "shared_ring"),
    *("curve", "samples_to_target"),
)
_HEAD_START = 0.7  # of the usual predictor's error: another must do better than this
_HALF_AS_LONG = 0.1  # of the only value measured, that half of its epochs are assumed to take away
_TIE = 1e-5  # errors that no clock can tell apart


@dataclass(frozen=True, slots=True)
class ChosenSeconds:
    """The chosen model of seconds, the reason, and its log errors on configs left out."""

    model: SecondsModel
    name: str
    reason: str
    errors: Floats
    assumed: bool = False

    def predict(self, configs: Configs) -> Floats:
        return self.model.predict(configs)


@dataclass(frozen=True, slots=True)
class ChosenAccuracy:
    """The chosen model of accuracy, the reason, and its errors on curves left out."""

    model: AccuracyModel
    name: str
    reason: str
    errors: AccuracyErrors
    assumed: bool = False

    def predict(self, configs: Configs, epochs: Floats) -> Floats:
        return self.model.predict(configs, epochs)


@dataclass(frozen=True, slots=True)
class Auto:
    """The predictor of the box that cross-validation likes best."""

    per_node: Count | None = None
    among: tuple[str, ...] = ()

    def fit_seconds(self, job: Job, samples: Sequence[Sample]) -> ChosenSeconds:
        """Return the best model of seconds per epoch."""
        count = timings(samples).configs.length
        if count == 1:
            reason = "one config measured: others are assumed to be as much faster or slower as is usual"
            model = fit_seconds(Gaussian(self.per_node), job, samples, self.per_node)
            return ChosenSeconds(model, _USUAL, reason, np.empty(0), assumed=True)
        candidates = self._candidates(SecondsPredictor)
        usual = _USUAL if _USUAL in candidates else next(iter(candidates))
        if count < _COMPARABLE or len(candidates) == 1:
            model = fit_seconds(candidates[usual], job, samples, self.per_node)
            few = (
                f"{count} configs are too few to compare predictors"
                if len(candidates) > 1
                else "the only one asked for"
            )
            return ChosenSeconds(model, usual, f"{usual}: {few}", self._errors(candidates[usual], model, job, samples))
        models = {_USUAL: fit_seconds(candidates[_USUAL], job, samples, self.per_node)} if _USUAL in candidates else {}
        errors = {name: self._errors(one, models.get(name), job, samples) for name, one in candidates.items()}
        sizes = {name: float(np.abs(left).mean()) for name, left in errors.items() if len(left)}
        best, words, why = _best(sizes, "{:.1%}", tie=_TIE, ahead=usual)
        reason = f"{best}: on configs it was not shown it is off by {words} ({count} configs){why}"
        chosen = models.get(best) or fit_seconds(candidates[best], job, samples, self.per_node)
        return ChosenSeconds(chosen, best, reason, errors[best])

    def _errors(
        self, predictor: SecondsPredictor, model: SecondsModel | None, job: Job, samples: Sequence[Sample]
    ) -> Floats:
        """Return the errors on configs left out, of a model that knows them or by fitting anew."""
        return model.errors if isinstance(model, WithErrors) else seconds_errors(predictor, job, samples, self.per_node)

    def fit_accuracy(self, job: Job, samples: Sequence[Sample]) -> ChosenAccuracy:
        """Return the best model of sign x accuracy."""
        few = len({curve.global_batch for curve in curves(job, samples)}) < _COMPARABLE_BATCHES
        candidates = self._candidates(AccuracyPredictor)
        compared = [_USUAL_CURVE] if few and _USUAL_CURVE in candidates else list(candidates)
        errors = {name: accuracy_errors(candidates[name], job, samples) for name in compared}
        sizes = {name: found.size for name, found in errors.items() if np.isfinite(found.size)}
        if sizes:
            best, words, why = _best(sizes, "{:.2g}", ahead=_USUAL_CURVE)
            reason = f"{best}: on {job.metric} it was not shown it is off by {words}{why}"
            return ChosenAccuracy(fit_accuracy(candidates[best], job, samples), best, reason, errors[best])
        nothing = AccuracyErrors.none()
        for name in sorted(candidates, key=lambda name: name != _USUAL_CURVE):
            try:
                model = fit_accuracy(candidates[name], job, samples)
            except TooFewSamples:
                continue
            reason = f"{name}: too few evaluations of {job.metric} to compare predictors"
            return ChosenAccuracy(model, name, reason, nothing)
        reason = f"one evaluation of {job.metric}: it is assumed to stay where it is, and larger batches to take longer"
        return ChosenAccuracy(_Held.of(job, samples), "held", reason, nothing, assumed=True)

    def _candidates(self, offers: type) -> dict[str, Any]:
        """Return the predictors of the box that offer a fit, by name."""
        chosen = self.among or tuple(name for name in CANDIDATES if name in registry.names("predictor"))
        built = {name: with_nodes(registry.create("predictor", name), self.per_node) for name in chosen}
        return {name: predictor for name, predictor in built.items() if isinstance(predictor, offers)}


def with_nodes(predictor: Any, per_node: int | None) -> Any:
    """Return a predictor that knows how many workers a node holds, where it asks for that."""
    asks = is_dataclass(predictor) and any(setting.name == "per_node" for setting in fields(predictor))
    return replace(predictor, per_node=per_node) if asks and predictor.per_node is None else predictor


def _best(sizes: dict[str, float], form: str, tie: float = 0.0, ahead: str = "") -> tuple[str, str, str]:
    """Return the name with the least error, one of them with a head start, the words for it, and why not the least."""
    first, *others = sorted(sizes, key=lambda name: max(sizes[name], tie) * (_HEAD_START if name == ahead else 1.0))
    words = form.format(sizes[first])
    if not others:
        return first, words, ""
    words += f", {others[0]} by {form.format(sizes[others[0]])}"
    replaced = form.format(_HEAD_START * sizes[first])
    why = f"; on so few, only one off by less than {replaced} replaces the usual {first}"
    return first, words, why if max(sizes[others[0]], tie) < max(sizes[first], tie) else ""


@dataclass(frozen=True, slots=True)
class _Held:
    """The only value measured, from the epoch on that it was measured after; other batches get there at their pace."""

    value: float
    epoch: float
    global_batch: int
    prior: BatchPrior

    @classmethod
    def of(cls, job: Job, samples: Sequence[Sample]) -> _Held:
        curve = curves(job, samples)[0]
        return cls(float(curve.accuracy[0]), float(curve.epochs[0]), curve.global_batch, batch_prior(job))

    def predict(self, configs: Configs, epochs: Floats) -> Floats:
        batches = np.maximum(configs.global_batch, 1).astype(np.float64)
        needed = self.epoch * usual_pace(batches, self.global_batch, self.prior)
        halvings = np.maximum(np.log2(needed[:, None] / epochs[None, :]), 0.0)
        return np.asarray(self.value - _HALF_AS_LONG * abs(self.value) * halvings)
