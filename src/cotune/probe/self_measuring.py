"""Training that measures itself: which config to begin with and to go on with, without a profile.

    a handful of 30-step probes ─▶ begin ─▶ evaluation ─▶ forecast renewed ─▶ stay, or move and go on
                                                ▲                                    │
                                                └────────────────────────────────────┘

What is timed first is chosen by `timing.py`. Pure: the same samples give the same answer, for a replayed run and for a
live one. Seconds come from the law that all
forecasts of time use, fitted to the probes and to the run itself; epochs from `predict.way`, or from the job's own
curves where it was seen before; what to do about both from `plan.moving`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from cotune import progress
from cotune.plan.assess import Assessment, assess
from cotune.plan.moving import Prospect, prospects
from cotune.plan.rates import rates
from cotune.predict import LAWS, forecaster
from cotune.predict.predictors.curve import out_of_reach
from cotune.predict.resolution import step_of
from cotune.predict.samples import timed as timed_samples
from cotune.predict.way import Leg, Way, WayPrior, renewed, usual_ways
from cotune.probe.self_measuring_constants import SELF_MEASURING, SelfMeasuringConstants
from cotune.recording import PROBE_STEPS
from cotune.recording.moving import RESTART_EPOCHS
from cotune.space import Configs, Space
from cotune.types import Cluster, Config, Floats, Goal, Ints, Job, Sample

_WORTH = 0.02  # of P(met), that is worth a word
_PACES = ((-1.3, 0.3), (0.0, 0.4), (1.3, 0.3))  # deviations of what was not timed, with their weights
_WITNESSES = 24  # hypotheses that say which configs are worth a look


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
class SelfMeasuring:
    """What decides for a run that measures itself; `known` are samples of the job of an earlier time."""

    job: Job
    goal: Goal
    space: Space
    cluster: Cluster
    seed: int = 0
    known: tuple[Sample, ...] = ()
    restart: float | None = None  # seconds of a move; None for a tenth of an epoch
    constants: SelfMeasuringConstants = SELF_MEASURING
    told_odds: Callable[[Config], float | None] = lambda _: None  # as a plan tells them, where it can

    @cached_property
    def configs(self) -> Configs:
        """Return what may be chosen."""
        every = self.space.configs()
        return every.take(every.valid & np.isfinite(rates(every, self.cluster)))

    @property
    def prior(self) -> WayPrior:
        """Return what other jobs say of epochs: those whose learning rate follows the batch as this job's does."""
        return self.constants.fixed_way if self.job.scaling == "fixed" else self.constants.way

    @cached_property
    def rate(self) -> Floats:
        """Return the cost of a second of each config."""
        return rates(self.configs, self.cluster)

    def row(self, config: Config) -> int:
        """Return the place of a config among those that may be chosen."""
        return int(np.flatnonzero(self.configs.same(config))[0])

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
        return self._choice(samples, pace, prospect, best, here, trained=0.0 if now is None else spent)

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
            remedy=self._remedy(pace, prospect, best),
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

        They are fewer for what nothing was timed of, and at a fixed rate, the more so the more of the way is left.
        """
        most = self.constants.way.surest
        if self._assessed is None:
            most -= (most - self.prior.surest) * (1 - walked)
        return most if timed_samples((*self.known, *samples)) else min(most, self.constants.timing.untimed)

    def _remedy(self, pace: Floats, prospect: Prospect, best: int) -> str:
        """Return what would help a run that is rather late: another config that may be had, or what was asked."""
        surest = int(np.argmax(prospect.odds))
        if prospect.odds[surest] > prospect.odds[best] + _WORTH:
            return f"{self.configs[surest]} would make it {prospect.odds[surest]:.2f}"
        quickest = int(np.argmin(pace))
        more = (
            "" if self.configs.units[quickest] > self.configs.units[best] else "more workers than the search allows, "
        )
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

    @property
    def at_once(self) -> bool:
        """Return whether a run may begin with what nobody has timed."""
        return self.goal.deadline is not None and np.isfinite(self.constants.timing.presumed)

    @cached_property
    def presumed(self) -> tuple[Floats, Floats]:
        """Return the pace of every config before anything is timed, and its spread.

        The deadline is thought right for as many workers as lie in the middle; time falls as they grow, and as the
        batch of each does.
        """
        assert self.goal.deadline is not None
        units, timing = self.configs.units.astype(np.float64), self.constants.timing
        each = self.goal.deadline / np.sqrt(timing.tight * timing.loose) / self.prior.usual_epochs(self.goal.cap)
        batch = np.log(self.configs.batch_size)
        idle = timing.half * np.exp(batch.mean() - batch)  # over the work of a step
        scale = np.sqrt(units.min() * units.max()) / units * (1 + idle) / (1 + timing.half)
        anywhere = np.log(units.max() / units.min()) / np.sqrt(12)  # as well at one end as at the other
        return each * scale, np.full(len(units), anywhere)

    def probe_epochs(self, config: Config) -> float:
        """Return the epochs that thirty steps of a config are."""
        return float(self.epochs_of_probes[self.row(config)])

    @cached_property
    def epochs_of_probes(self) -> Floats:
        """Return the epochs that thirty steps of each config are; none where the examples are not known."""
        return np.asarray(PROBE_STEPS * self.configs.global_batch / (self.job.examples or np.inf))

    def _pace(self, samples: Sequence[Sample]) -> tuple[Floats, Floats]:
        """Return the seconds per epoch of every config, evaluations and checkpoints included, and their spread."""
        timed = tuple(
            Sample(
                sample.config,
                epoch_seconds=sample.epoch_seconds,
                terms=sample.terms,
                failure=sample.failure,
                peak_bytes=sample.peak_bytes,
                limit_bytes=sample.limit_bytes,
            )
            for sample in (*self.known, *samples)
            if sample.epoch_seconds is not None or sample.failed
        )
        if self.at_once and not timed_samples(timed):
            return self.presumed
        if timed not in self._paces:
            learnt = forecaster(self.job, timed, self.cluster, predictor=LAWS, accuracy=None, seed=self.seed)
            outlook = learnt(self.configs, 1)
            self._paces[timed] = outlook.epoch_seconds + outlook.overhead, outlook.spread
        return self._paces[timed]

    @cached_property
    def _paces(self) -> dict[tuple[Sample, ...], tuple[Floats, Floats]]:
        return {}

    @cached_property
    def _outset(self) -> Way:
        """Return what is believed of the way before the run: by the job's own curves, or by those of other jobs."""
        count = len(self.configs)
        if self.goal.target is None or self.goal.epochs is not None:
            return Way(np.full((1, count), float(self.goal.cap)), np.ones(1), np.zeros(1), self.goal.cap)
        batches = self.configs.global_batch.astype(np.float64)
        examples = self.job.examples and self.job.examples * self.job.counting.parts
        usual = usual_ways(self.goal.cap, batches, self.prior, examples)
        found = self._assessed
        if found is None:
            return usual
        assert found.outlook.learning is not None
        whole = found.needed[found.outlook.learning.recipe].T - self.constants.moving.whole  # these are whole already
        own = Way(whole, np.full(len(whole), 1 / len(whole)), np.zeros(len(whole)), self.goal.cap)
        return own.beside(usual, self.constants.timing.others)

    @cached_property
    def _assessed(self) -> Assessment | None:
        """Return the configs judged by the job's own curves, where there are any and a target to reach."""
        if self.goal.target is None or self.goal.epochs is not None or not any(one.curve for one in self.known):
            return None
        if not timed_samples(self.known):
            return None
        learnt = forecaster(self.job, self.known, self.cluster, predictor=LAWS, seed=self.seed)
        return assess(learnt(self.configs, self.goal.cap), self.goal, self.cluster, self.job.sign)

    def _believed(self, legs: Sequence[Leg], samples: Sequence[Sample]) -> Way:
        found = renewed(self._outset, legs, self.prior)
        return found if self.goal.deadline is None else found.weighted(self._plausible(found.able, samples))

    def _plausible(self, whole: Floats, samples: Sequence[Sample]) -> Floats:
        """Return how well ways fit the deadline: who asks for one thinks that it binds, and can be kept."""
        assert self.goal.deadline is not None
        seconds = whole * self._pace(samples)[0]
        quickest = seconds.min(axis=1)
        cheapest = np.take_along_axis(seconds, (seconds * self.rate).argmin(axis=1)[:, None], axis=1)[:, 0]
        tight, loose = self.constants.timing.tight * quickest, self.constants.timing.loose * cheapest
        early = np.minimum(1.0, self.goal.deadline / tight) ** self.constants.timing.implausible
        return np.asarray(np.maximum(early * np.minimum(1.0, loose / self.goal.deadline), 1e-9))

    def prospect(
        self, samples: Sequence[Sample], legs: Sequence[Leg], spent: float, now: Config | None
    ) -> tuple[Floats, Prospect]:
        """Return the pace of every config, and what it promises."""
        believed, (pace, spread) = self._believed(legs, samples), self._pace(samples)
        begin = np.zeros(len(pace))
        if now is not None:
            moving = RESTART_EPOCHS * pace if self.restart is None else np.full(len(pace), self.restart)
            begin = np.where(self.configs.same(now), 0.0, moving)
        rows = self._worthy(believed, pace, now)
        left = believed.left[:, rows]
        paces = [np.tile(pace[rows] * np.exp(off * spread[rows]), (len(left), 1)) for off, _ in _PACES]
        found = prospects(
            np.concatenate([weight * believed.weights for _, weight in _PACES]),
            np.tile(left, (len(_PACES), 1)),
            np.vstack(paces),
            self.rate[rows],
            time_left=np.inf if self.goal.deadline is None else self.goal.deadline - spent,
            begin=begin[rows],
            step=step_of(self.job, (*self.known, *samples)),
            sunk=sum(leg.epochs * float(pace[leg.column] * self.rate[leg.column]) for leg in legs),
            constants=self.constants.moving,
        )
        if out_of_reach(self.job, self.goal.target, (*self.known, *samples)):
            found = replace(found, odds=np.zeros(len(rows)), stays=np.zeros(len(rows)))
        return pace, found.spread_out(rows, len(pace))

    def _worthy(self, believed: Way, pace: Floats, now: Config | None) -> Ints:
        """Return the configs that some way makes the cheapest of those as quick, and the one that is run now."""
        some = believed.able[np.argsort(-believed.weights, kind="stable")[:_WITNESSES]] * pace
        order = np.argsort(some, axis=1, kind="stable")
        cost = np.take_along_axis(some * self.rate, order, axis=1)
        before = np.minimum.accumulate(np.hstack([np.full((len(some), 1), np.inf), cost[:, :-1]]), axis=1)
        kept = set(order[cost < before].tolist())
        if now is not None:
            kept.add(self.row(now))
        return np.array(sorted(kept) or range(len(pace)), dtype=np.int64)
