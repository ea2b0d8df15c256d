"""Active profiling: measure what decides, and stop when no probe is worth its cost.

    1  a few cheap probes of seconds per epoch, far from each other; each value of a named axis with a small batch
       and a large one, since what differs in kind is not to be had from its neighbours
    2  one learning curve, of a recipe whose epochs are cheap and which may well be the plan's (`first_curve.py`)
    3  forecast and plan; for every config x that is not measured yet

           gain(x)  = E[ (C - cost(x))+ ; x meets the goal ]      C: cost of the plan
           price(x) = what its probe costs x P(x does not win)    a winner's probe is continued

       measure the x of the largest  gain - WEIGHT price  and go on with 3
       where nothing meets the goal, first the recipe at which the job's learning rate is known: its user's own
    4  when none is worth it: measure the plan itself, and go on with 3, or stop when it is. At a fixed learning rate
       3 expects of larger batches what it would of a scaled rate, and 4 what the plan will

To measure a config is to run thirty steps of it where its seconds are not known, then to
train its recipe on the layout whose epochs cost the least; with few starts left the curve
alone has to do. Expectations are over the draws of the forecast. A learning curve ends at the
target, or where its recipe can no longer win: when even its quickest layout would miss the
deadline, or its cheapest cost more than the plan. Where the learning rate falls to the end of each run, curves are
short runs that end so: the first of a fifth of the most epochs, later ones as long as the plan is.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from cotune.plan.assess import Assessment, assess
from cotune.plan.draws import runs
from cotune.plan.rates import rates
from cotune.predict.learn import forecaster
from cotune.probe.design import MOST_TIME_EPOCHS, Chooser, Design, Probe, first_length
from cotune.probe.first_curve import MARGIN, least_wasted
from cotune.progress import whole_units
from cotune.space import Configs, Space
from cotune.types import RECORDED, Cluster, Config, Floats, Goal, Ints, Job, Mask, Sample

FIRST_TIMES = 5
SHORT = 0.25  # epochs that a first probe of seconds should not exceed, where there is a choice
WEIGHT = 0.6  # of the price of a probe, since a plan is used more than once; chosen on all goals of Pollux and MLPerf
LEAST_GAIN = 0.05  # of the plan's cost, below which nothing more is measured
MISSING = 4.0  # what a goal that is missed costs, in runs of the plan: of 2 and 4, as 4 refuses fewer of our own
NEAR_LENGTH = 2  # times the length of an annealed run: ends of longer ones are not told by it
SPARING = 6  # starts left from which a curve is not preceded by a probe of seconds
LAST_STARTS = 2  # are kept for the plan itself
START_SECONDS = 1.0  # of a probe, at least
SAME_RECIPE = 0.05  # global batches as near as this (in logarithms) share their learning curve
_OWN = "the job's own recipe, as nothing meets the goal yet"


def design_for(job: Job, goal: Goal, space: Space, cluster: Cluster) -> Chooser:
    """Return what chooses the probes for a goal: those that decide, where there is something to decide."""
    if goal.epochs is not None or space.global_batch is not None or goal.target is None:
        return Design(job, goal, space, cluster)
    return ActiveDesign(job, goal, space, cluster)


class _Known:
    """Which configs have measured seconds, and which a measured recipe; the epochs of a probe of seconds; the cost."""

    def __init__(
        self,
        timed: Collection[Config],
        trained: Collection[int],
        configs: Sequence[Config],
        batches: Ints,
        epochs: Floats,
    ) -> None:
        self.epochs = epochs
        self.seconds: Mask = np.array([config in timed for config in configs], dtype=bool)
        apart = np.abs(np.log(batches[:, None] / np.array(sorted(trained), dtype=np.float64)))
        self.recipe: Mask = apart.min(axis=1, initial=np.inf) <= SAME_RECIPE
        self.both: Mask = self.seconds & self.recipe


@dataclass(frozen=True)
class ActiveDesign:
    """What is worth measuring for one goal, given what was measured."""

    job: Job
    goal: Goal
    space: Space
    cluster: Cluster

    @cached_property
    def _spread_out(self) -> Design:
        # The ends of the space, which tell a law, are dear to measure and seldom the plan.
        return Design(self.job, self.goal, self.space, self.cluster, law=False)

    @cached_property
    def _configs(self) -> Configs:
        return self.space.configs()

    @cached_property
    def _listed(self) -> list[Config]:
        return list(self._configs)

    @cached_property
    def _rate(self) -> Floats:
        return rates(self._configs, self.cluster)

    def next(self, samples: Sequence[Sample], left: int, seen: Collection[int] = ()) -> Probe | None:
        """Return what to measure next with so many starts left, or None when nothing is worth it."""
        timed = {sample.config for sample in samples if sample.tells_pace}
        if timed and left > LAST_STARTS and (value := self._unstarted(samples)) is not None:
            return Probe.of_pace(self.job, value, self._spread_out.time_epochs(value), ", never started so")
        if len(timed) < min(FIRST_TIMES, left + len(timed) - 1) and (far := self._far(samples)) is not None:
            return Probe.of_pace(self.job, far, self._spread_out.time_epochs(far))
        if not timed and any(sample.failed for sample in samples):  # nothing can be forecast before a start goes well
            other = self._spread_out.most_telling(samples)
            return Probe.of_pace(self.job, other, self._spread_out.time_epochs(other)) if other else None
        first = first_length(self.job, self.goal, samples)
        if not any(self._shows_curve(sample, seen) and (sample.length or 0) >= (first or 0) for sample in samples):
            return self._first_curve(samples, first)
        # Trying larger batches pays more often than forecasts at a fixed rate say, so that these tell the plan alone.
        usual = replace(self.job, scaling="unknown") if self.job.scaling == "fixed" else self.job
        for job in dict.fromkeys((usual, self.job)):
            found = self._assessed(job, samples)
            trained = {
                sample.config.global_batch
                for sample in samples
                if (self._tells_length(sample, found) if first else self._decides(sample, seen))
            }
            batches, epochs = self._configs.global_batch, self._probe_epochs(samples)
            known = _Known(timed, trained, self._listed, batches, epochs)
            able = self._spread_out.able(samples)
            plan = self._cheapest(found, found.feasible & able, able)
            own = None if found.feasible.any() else self._own(found, able)
            if own is not None and not known.recipe[own]:
                return self._curve(own, found, plan, able, _OWN, annealed=first is not None)
            row = self._wanted(found, plan, known, able, left) if job is usual else plan
            if not known.both[row]:
                break
        config, of = (
            self._listed[row],
            "the plan as it stands" if row == plan else f"decides between it and {self._listed[plan]}",
        )
        if not known.recipe[row] and (known.seconds[row] or left <= SPARING):
            return self._curve(row, found, plan, able, of, annealed=first is not None)
        if not known.seconds[row]:
            return Probe.of_pace(self.job, config, self._spread_out.time_epochs(config), f": {of}")
        return None

    def _shows_curve(self, sample: Sample, seen: Collection[int]) -> bool:
        """Return whether a sample shows a learning curve; an evaluation within a probe of seconds is none."""
        if not sample.curve or self._decides(sample, seen):
            return bool(sample.curve)
        return self._goes_beyond(sample)

    def _goes_beyond(self, sample: Sample) -> bool:
        return sample.epochs >= self._beyond(sample.config)

    def _beyond(self, config: Config) -> float:
        """Return the first whole epoch that a probe of seconds does not get to."""
        return float(np.floor(self._spread_out.time_epochs(config)) + 1)

    def _decides(self, sample: Sample, seen: Collection[int]) -> bool:
        """Return whether a sample tells all there is to know of its recipe: its target was met, or is out of reach.

        A curve for an easier goal ends too early; whether that matters is for the forecast to say.
        """
        if not sample.curve or sample.config.global_batch in seen:
            return bool(sample.curve)
        return self.job.reached(self.goal.target, sample) or sample.curve[-1].epoch >= self.goal.max_epochs

    def _wanted(self, found: Assessment, plan: int, known: _Known, able: Mask, left: int) -> int:
        """Return the config to measure; it is the plan itself, measured, when nothing else is worth it."""
        if left <= LAST_STARTS and not known.both[plan]:
            return plan
        better = self._worthwhile(found, plan, known, able)
        return plan if better is None else better

    def _own(self, found: Assessment, able: Mask) -> int | None:
        """Return the cheapest layout of the batch at which the job's learning rate is known: its user's own recipe."""
        same = able & (self._configs.global_batch == (self.job.lr.global_batch if self.job.lr else 0))
        return int(np.argmin(np.where(same, found.outlook.epoch_seconds * self._rate, np.inf))) if same.any() else None

    def remaining(self, samples: Sequence[Sample]) -> int:
        """Return how many probes would still be worth having, at most."""
        return self._spread_out.remaining(samples)

    def share(self, probe: Probe, seconds: float, samples: Sequence[Sample], seen: Collection[int]) -> float:  # noqa: ARG002  # as `Chooser` asks
        """Return how many of the seconds left a probe may take: all of them."""
        return seconds

    def _unstarted(self, samples: Sequence[Sample]) -> Config | None:
        """Return a config with a value that was not yet started so, the most telling for what its start costs."""
        prices = self._rate * (START_SECONDS + self._probe_epochs(samples) * self._seconds(samples))
        return self._spread_out.unstarted(samples, prices)

    def _far(self, samples: Sequence[Sample]) -> Config | None:
        """Return the config that tells the most of all seconds, of those that thirty steps are short for."""
        epochs = self._probe_epochs(samples)
        return self._spread_out.most_telling(samples, epochs <= max(SHORT, float(np.quantile(epochs, 0.25))))

    @cached_property
    def _time_epochs(self) -> Floats:
        return np.array([self._spread_out.time_epochs(config) for config in self._listed])

    def _probe_epochs(self, samples: Sequence[Sample]) -> Floats:
        """Return the epochs that a probe of seconds takes: thirty steps, and more of a job that reports seldom."""
        live = [one.epochs for one in samples if one.engine != RECORDED and one.tells_pace]
        return np.maximum(self._time_epochs, min(MOST_TIME_EPOCHS, min(live, default=0.0)))

    def _first_curve(self, samples: Sequence[Sample], annealed: int | None) -> Probe | None:
        """Return the curve of the recipe that wastes the least, whatever the plan will be."""
        seconds = self._seconds(samples)
        row = self._cheapest_layout(least_wasted(self._configs, seconds, self._rate, self.goal), seconds)
        epochs = float(self.goal.max_epochs)
        if self.goal.deadline is not None and samples:  # no config gets through more epochs in time
            epochs = min(epochs, float(np.ceil(MARGIN * self.goal.deadline / seconds.min())))
        # A curve that ended before its first evaluation has shown nothing: the next goes on twice as far.
        before = max((sample.epochs for sample in samples if self._goes_beyond(sample)), default=0.0)
        epochs = min(max(epochs, 2 * before), float(self.goal.max_epochs))
        config = self._listed[row]
        reason = f"learning curve at global batch {config.global_batch}, a cheap one"
        if annealed is not None:
            return Probe(config, float(annealed), f"{reason}, annealed", curve=True, length=annealed)
        return Probe(config, max(self._beyond(config), epochs), reason, curve=True)

    def _curve(self, row: int, found: Assessment, plan: int, able: Mask, of: str, *, annealed: bool) -> Probe:
        batch = int(self._configs.global_batch[row])
        seconds = found.outlook.epoch_seconds
        layout = self._cheapest_layout(batch, np.where(able, seconds, np.inf))
        beaten = np.inf if row == plan or not found.feasible[plan] else float(found.cost[plan])
        cap = max(self._cap(batch, seconds, beaten), self._beyond(self._listed[layout]))
        reason = f"learning curve at global batch {batch}: {self._listed[row]}, {of}"
        if annealed:
            length = self._length(batch, found)
            return Probe(self._listed[layout], float(length), f"{reason}, annealed", curve=True, length=length)
        return Probe(self._listed[layout], cap, reason, curve=True)

    def _length(self, batch: int, found: Assessment) -> int:
        """Return the epochs that a run of a global batch would be told, where its rate falls to its end."""
        return whole_units(self.job, int(found.epochs[self._configs.global_batch == batch].max(initial=1)))

    def _tells_length(self, sample: Sample, found: Assessment) -> bool:
        """Return whether a sample tells how long a run of its recipe is to be: it met the target, or was long.

        Where nothing meets the goal yet, only the end of a run as long as may be tells that it is out of reach.
        """
        if not sample.curve or not sample.length:
            return False
        ended = sample.curve[-1].epoch >= sample.length - 1
        times = NEAR_LENGTH if found.feasible.any() else 1
        near = times * sample.length >= self._length(sample.config.global_batch, found)
        return self.job.reached(self.goal.target, sample) or (ended and near)

    def _seconds(self, samples: Sequence[Sample]) -> Floats:
        if not any(sample.tells_pace for sample in samples):
            return 1.0 / self._configs.workers  # nothing is known but that workers share the work
        forecast = forecaster(self.job, samples, self.cluster, accuracy=None)
        return forecast(self._configs, 1).epoch_seconds

    def _assessed(self, job: Job, samples: Sequence[Sample]) -> Assessment:
        """Return every config judged as the planner judges it, by runs that resume from the probes where they can."""
        forecast = forecaster(job, samples, self.cluster).going_on()
        return assess(forecast(self._configs, self.goal.max_epochs), self.goal, self.cluster, self.job.sign)

    def _cheapest(self, found: Assessment, feasible: Mask, able: Mask) -> int:
        """Return the cheapest of the feasible configs, or the surest of those that can run when there are none."""
        if feasible.any():
            return int(np.argmin(np.where(feasible, found.ranked_cost, np.inf)))
        return int(np.lexsort((found.seconds, -found.probability, ~able))[0])

    def _worthwhile(self, found: Assessment, plan: int, known: _Known, able: Mask) -> int | None:
        """Return the config whose measurement gains the most for its price, or None when none gains enough."""
        gain, wins, epochs = self._gains(found, plan)
        price = self._prices(found.outlook.epoch_seconds, epochs, known)
        worth = np.where(known.both | ~able, -np.inf, gain - WEIGHT * (1 - wins) * price)
        best = int(np.argmax(worth))
        return best if worth[best] > LEAST_GAIN * found.cost[plan] else None

    def _prices(self, seconds: Floats, epochs: Floats, known: _Known) -> Floats:
        """Return what the next probe of each config costs: its seconds', or its curve on the cheapest layout."""
        per_epoch = seconds * self._rate
        _, recipe = np.unique(self._configs.global_batch, return_inverse=True)
        least = np.full(recipe.max() + 1, np.inf)
        np.minimum.at(least, recipe, per_epoch)
        return np.where(known.recipe, per_epoch * known.epochs, least[recipe] * epochs)

    def _gains(self, found: Assessment, plan: int) -> tuple[Floats, Floats, Floats]:
        """Return each config's expected gain over the plan, its chance to win, and the epochs it takes."""
        standing = found.cost[plan] * (1.0 if found.feasible[plan] else MISSING)
        gain, wins = np.zeros(len(self._configs)), np.zeros(len(self._configs))
        epochs = np.full(len(self._configs), float(self.goal.max_epochs))
        for rows, met, spent in runs(found.outlook, found.goal, found.rate, found.needed):
            less = np.where(met, standing - spent * found.rate[rows, None], 0.0)
            gain[rows] = np.maximum(less, 0.0).mean(axis=1)
            wins[rows] = (less > 0).mean(axis=1)
            epochs[rows] = np.median(spent, axis=1) / found.outlook.epoch_seconds[rows]
        return gain, wins, epochs

    def _cheapest_layout(self, batch: int, seconds: Floats) -> int:
        """Return the config of this global batch whose epochs cost the least."""
        same = self._configs.global_batch == batch
        return int(np.argmin(np.where(same, seconds * self._rate, np.inf)))

    def _cap(self, batch: int, seconds: Floats, beaten: float) -> float:
        """Return after how many epochs the recipe can no longer win."""
        layouts = np.flatnonzero((self._configs.global_batch == batch) & np.isfinite(self._rate * seconds))
        allowed = MARGIN * beaten / (seconds * self._rate)[layouts]
        if self.goal.deadline is not None:
            allowed = np.minimum(allowed, MARGIN * self.goal.deadline / seconds[layouts])
        return float(max(1.0, min(self.goal.max_epochs, np.ceil(allowed.max(initial=0.0)))))
