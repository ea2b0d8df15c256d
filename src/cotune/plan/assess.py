"""What each config would take to meet a goal, draw by draw.

    N    = first epoch whose accuracy meets the target      (per recipe and draw)
    t    = startup e^(spread' z) + N (epoch_seconds e^(spread z) + overhead)
    cost = t x rate
    P    = share of draws with N <= max_epochs, t <= deadline and cost <= max_cost

A run stops at the first evaluation that meets the target, so seconds and cost do not
depend on the deadline: only the probability does. Hence a longer deadline can only add
choices and never makes the cheapest plan dearer.

All of this, and the choice, is of a training from scratch: its luck is its own. Where e epochs of a recipe are trained
already, going on from there is another forecast (`rest`), which knows the past of that one run:

    t' = startup + (N - e) (epoch_seconds + overhead)       nothing when its target is met
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from cotune.forecast import Learning, Outlook
from cotune.plan.draws import ROWS, affordable, epochs_needed, longest_epochs, of_rows, runs, step_of
from cotune.plan.lengths import lengths
from cotune.plan.rates import rates
from cotune.space import Configs
from cotune.types import Cluster, Floats, Forecast, Goal, Ints, Mask, Quantity, Source

_SAME = 1e-9  # epochs that differ by less, relatively, are the same
# What a recipe that no run has trained must save over those that were: of 0, 5, 10 and 20 % on Pollux, MLPerf v0.6 and
# our own recordings, with recent MLPerf in sight, which agrees.
UNTRAINED = 0.1
LOW, MID, HIGH = 0.1, 0.5, 0.9


@dataclass(frozen=True)
class Assessment:
    """Every config of an outlook judged against a goal, as columns."""

    learnt: Outlook  # of runs of any length
    outlook: Outlook  # of runs that are told how long they are, where their learning rate falls to their end
    goal: Goal
    rate: Floats  # (n,) cost per second
    unit: str
    sign: int
    needed: Floats  # (recipes or 1, draws) epochs a run takes; infinite where the target stays out of reach
    probability: Floats  # (n,)
    seconds: Floats  # (n,) median
    epochs: Ints  # (n,) the cap: the most epochs that deadline and budget allow, or the length that is told
    trained: Floats | None = None  # (n,) epochs that need not be trained again; infinite when the target is met

    @property
    def cost(self) -> Floats:
        return self.seconds * self.rate

    @property
    def ranked_cost(self) -> Floats:
        """Return the cost by which configs are ranked: what was never trained has to be cheaper by a tenth.

        So far forecasts of such recipes are off, and the cheapest of many is the one that is flattered the most.
        """
        return self.cost * np.where(self.untrained, 1 + UNTRAINED, 1.0)

    @property
    def untrained(self) -> Mask:
        """Return which configs have a recipe that no run has trained, where a target is to be met."""
        learning = self.outlook.learning
        if learning is None or self.goal.target is None:
            return np.zeros(len(self.seconds), dtype=bool)
        return np.asarray(learning.source != "measured")[learning.recipe]

    @property
    def all_epochs(self) -> bool:
        """Return whether runs take all of their epochs for the best accuracy, instead of stopping at a target."""
        return self.goal.prefer == "accurate" and self.goal.epochs is None

    @property
    def feasible(self) -> Mask:
        """Return which configs meet the goal with the confidence asked for, from scratch."""
        return np.asarray(self.probability >= self.goal.confidence)

    @property
    def final_accuracy(self) -> Floats | None:
        """Return the median accuracy (which rises) of each config after its cap of epochs."""
        return None if self.outlook.learning is None else self._at_cap(self.outlook.learning, MID)

    @property
    def sure_accuracy(self) -> Floats | None:
        """Return the accuracy (which rises) that each config has after its cap with the confidence asked for.

        By medians, recipes that were never tried would win by being unknown: the best of many is the luckiest guess.
        """
        return None if self.outlook.learning is None else self._at_cap(self.outlook.learning, self.goal.confidence)

    def _at_cap(self, learning: Learning, confidence: float) -> Floats:
        """Return the accuracy of each config after its cap of epochs that is passed in such a share of the draws."""
        column = learning.column(learning.recipe, self.epochs.astype(np.float64))
        return np.asarray(learning.surely(confidence)[learning.recipe, column])

    def rest(self, row: int) -> Forecast | None:
        """Return what is left of one row for a run that goes on from what was trained, if anything was."""
        if self.trained is None or self.trained[row] == 0:
            return None
        return self._continuing.forecast(row, float(self.trained[row]))

    @cached_property
    def left(self) -> tuple[Floats, Floats, Mask]:
        """Return the median seconds of going on from what was trained, and the chance that this meets the goal.

        Where nothing was trained that is never. The mask tells which of these runs are expected to keep to deadline and
        budget as a whole, what was trained included.
        """
        seconds, chance = np.full(len(self.seconds), np.inf), np.zeros(len(self.seconds))
        kept = np.zeros(len(self.seconds), dtype=bool)
        if self.trained is None:
            return seconds, chance, kept
        rows = np.flatnonzero((self.trained > 0) & np.isfinite(self.seconds))
        for begin in range(0, len(rows), ROWS):
            part = rows[begin : begin + ROWS]
            spent = self._continuing.draws(part, self.trained[part])[2]
            seconds[part], chance[part] = np.median(spent, axis=1), self._continuing.met(part, spent).mean(axis=1)
            whole = np.median(self._continuing.draws(part, np.zeros(len(part)))[2], axis=1)
            kept[part] = affordable(self.goal, whole[:, None], self.rate[part])[:, 0]
        return seconds, chance, kept

    @cached_property
    def _continuing(self) -> Assessment:
        """Return the same of runs that go on from what probes left."""
        if self.outlook.continued is None:
            return self
        outlook = replace(self.outlook, learning=self.outlook.continued, continued=None)
        return replace(self, outlook=outlook, needed=epochs_needed(outlook, self.goal, self.sign))

    def forecast(self, row: int, trained: float = 0.0) -> Forecast:
        """Return one row with its intervals, for the epochs that are not trained yet."""
        one = np.array([row])
        taken, more, spent = (draws[0] for draws in self.draws(one, np.array([trained])))
        source: Source = self.outlook.seconds_source[row]
        learnt = self._learnt(row, taken)
        until = learnt if self.goal.target is not None and learnt else "measured"
        weakest = _weakest(source, until)
        seconds, cost, pace = _quantiles(spent, spent * self.rate[row], self.outlook.pace(one)[0])
        low, mid, high = np.quantile(more, (LOW, MID, HIGH), method="inverted_cdf").tolist()
        return Forecast(
            config=self.outlook.configs[row],
            epochs=int(self.epochs[row]),
            seconds=Quantity(*seconds, weakest, "s"),
            cost=Quantity(*cost, weakest, self.unit),
            epoch_seconds=Quantity(*pace, source, "s"),
            accuracy=self._accuracy(row, taken, learnt),
            best=None if trained else replace(self, outlook=self.learnt)._best(row),
            probability=float(self.met(one, spent[None, :]).mean()) if trained else float(self.probability[row]),
            epochs_needed=Quantity(low, mid, high, until, "epochs"),
            **self._memory(row),
        )

    def _memory(self, row: int) -> dict[str, Any]:
        """Return what a worker of one row takes of memory, and the chance that it fits, as far as is known."""
        found = self.outlook.memory
        if found is None or np.isnan(found.mid[row]):
            return {}
        low, mid, high, fits = (float(column[row]) for column in (found.low, found.mid, found.high, found.p_fits))
        source: Source = found.source[row]
        return {"memory": Quantity(low, mid, high, source, "bytes"), "p_fits": None if np.isnan(fits) else fits}

    def draws(self, rows: Ints, trained: Floats) -> tuple[Floats, Floats, Floats]:
        """Return the epochs of whole trainings, those not trained yet, and the seconds that these take."""
        taken = np.minimum(of_rows(self.needed, self.outlook, rows), self.goal.max_epochs)
        if self.all_epochs:
            taken = np.repeat(self.epochs[rows, None].astype(np.float64), self.outlook.draws, axis=1)
        more = _left(taken, trained[:, None], step_of(self.outlook, rows)[:, None])
        spent = np.where(more > 0, self.outlook.begun(rows), 0.0) + more * self.outlook.each(rows)
        return taken, more, spent

    def met(self, rows: Ints, spent: Floats) -> Mask:
        """Return which draws of runs that take so many seconds meet the goal."""
        reached = np.isfinite(of_rows(self.needed, self.outlook, rows)) | (spent == 0)
        return np.asarray(reached & affordable(self.goal, spent, self.rate[rows]))

    def _accuracy(self, row: int, taken: Floats, source: Source | None) -> Quantity | None:
        learning = self.outlook.learning
        if learning is None or source is None:
            return None
        recipe = learning.recipe[row]
        reached = learning.best[recipe, np.arange(self.outlook.draws), learning.column(recipe, taken)]
        return Quantity(*_quantiles(self.sign * reached + 0.0)[0], source, "")  # no loss of -0

    def _best(self, row: int) -> Quantity | None:
        """Return the best accuracy of one row in all the epochs that the goal leaves."""
        whole = np.full(self.outlook.draws, float(self.goal.cap))
        return self._accuracy(row, whole, self._learnt(row, whole))

    def _learnt(self, row: int, taken: Floats) -> Source | None:
        """Return where accuracy after so many epochs (in each draw) is known from."""
        learning = self.outlook.learning
        if learning is None:
            return None
        recipe = learning.recipe[row]
        source: Source = learning.source[recipe]
        return source if np.median(taken) <= learning.told[recipe] * (1 + _SAME) else _weakest(source, "extrapolated")


def _weakest(one: Source, other: Source) -> Source:
    """Return the less certain of two sources."""
    order: tuple[Source, ...] = ("measured", "interpolated", "extrapolated", "assumed")
    return max(one, other, key=order.index)


def assess(outlook: Outlook, goal: Goal, cluster: Cluster, sign: int, trained: Floats | None = None) -> Assessment:
    """Return every config of the outlook judged against the goal; `trained` epochs need not be trained again."""
    rate = rates(outlook.configs, cluster)
    rate[~outlook.configs.valid] = np.inf
    count = len(outlook.configs)
    probability, middle = np.zeros(count), np.full(count, np.inf)
    learnt = outlook
    outlook, needed, cap = as_long_as_allowed(learnt, goal, rate, sign)
    for rows, met, spent in runs(outlook, goal, rate, needed):
        in_time = met & (of_rows(needed, outlook, rows) <= cap[rows, None] * (1 + _SAME))
        probability[rows] = in_time.mean(axis=1)
        middle[rows] = np.median(spent, axis=1)
    _credit(outlook, goal, cluster, sign, probability)
    found = Assessment(
        learnt=learnt,
        outlook=outlook,
        goal=goal,
        rate=rate,
        unit=cluster.unit,
        sign=sign,
        needed=needed,
        probability=probability,
        seconds=middle,
        epochs=np.ceil(cap - _SAME).astype(np.int64),
    )
    found = _longest(found) if found.all_epochs else found
    return found if trained is None else replace(found, trained=trained)


def as_long_as_allowed(outlook: Outlook, goal: Goal, rate: Floats, sign: int) -> tuple[Outlook, Floats, Floats]:
    """Return the outlook of runs for a goal, the epochs that they need, and the most that they are told or may take.

    Where the learning rate falls to the end of a run, its length is part of the plan, and another goal has another one.
    """
    cap = np.zeros(len(outlook.configs))
    for rows, fits in longest_epochs(outlook, goal, rate, MID):
        cap[rows] = goal.epochs or np.maximum(fits, step_of(outlook, rows))
    needed = epochs_needed(outlook, goal, sign)
    if (
        goal.target is None
        or goal.prefer == "accurate"
        or outlook.learning is None
        or outlook.learning.of_length is None
    ):
        return outlook, needed, cap
    length = lengths(outlook.learning, goal, needed, cap)
    cap = np.minimum(cap, length[outlook.learning.recipe])
    learning = replace(outlook.learning.of_length(length), recipe=outlook.learning.recipe)
    outlook = replace(outlook, learning=learning, continued=None)
    return outlook, epochs_needed(outlook, goal, sign), cap


def would_do(found: Assessment, goal: Goal) -> bool:
    """Say whether some config would meet another goal, from scratch and with the confidence asked for."""
    outlook, needed, cap = as_long_as_allowed(found.learnt, goal, found.rate, found.sign)
    for rows, met, _ in runs(outlook, goal, found.rate, needed):
        in_time = met & (of_rows(needed, outlook, rows) <= cap[rows, None] * (1 + _SAME))
        if (in_time.mean(axis=1) >= goal.confidence).any():
            return True
    return False


def _credit(outlook: Outlook, goal: Goal, cluster: Cluster, sign: int, probability: Floats) -> None:
    """Let no success make a goal less likely than it was without it (see `predict/successes.py`)."""
    for config in {success.config for success in outlook.successes}:
        own = [one for one in outlook.successes if one.config == config and one.speaks_for(goal, sign)]
        if own:
            rows = outlook.configs.same(config)
            probability[rows] = np.maximum(probability[rows], (len(own) + 0.5) / (len(own) + 1))
    if outlook.before is None:
        return
    last = outlook.successes[-1]
    rows = outlook.configs.same(last.config)
    if rows.any():
        then = assess(outlook.before(Configs.of([last.config]), goal.max_epochs), goal, cluster, sign)
        if last.speaks_for(goal, sign) or last.seconds <= then.seconds[0]:
            probability[rows] = np.maximum(probability[rows], then.probability[0])


def _left(taken: Floats, trained: Floats, step: Floats) -> Floats:
    """Return the epochs left of so many: a step at least, unless the target is met already (infinite)."""
    return np.where(np.isinf(trained), 0.0, np.where(trained > 0, np.maximum(taken - trained, step), taken))


def _longest(found: Assessment) -> Assessment:
    """Return the assessment of runs that use all the time there is, for the best accuracy."""
    outlook, goal = found.outlook, found.goal
    epochs = np.ones(len(found.seconds), dtype=np.int64)
    probability, middle = np.zeros_like(found.seconds), np.full_like(found.seconds, np.inf)
    for rows, fits in longest_epochs(outlook, goal, found.rate, goal.confidence):
        taken = np.maximum(np.floor(fits), 1.0)
        spent = outlook.begun(rows) + taken[:, None] * outlook.each(rows)
        met = affordable(goal, spent, found.rate[rows]) & (fits[:, None] > 0)
        if goal.target is not None:
            met &= of_rows(found.needed, outlook, rows) <= fits[:, None]
        epochs[rows], probability[rows], middle[rows] = taken, met.mean(axis=1), np.median(spent, axis=1)
    return replace(found, probability=probability, seconds=middle, epochs=epochs)


def _quantiles(*draws: Floats) -> list[tuple[float, float, float]]:
    """Return the low, middle and high value of each set of draws."""
    return [tuple(row) for row in np.quantile(draws, (LOW, MID, HIGH), axis=1).T.tolist()]
