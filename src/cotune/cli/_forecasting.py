"""From the store to forecasts, for the verbs that predict and plan."""

from __future__ import annotations

from collections.abc import Sequence

from cotune.config import Settings
from cotune.errors import NotFound
from cotune.plan.planner import Forecaster
from cotune.store import Store
from cotune.types import Sample


def known_samples(settings: Settings, kept: Store) -> list[Sample]:
    """Return the samples of the job that say something about speed, or raise `NotFound`."""
    samples = list(kept.samples(settings.job))
    if any(sample.epoch_seconds is not None for sample in samples):
        return samples
    others = kept.others(settings.job)
    changed = f" ({others} samples are of an earlier form of this job: its command, data or metric changed)"
    raise NotFound(
        f"no samples of job {settings.job.name!r}{changed if others else ''}; measure it first: cotune profile"
    )


def needs_curves(settings: Settings) -> bool:
    """Return whether the goal asks for an accuracy; a fixed recipe is the user's and needs no model of it."""
    fixed = settings.space.global_batch is not None
    return not fixed and (settings.goal.target is not None or settings.goal.prefer == "accurate")


def make_forecaster(
    settings: Settings, samples: Sequence[Sample], predictor: str, accuracy: str, seed: int
) -> Forecaster:
    """Return the waist: a function from configs to forecasts."""
    from cotune.predict import forecaster

    wanted = accuracy if needs_curves(settings) else None
    return forecaster(settings.job, samples, settings.cluster, predictor=predictor, accuracy=wanted, seed=seed)
