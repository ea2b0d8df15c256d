"""What each config promises a run that measures itself, by what was timed and trained so far.

Seconds come from the law that all forecasts of time use, fitted to the probes and to the run itself; epochs from
`predict.way`, or from the job's own curves where it was seen before; what both are worth from `plan.moving`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from cotune.plan.assess import Assessment, assess
from cotune.plan.moving import Prospect, prospects
from cotune.plan.rates import rates
from cotune.predict.ends import turn
from cotune.predict.learn import forecaster
from cotune.predict.metric_bounds import out_of_reach
from cotune.predict.resolution import rhythm_of
from cotune.predict.run_odds import RunBelief
from cotune.predict.samples import LearningCurve
from cotune.predict.samples import timed as timed_samples
from cotune.predict.way import Leg, Way, WayPrior, renewed, usual_ways
from cotune.probe.self_measuring_constants import SELF_MEASURING, SelfMeasuringConstants
from cotune.recording import PROBE_STEPS
from cotune.recording.moving import RESTART_EPOCHS
from cotune.space import Configs, Space
from cotune.types import Cluster, Config, Floats, Goal, Ints, Job, Sample

_PACES = ((-1.3, 0.3), (0.0, 0.4), (1.3, 0.3))  # deviations of what was not timed, with their weights
_RETURNS = 0.1  # share of runs that have turned for long and still go on as expected
_PATIENCE = 2.0  # times the share of a run since its best, by which fewer do
_LOOKED_BACK = 8  # evaluations since which a run may have turned
_WITNESSES = 24  # hypotheses that say which configs are worth a look


@dataclass(frozen=True)
class RunProspects:
    """What is known of a job and what is asked of it; `known` are its samples of an earlier time."""

    job: Job
    goal: Goal
    space: Space
    cluster: Cluster
    seed: int = 0
    known: tuple[Sample, ...] = ()
    restart: float | None = None  # seconds of a move; None for a tenth of an epoch
    constants: SelfMeasuringConstants = SELF_MEASURING

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
            step=self._steps(samples)[rows],
            sunk=sum(leg.epochs * float(pace[leg.column] * self.rate[leg.column]) for leg in legs),
            constants=self.constants.moving,
        )
        if out_of_reach(self.job, self.goal.target, (*self.known, *samples)):
            found = replace(found, odds=np.zeros(len(rows)), stays=np.zeros(len(rows)))
        return pace, found.spread_out(rows, len(pace))

    def belief(self, samples: Sequence[Sample], legs: Sequence[Leg], now: Config) -> RunBelief:
        """Return when a run ends that stays with its config: at an evaluation."""
        believed = self._believed(legs, samples)
        done, told = sum(leg.epochs for leg in legs), [0.0, *(epoch for epoch, _ in legs[-1].evaluations)]
        gap = float(np.median(np.diff(told))) if len(told) > 1 else float(self._steps(samples)[self.row(now)])
        left = np.maximum(np.ceil(believed.left[:, self.row(now)] / gap), 1.0) * gap
        share = self.returns(legs) * believed.weights
        return RunBelief(np.r_[done + left, np.inf], np.r_[share, 1 - share.sum()], done)

    def _steps(self, samples: Sequence[Sample]) -> Floats:
        """Return the epochs between two evaluations of each config."""
        return rhythm_of(self.job, (*self.known, *samples)).steps(self.configs.global_batch, np.inf)

    def returns(self, legs: Sequence[Leg]) -> float:
        """Return the chance that a run arrives as others do: low where it has turned."""
        begun = np.cumsum([0.0, *(leg.epochs for leg in legs)])
        curve = [(at + epoch, -gap) for at, leg in zip(begun, legs, strict=False) for epoch, gap in leg.evaluations]
        told = np.array([point for point in curve if point[0] > 0 and np.isfinite(point[1])])
        top = int(told[:, 1].argmax()) if len(told) else 0
        looked = range(max(top + 1, len(told) - _LOOKED_BACK), len(told) + 1) if len(told) else ()
        if not any(turn(LearningCurve(0, 0, *told[:count].T)) is not None for count in looked):
            return 1.0
        return max(_RETURNS, 1 - _PATIENCE * (1 - float(told[top, 0] / told[-1, 0])))

    def _pace(self, samples: Sequence[Sample]) -> tuple[Floats, Floats]:
        """Return the seconds per epoch of every config, evaluations and checkpoints included, and their spread."""
        timed = tuple(
            Sample(
                sample.config,
                epoch_seconds=sample.epoch_seconds and float(f"{sample.epoch_seconds:.9g}"),  # learnt once each
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
            learnt = forecaster(self.job, timed, self.cluster, accuracy=None, seed=self.seed)
            outlook = learnt(self.configs, 1)
            self._paces[timed] = outlook.epoch_seconds + outlook.overhead, outlook.spread
        return self._paces[timed]

    @cached_property
    def _paces(self) -> dict[tuple[Sample, ...], tuple[Floats, Floats]]:
        return {}

    def _believed(self, legs: Sequence[Leg], samples: Sequence[Sample]) -> Way:
        found = renewed(self._outset, legs, self.prior)
        return found if self.goal.deadline is None else found.weighted(self._plausible(found.able, samples))

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
        learnt = forecaster(self.job, self.known, self.cluster, seed=self.seed)
        return assess(learnt(self.configs, self.goal.cap), self.goal, self.cluster, self.job.sign)

    def _plausible(self, whole: Floats, samples: Sequence[Sample]) -> Floats:
        """Return how well ways fit the deadline: who asks for one thinks that it binds, and can be kept."""
        assert self.goal.deadline is not None
        seconds = whole * self._pace(samples)[0]
        quickest = seconds.min(axis=1)
        cheapest = np.take_along_axis(seconds, (seconds * self.rate).argmin(axis=1)[:, None], axis=1)[:, 0]
        tight, loose = self.constants.timing.tight * quickest, self.constants.timing.loose * cheapest
        early = np.minimum(1.0, self.goal.deadline / tight) ** self.constants.timing.implausible
        return np.asarray(np.maximum(early * np.minimum(1.0, loose / self.goal.deadline), 1e-9))

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
