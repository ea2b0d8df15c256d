"""Draws of whole future curves, given all that was seen.

A draw of a run to come is a draw of the Gaussian given what was seen (Matheron's rule: draw the world beforehand, then
correct it by what it missed), put back into the curved formula. Runs to be asked share their random numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from cotune.predict.learning.family import EFFECTS
from cotune.predict.learning.observations import JobFacts, Observations, Run, Sites
from cotune.predict.learning.prior import CurvePrior, shipped
from cotune.predict.learning.sampler import FREE, draws_of
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
        self,
        batch: float,
        epochs: Floats,
        *,
        length: float | Floats | None = None,
        run: int | None = None,
        noise: bool = True,
    ) -> Floats:
        """Return what a run shows after some epochs (columns), in every draw (rows): single evaluations.

        A fresh run of a batch, told so many epochs (None: up to the last that is asked), or one that was seen, by its
        number (of very many runs some are left out: those are as fresh ones). Where each epoch has a length of its own,
        each is the end of another run, and all share their random effects. Without noise it is what evaluations scatter
        about.
        """
        epochs = np.asarray(epochs, dtype=np.float64)
        told = np.full(epochs.shape, epochs[-1] if length is None else length)
        ends = length is not None and np.ndim(length) > 0
        few, few_told = epochs, told
        if len(epochs) > _MOST_PLACES:
            few = np.geomspace(epochs[0], epochs[-1], _MOST_PLACES)
            few_told = np.interp(few, epochs, told)
        fresh = run not in self.seen.places
        number = len(self.seen.runs) if run is None or fresh else self.seen.places.index(run)
        rng = np.random.default_rng(self.seed)  # all that is asked shares its random numbers
        moved = self._moved(Sites.of(number, batch, few, few_told), rng, fresh=fresh)
        moved = {what: _between(values, np.log(few), np.log(epochs)) for what, values in moved.items()}
        values, variance = self._curved(Sites.of(number, batch, epochs, told), self._shown[0], moved)
        if noise:
            luck = rng.standard_normal((len(values), 1 if ends else len(epochs)))
            values += np.sqrt(variance) * luck
        share, last = self.seen.collapsed(batch, None if fresh else number)
        fallen = (rng.random((len(values), 1)) < share) & (epochs > last)
        values = np.where(fallen, self.seen.value.min(), values)
        facts = self.seen.facts
        if facts.rung:
            values = np.maximum.accumulate(values, axis=1)
        return np.asarray(np.clip(values, facts.floor, facts.ceiling))

    @cached_property
    def _shown(self) -> tuple[Floats, dict[str, Floats], Floats]:
        """Return A in every draw, the normal numbers of each effect where something was seen, and their correction.

        The correction is that of the curve made straight. Put back into the curved formula it misses what was seen by
        a little, and is corrected again.
        """
        seen, given = self.seen, self.found.given
        count, known = given.mean.shape
        rng = np.random.default_rng(self.seed + 1)
        kernels, scale = seen.kernels, given.curves.scale_of
        normal = {name: rng.standard_normal((count, known)) for name, _, _ in EFFECTS}
        before = {what: np.zeros((count, known)) for _, _, what in EFFECTS}
        for name, kernel, what in EFFECTS:
            before[what] += scale[name] * (normal[name] @ _factor(kernels[kernel]).T)
        free = FREE * seen.scale * rng.standard_normal((count, 1))
        noise = np.sqrt(given.noise) * rng.standard_normal((count, known))
        missed = seen.value - seen.value.max() - free - noise - given.mean
        for what, values in before.items():
            missed -= given.loads[what] * values

        def top(by: Floats) -> Floats:
            return np.asarray(seen.value.max() + free + (FREE * seen.scale) ** 2 * by.sum(axis=1, keepdims=True))

        correction, least = np.zeros((count, known)), np.full((count, 1), np.inf)
        now = np.linalg.solve(given.covariance, missed[:, :, None])[:, :, 0]
        for _ in range(_CORRECTIONS):
            moved = {what: values.copy() for what, values in before.items()}
            for name, kernel, what in EFFECTS:
                moved[what] += scale[name] ** 2 * ((given.loads[what] * now) @ kernels[kernel])
            shown, _ = self._curved(seen.sites, top(now), moved)
            missed = seen.value - shown - noise - given.noise * now
            error = (missed**2).sum(axis=1, keepdims=True)
            correction = np.where(error < least, now, correction)  # draws that became worse keep the one before
            missed, least = np.where(error < least, missed, 0.0), np.minimum(error, least)
            now = correction + np.linalg.solve(given.covariance, missed[:, :, None])[:, :, 0]
        return top(now), normal, now

    def _moved(self, asked: Sites, rng: np.random.Generator, *, fresh: bool) -> dict[str, Floats]:
        """Return by how much random effects move each thing at what is asked, given what was seen."""
        given, (_, normal, correction) = self.found.given, self._shown
        count, known = given.mean.shape
        sites = self.seen.sites.joined(asked)
        kernels = asked.kernels(sites)
        scale = given.curves.scale_of
        moved = {what: np.zeros((count, len(asked.run))) for _, _, what in EFFECTS}
        tail = np.sqrt((_TAIL - 2) / rng.chisquare(_TAIL, (count, 1)))
        factors = {kernel: _conditional(self.seen.kernels[kernel], table) for kernel, table in kernels.items()}
        for name, kernel, what in EFFECTS:
            on_known, own = factors[kernel]
            world = normal[name] @ on_known.T + rng.standard_normal((count, len(asked.run))) @ own.T
            if fresh and name == "run_pace":
                world *= tail
            pull = (given.loads[what] * correction) @ kernels[kernel][:, :known].T
            moved[what] += scale[name] * world + scale[name] ** 2 * pull
        return moved

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


def _factor(correlations: Floats) -> Floats:
    return np.asarray(np.linalg.cholesky(correlations + _NUGGET * np.eye(len(correlations))))


def _conditional(known: Floats, table: Floats) -> tuple[Floats, Floats]:
    """Return what normal numbers of known places weigh at others, and the factor of what these vary beside them.

    The table has the correlations of the others (rows) with the known places and with one another.
    """
    count = len(known)
    on_known = np.asarray(np.linalg.solve(_factor(known), table[:, :count].T)).T
    return on_known, _factor(table[:, count:] - on_known @ on_known.T + _NUGGET * np.eye(len(table)))


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
