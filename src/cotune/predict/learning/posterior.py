"""Draws of whole future curves, given all that was seen.

A draw of a run to come is a draw of the Gaussian given what was seen (Matheron's rule: draw the world beforehand, then
correct it by what it missed), put back into the curved formula. Runs to be asked share their random numbers.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cotune.predict.learning.family import EFFECTS
from cotune.predict.learning.likelihood import FREE
from cotune.predict.learning.observations import JobFacts, Observations, Run, Sites
from cotune.predict.learning.prior import CurvePrior, shipped
from cotune.predict.learning.sampler import draws_of
from cotune.types import Floats

DRAWS = 400
_CORRECTIONS = 3  # of draws in the curved formula, after that of the straight one
_TAIL = 4.0  # degrees of freedom of the pace of a run not yet seen
_NUGGET = 1e-8
_MOST_PLACES = 40  # of a run at which random effects are drawn; they are interpolated between


class Posterior:
    """What is believed of a job's learning curves."""

    def __init__(
        self,
        runs: Sequence[Run],
        facts: JobFacts,
        prior: CurvePrior | None = None,
        *,
        draws: int = DRAWS,
        seed: int = 0,
    ) -> None:
        self.seed = seed
        self.seen = Observations(runs, facts)
        self.found = draws_of(self.seen, prior or shipped(), draws, np.random.default_rng(seed))

    def paths(
        self, batch: float, epochs: Floats, *, length: float | None = None, run: int | None = None, noise: bool = True
    ) -> Floats:
        """Return what a run shows after some epochs (columns), in every draw (rows): single evaluations.

        A fresh run of a batch, told so many epochs (None: up to the last that is asked), or one that was seen, by its
        number. Without noise it is what evaluations scatter about.
        """
        epochs = np.asarray(epochs, dtype=np.float64)
        few = epochs
        if len(epochs) > _MOST_PLACES:
            few = np.geomspace(epochs[0], epochs[-1], _MOST_PLACES)
        number = len(self.seen.runs) if run is None else run
        told = length or epochs[-1]
        asked = Sites.of(number, batch, epochs, told)
        rng = np.random.default_rng(self.seed)  # all that is asked shares its random numbers
        top, moved = self._effects(Sites.of(number, batch, few, told), rng, fresh=run is None)
        known = len(self.seen.value)
        moved = {what: _between(values[:, known:], np.log(few), asked.ln_epochs) for what, values in moved.items()}
        values, variance = self._curved(asked, top, moved)
        if noise:
            values += np.sqrt(variance) * rng.standard_normal(values.shape)
        facts = self.seen.facts
        if facts.rung:
            values = np.floor(np.maximum.accumulate(values, axis=1) / facts.rung) * facts.rung
        return np.asarray(np.minimum(values, facts.ceiling))

    def _effects(self, asked: Sites, rng: np.random.Generator, *, fresh: bool) -> tuple[Floats, dict[str, Floats]]:
        """Return A in every draw, and by how much random effects move each thing at what was seen and what is asked.

        The correction is that of the curve made straight. Put back into the curved formula it misses what was seen by
        a little, and is corrected again.
        """
        seen, given = self.seen, self.found.given
        count, known = given.mean.shape
        sites = seen.sites.joined(asked)
        correlations = sites.kernels(sites)
        factors = {name: np.linalg.cholesky(one + _NUGGET * np.eye(len(one))) for name, one in correlations.items()}
        scale = given.curves.scale_of
        worlds = {}
        for name, kernel, _ in EFFECTS:
            worlds[name] = scale[name] * (rng.standard_normal((count, len(sites.run))) @ factors[kernel].T)
        if fresh:
            worlds["run_pace"][:, known:] *= np.sqrt((_TAIL - 2) / rng.chisquare(_TAIL, (count, 1)))
        free = FREE * seen.scale * rng.standard_normal((count, 1))
        noise = np.sqrt(given.noise) * rng.standard_normal((count, known))
        missed = seen.value - seen.value.max() - free - noise - given.mean
        for name, _, what in EFFECTS:
            missed -= given.loads[what] * worlds[name][:, :known]

        def corrected(by: Floats) -> tuple[Floats, dict[str, Floats]]:
            top = seen.value.max() + free + (FREE * seen.scale) ** 2 * by.sum(axis=1, keepdims=True)
            moved = {what: np.zeros((count, len(sites.run))) for _, _, what in EFFECTS}
            for name, kernel, what in EFFECTS:
                moved[what] += worlds[name] + scale[name] ** 2 * (
                    (given.loads[what] * by) @ correlations[kernel][:known]
                )
            return top, moved

        before, least = np.zeros((count, known)), np.full((count, 1), np.inf)
        correction = np.linalg.solve(given.covariance, missed[:, :, None])[:, :, 0]
        for _ in range(_CORRECTIONS):
            top, moved = corrected(correction)
            shown, _ = self._curved(seen.sites, top, {what: values[:, :known] for what, values in moved.items()})
            missed = seen.value - shown - noise - given.noise * correction
            error = (missed**2).sum(axis=1, keepdims=True)
            before = np.where(
                error < least, correction, before
            )  # draws that a correction made worse keep the one before
            missed, least = np.where(error < least, missed, 0.0), np.minimum(error, least)
            correction = before + np.linalg.solve(given.covariance, missed[:, :, None])[:, :, 0]
        return corrected(correction)

    def _curved(self, sites: Sites, top: Floats, moved: dict[str, Floats]) -> tuple[Floats, Floats]:
        """Return the formula's values at the pace and with the levels that were drawn, and the variance of noise."""
        curves, shape = self.found.given.curves, self.found.shape
        ln_progress, rates = (table[shape] for table in sites.travelled(self.seen.facts.schedule))
        pace = moved["pace"] + curves.calm(rates) * moved["run_pace"]
        progress = curves.progress(sites.ln_batch, ln_progress, pace)
        slope = curves.slope(progress)
        values = top + curves.values(progress, rates)
        for what, load in curves.loads(slope, rates).items():
            if "pace" not in what:
                values += load * moved[what]
        return values, curves.noise(slope, rates)


def first_met(paths: Floats, epochs: Floats, target: float) -> Floats:
    """Return the epoch at which each path first meets a target; infinite where it never does."""
    met = paths >= target
    return np.where(met.any(axis=1), np.asarray(epochs)[met.argmax(axis=1)], np.inf)


def _between(values: Floats, known: Floats, wanted: Floats) -> Floats:
    """Return values (columns) at some places, linear between those that are known."""
    if len(known) == len(wanted):
        return values
    right = np.clip(np.searchsorted(known, wanted), 1, len(known) - 1)
    share = np.clip((wanted - known[right - 1]) / (known[right] - known[right - 1]), 0.0, 1.0)
    return np.asarray((1 - share) * values[:, right - 1] + share * values[:, right])
