"""Training that measures itself: which config to begin with and to go on with, without a profile.

    a handful of 30-step probes ─▶ begin ─▶ evaluation ─▶ forecast renewed ─▶ stay, or move and go on
                                                ▲                                    │
                                                └────────────────────────────────────┘

What is timed first is chosen by `timing.py`, what each config promises is told by `run_prospects.py`. Pure: the same
samples give the same answer, for a replayed run and for a live one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from cotune import progress
from cotune.plan.moving import Prospect
from cotune.predict.samples import timed as timed_samples
from cotune.predict.way import Leg
from cotune.probe.run_prospects import RunProspects
from cotune.types import Config, Floats, Sample

_WORTH = 0.02  # of P(met), that is worth a word


@dataclass(frozen=True)
class Choice:
    """The config to go on with, why, and the odds of the whole run."""

    config: Config
    odds: float  # of being in time, with moves to come
    stays: float  # and with this config alone
    seconds: float  # that the rest usually takes
    reason: str
    remedy: str  # what would help, where the odds are too low


@dataclass(frozen=True)
class SelfMeasuring(RunProspects):
    """What decides for a run that measures itself, and says why."""

    told_odds: Callable[[Config], float | None] = lambda _: None  # as a plan tells them, where it can

    def first_look(self, config: Config, samples: Sequence[Sample]) -> float:
        """Return the epochs after which a start tells its pace: thirty steps where none of this config did before."""
        known = any(sample.config == config for sample in timed_samples((*self.known, *samples)))
        return np.inf if known else self.probe_epochs(config) or np.inf

    def choose(self, samples: Sequence[Sample], legs: Sequence[Leg], spent: float, now: Config | None) -> Choice:
        """Return what to go on with after so many seconds: what is run `now`, unless another promises enough more."""
        pace, prospect = self.prospect(samples, legs, spent, now)
        here = None if now is None else self.row(now)
        best = int(np.argmin(prospect.score))
        if here is not None:
            # A move keeps the odds without another move to come, or runs go to and fro.
            sure = prospect.stays >= min(self.goal.confidence, float(prospect.stays[here]))
            best = int(np.argmin(np.where(sure, prospect.score, np.inf)))
            margin = self.constants.moving.margin * max(len(legs), 1)  # each move so far asks for as much again
            if prospect.score[best] > (1 - margin) * prospect.score[here]:
                best = here
        choice = self._choice(samples, pace, prospect, best, here, trained=0.0 if now is None else spent)
        return replace(choice, odds=choice.odds * self.returns(legs))

    def untimed(self, config: Config) -> Choice:
        """Return what is thought of a config to begin with, before anything is timed."""
        return self._choice((), *self.prospect((), (), 0.0, config), self.row(config), None)

    def _choice(
        self,
        samples: Sequence[Sample],
        pace: Floats,
        prospect: Prospect,
        best: int,
        here: int | None,
        *,
        trained: float = 0.0,  # seconds
    ) -> Choice:
        seconds = float(prospect.cost[best] / self.rate[best])
        most = self._surest(samples, trained / (trained + seconds) if trained else 0.0)
        odds = self._odds(prospect, best, here, most)
        return Choice(
            config=self.configs[best],
            odds=odds,
            stays=float(prospect.stays[best]),
            seconds=seconds,
            reason=self._reason(samples, pace, prospect, best, here, odds=odds, most=most),
            remedy=self._remedy(prospect, best),
        )

    def _odds(self, prospect: Prospect, row: int, here: int | None, most: float) -> float:
        """Return the odds that are told of a config: before a run, what a plan tells of it where it can.

        Who asks is thought to ask for what can be had; curves that never get there know better.
        """
        if here is None and (told := self.told_odds(self.configs[row])) is not None:
            return told
        if here is None and self._assessed is not None:
            most = min(most, float(self._assessed.probability[row]))
        return min(float(prospect.odds[row]), most)

    def _surest(self, samples: Sequence[Sample], walked: float) -> float:
        """Return the odds that are told at most when so much of the way is walked.

        They are lower while nothing is timed, and at a fixed rate: there the lower, the more of the way is left.
        """
        most = self.constants.way.surest
        if self._assessed is None:
            most -= (most - self.prior.surest) * (1 - walked)
        return most if timed_samples((*self.known, *samples)) else min(most, self.constants.timing.untimed)

    def _remedy(self, prospect: Prospect, best: int) -> str:
        """Return what would help a run that is rather late: another config that may be had, or what was asked."""
        surest = int(np.argmax(prospect.odds))
        if prospect.odds[surest] > prospect.odds[best] + _WORTH:
            return f"{self.configs[surest]} would make it {prospect.odds[surest]:.2f}"
        units = self.configs.units
        more = "more workers than the search allows, " if units.max() == units[best] > units.min() else ""
        return f"{more}a later deadline or an easier target would help"

    def _reason(
        self,
        samples: Sequence[Sample],
        pace: Floats,
        prospect: Prospect,
        best: int,
        here: int | None,
        *,
        odds: float,
        most: float,
    ) -> str:
        told = f"P(met) {odds:.2f}"
        if here is None and not timed_samples((*self.known, *samples)):
            return f"thirty steps may take more than {self.constants.timing.spare:.0%} of the deadline, {told}"
        if here is None:
            each = progress.pace(self.job, self.configs[best], float(pace[best]))
            return f"{each:.3g} s per {progress.each(self.job)}, {told}"
        if here == best:
            return told
        saved = 1 - prospect.cost[best] / prospect.cost[here]
        quicker = 1 - pace[best] / pace[here]
        what = f"{saved:.0%} cheaper" if saved > 0 else f"{quicker:.0%} less time" if quicker > 0 else "fewer epochs"
        return f"{what}, {told} instead of {min(prospect.odds[here], most):.2f}"
