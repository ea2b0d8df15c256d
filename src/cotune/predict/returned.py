"""What a predictor returns for the very configs it was fitted to must be numbers: else it is at fault, no config is."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cotune.errors import UsageError
from cotune.predict import AccuracyModel, SecondsModel
from cotune.predict.samples import curves, timed, timings
from cotune.space import Configs
from cotune.types import Floats, Job, Mask, Sample


def require_seconds(name: str, model: SecondsModel, samples: Sequence[Sample]) -> None:
    """Refuse a predictor by whose model a measured config takes no time, or none that is a number."""
    measured = timings(timed(samples))
    with np.errstate(all="ignore"):
        found = np.asarray(model.predict(measured.configs), dtype=np.float64)
    _require(name, found, found > 0, measured.configs, "positive seconds")


def require_accuracy(name: str, model: AccuracyModel, job: Job, samples: Sequence[Sample]) -> None:
    """Refuse a predictor by whose model a trained config comes to no number."""
    trained = [sample for sample in samples if curves(job, [sample], least_points=0)]
    configs = Configs.of([sample.config for sample in trained])
    with np.errstate(all="ignore"):
        found = np.asarray(model.predict(configs, np.ones(1)), dtype=np.float64).reshape(configs.length, -1)[:, -1]
    _require(name, found, np.isfinite(found), configs, "a number")


def _require(name: str, found: Floats, good: Mask, configs: Configs, expected: str) -> None:
    wrong = np.flatnonzero(~(good & np.isfinite(found)))
    if len(wrong):
        where = configs[int(wrong[0])]
        raise UsageError(f"predictor {name!r} returned {found[wrong[0]]:g} for {where}, where it should be {expected}")
