"""What is known of a job's parameters before it has shown anything, learnt from recorded tasks.

    theta ~ (1 - UNUSUAL) N(W x, S) + UNUSUAL N(m, D)        x = `Observations.features`

W and S are fitted. S is a full matrix, so that what a smooth curve says of noise also says how much seeds differ. The
second part is a wide guess for jobs unlike the recorded ones, such as those with a long plateau before they learn.

The column of `critical` in prior.json is no result of the fit: it is a regression of the critical batches of 25 tasks,
each found from all of its runs, on the logarithm of their examples and on whether their rate is fixed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path

import numpy as np

from cotune.predict.learning.family import NAMES
from cotune.types import Floats

FEATURES = ("one", "steps", "evaluations", "fixed_rate", "falls", "scheduled", "schedule_unknown")
UNUSUAL = 0.2  # share of jobs unlike the recorded ones: set by hand, more of it widens forecasts from few evaluations
_JITTER = 1e-9  # added to the diagonal of covariances before they are factored
# Means and deviations before anything was fitted: what the fit shrinks to, as ten families of tasks would.
_FIRST: Mapping[str, tuple[float, float]] = {
    **{"rise": (0.0, 0.5), "tau": (0.7, 1.4), "k": (0.0, 0.4), "p": (0.0, 0.7), "critical": (-1.0, 1.5)},
    **{"small": (-3.5, 1.5), "turn": (-5.0, 2.0), "turn_at": (2.0, 1.0), "anneal": (-1.6, 0.6), "fade": (-1.0, 1.2)},
    **{"batch_pace": (-2.0, 0.8), "batch_level": (-3.2, 0.8), "run_pace": (-2.8, 1.0), "run_level": (0.0, 0.8)},
    **{"run_wander": (-3.0, 0.9), "law_pace": (-1.6, 0.8), "law_level": (-2.7, 0.8), "length_level": (0.7, 0.8)},
    **{"noise": (-4.2, 0.9), "jitter": (-3.0, 0.8), "calm": (0.3, 0.6)},
}


@dataclass(frozen=True, eq=False)
class CurvePrior:
    """Means of the parameters for each feature, and their covariance."""

    weights: Floats
    """Rows as FEATURES, columns as NAMES."""

    covariance: Floats

    @classmethod
    def first(cls) -> CurvePrior:
        """Return the one that was never fitted."""
        mean, deviation = np.array([_FIRST[name] for name in NAMES]).T
        weights = np.zeros((len(FEATURES), len(NAMES)))
        weights[0] = mean
        return cls(weights, np.diag(deviation**2))

    @classmethod
    def of(cls, document: str) -> CurvePrior:
        """Return the one that a JSON document holds."""
        found = json.loads(document)
        if found.pop("names") != list(NAMES):
            raise ValueError("it was fitted for another family of curves")
        return cls(**{name: np.array(value) for name, value in found.items()})

    def document(self) -> str:
        """Return it as a JSON document, to four decimals."""
        parts = {name: np.round(value, 4).tolist() for name, value in vars(self).items()}
        return json.dumps({"names": NAMES} | parts)

    def around(self, features: Floats) -> LogNormals:
        """Return the prior of a job."""
        guess = CurvePrior.first()
        means = (features @ self.weights, features @ guess.weights)
        return LogNormals((1 - UNUSUAL, UNUSUAL), means, (self.covariance, guess.covariance))


@cache
def shipped() -> CurvePrior:
    """Return the prior of all recorded tasks."""
    return CurvePrior.of((files(__package__) / "prior.json").read_text())


def without(folder: Path | None, source: str) -> CurvePrior:
    """Return the prior that was fitted without a source, from a folder of such; the shipped one where there is none."""
    path = None if folder is None else folder / f"{source}.json"
    return CurvePrior.of(path.read_text()) if path is not None and path.exists() else shipped()


class LogNormals:
    """A mixture of normal distributions of logarithms of parameters."""

    def __init__(self, shares: tuple[float, ...], means: tuple[Floats, ...], covariances: tuple[Floats, ...]) -> None:
        self.shares, self.means, self.covariances = shares, means, covariances
        self.factors = [np.linalg.cholesky(one + _JITTER * np.eye(len(one))) for one in covariances]

    def draw(self, count: int, rng: np.random.Generator) -> Floats:
        """Return draws (rows)."""
        counts = rng.multinomial(count, self.shares)
        parts = zip(counts, self.means, self.factors, strict=True)
        return np.vstack([mean + rng.standard_normal((n, len(mean))) @ factor.T for n, mean, factor in parts])

    def log_density(self, theta: Floats) -> Floats:
        """Return ln p of vectors (rows), up to a constant that all such mixtures share."""
        return np.asarray(np.logaddexp.reduce(self.log_parts(theta), axis=0))

    def log_parts(self, theta: Floats) -> list[Floats]:
        """Return the same of each part."""
        logs = []
        for share, mean, factor in zip(self.shares, self.means, self.factors, strict=True):
            white = np.linalg.solve(factor, (theta - mean).T)
            logs.append(np.log(share) - 0.5 * (white**2).sum(axis=0) - np.log(np.diag(factor)).sum())
        return logs
