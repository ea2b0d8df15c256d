"""Optuna's samplers, quiet and seeded."""

from __future__ import annotations

from typing import Any, Literal

from cotune.errors import missing_extra

Sampler = Literal["tpe", "gp"]


def study(sampler: Sampler, seed: int, **settings: int) -> Any:
    """Return an Optuna study that minimises, in memory; settings are its sampler's."""
    try:
        import optuna
    except ImportError:
        raise missing_extra("Optuna", "optuna") from None
    import warnings

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.filterwarnings("ignore", category=optuna.exceptions.ExperimentalWarning)
    makers = {"tpe": optuna.samplers.TPESampler, "gp": optuna.samplers.GPSampler}
    return optuna.create_study(sampler=makers[sampler](seed=seed, **settings), direction="minimize")
