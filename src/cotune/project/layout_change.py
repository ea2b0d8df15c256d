"""When a run under way should go on with another layout: because it was asked to, or because it pays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from cotune import progress
from cotune.errors import CotuneError
from cotune.jobfile.settings import Settings
from cotune.plan.assess import assess
from cotune.plan.rates import rates
from cotune.predict.evidence import Evidence, Predictors
from cotune.run.launch import Launch
from cotune.run.supervise import Move, pays, requested, resized, restart_seconds
from cotune.space import Configs
from cotune.types import Forecast, Plan, Quantity, Sample


class LayoutChange:
    """Looks at a sample after each evaluation; a plan, where there is one, is what it is measured against.

    Only layouts of the same global batch are weighed, so the recipe and its accuracy stay.
    """

    def __init__(self, settings: Settings, evidence: Callable[[], Evidence], launch: Launch, plan: Plan | None) -> None:
        """Weigh layouts by what `evidence` tells of the job when it is asked."""
        self._settings, self._evidence, self._launch = settings, evidence, launch
        self._forecast = plan.forecast if plan is not None else None
        self._goal = self._settings.goal if plan is None else plan.goal
        self._weighed = 0  # evaluations when layouts were last weighed

    def __call__(self, sample: Sample) -> Move | None:
        asked = requested(self._launch.folder)
        if asked is not None and asked != sample.config.workers:
            config = resized(sample.config, asked)
            return None if config is None else Move(config, f"{asked} workers were asked for")
        if len(sample.curve) == self._weighed:
            return None
        self._weighed = len(sample.curve)
        surprise = self._surprise(sample)
        return self._better(sample, surprise) if surprise else None

    def _surprise(self, sample: Sample) -> str | None:
        """Return how the run has left what was forecast for it, if it has."""
        forecast = self._forecast
        if forecast is None or forecast.config != sample.config or len(sample.curve) < 2:
            return None
        words = []
        if sample.epoch_seconds is not None and _outside(sample.epoch_seconds, forecast.epoch_seconds):
            job = self._settings.job
            part = progress.pace(job, sample.config, 1.0)
            forecast_range = _range(forecast.epoch_seconds, part)
            words.append(f"{sample.epoch_seconds * part:.3g} s per {progress.each(job)}, {forecast_range} was forecast")
        late = forecast.accuracy is not None and sample.epochs >= forecast.epochs
        if late and sample.accuracy is not None and forecast.accuracy is not None:
            sign = self._settings.job.sign
            if sign * sample.accuracy < sign * (forecast.accuracy.low if sign > 0 else forecast.accuracy.high):
                words.append(f"{self._settings.job.metric} {sample.accuracy:.4g}, more was forecast")
        return "; ".join(words) or None

    def _better(self, sample: Sample, surprise: str) -> Move | None:
        """Return a layout that gains more than it costs to move there, judged with what is known by now."""
        assert sample.epoch_seconds is not None
        restart = restart_seconds(sample)
        left = self._launch.epochs - sample.epochs
        rate = float(rates(Configs.of([sample.config]), self._settings.cluster)[0])
        now = sample.epoch_seconds
        cheap = self._goal.prefer == "cheap"
        if not pays(left, now, 0.0, restart / sample.config.workers if cheap else restart):
            return None  # even epochs that took no time: weighing layouts takes some itself
        try:
            candidates = self._forecasts()
        except CotuneError:  # too little was measured to weigh anything
            return None
        best: tuple[float, Forecast] | None = None
        for there, price in candidates:
            each = there.epoch_seconds.mid
            gains = pays(left, now * rate, each * price, restart * price) if cheap else pays(left, now, each, restart)
            spent = left * each * (price if cheap else 1.0)
            in_time = self._goal.deadline is None or sample.seconds + restart + left * each <= self._goal.deadline
            if there.config != sample.config and gains and in_time and (best is None or spent < best[0]):
                best = (spent, there)
        if best is None:
            return None
        self._forecast = best[1]
        return Move(best[1].config, f"{surprise}, and {best[1].epoch_seconds.mid:.3g} s can be had")

    def _forecasts(self) -> list[tuple[Forecast, float]]:
        """Return what each layout that the cluster holds would take, and what it costs a second."""
        settings = self._settings
        configs = settings.space.configs()
        same = configs.take(configs.valid & (configs.global_batch == self._launch.config.global_batch))
        if not len(same):
            return []
        goal = replace(settings.goal, epochs=self._launch.epochs, target=None)
        predictors = Predictors(seed=self._launch.seed)
        known = self._evidence()
        forecast = known.forecaster(settings.job, settings.cluster, predictors, with_accuracy=False)
        found = assess(forecast(same, self._launch.epochs), goal, settings.cluster, settings.job.sign)
        held = np.flatnonzero(np.isfinite(found.rate))
        return [(found.forecast(int(row)), float(found.rate[row])) for row in held]


def _outside(value: float, quantity: Quantity) -> bool:
    return not quantity.low <= value <= quantity.high


def _range(quantity: Quantity, part: float) -> str:
    return f"{quantity.low * part:.3g}..{quantity.high * part:.3g}"
