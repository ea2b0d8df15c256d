"""When a run that measures itself goes on with another config: after each evaluation, by `SelfMeasuring`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from cotune.predict.run_odds import RunBelief
from cotune.predict.samples import timed
from cotune.predict.way import Leg
from cotune.probe.self_measuring import Choice, SelfMeasuring
from cotune.run.supervise import Move, requested, resized, restart_seconds
from cotune.run.training import overdue
from cotune.types import RECORDED, Evaluation, Sample

_BY_OWN_CURVES = "by what was measured of the job before; cotune plan names a goal that would be met"
REST = 9.0  # times what learning paces and weighing took, until paces are learnt anew


class SelfChange:
    """Looks at a run after each evaluation; keeps its legs, and what was said of its odds last."""

    def __init__(
        self,
        brain: SelfMeasuring,
        probes: Sequence[Sample],
        folder: Path,
        clock: Callable[[], float],
        own_odds: Callable[[Sample], tuple[float, RunBelief] | None] = lambda _: None,
    ) -> None:
        """Decide for the run in a folder, which has paid for some probes; the clock is the engine's.

        `own_odds` tells the odds by the job's own law and the run's evaluations, and what they rest on, where there
        are enough to have one.
        """
        self._brain, self._probes, self._folder, self._own_odds = brain, list(probes), folder, own_odds
        self._clock = clock
        self._starts: dict[str, tuple[float, Sample]] = {}  # where each start began, and its sample by now
        self._weighed = 0  # evaluations that were looked at
        self._decided: Choice | None = None  # what the last move came of
        self._first_look = float("inf")  # epochs after which the present start is looked at, evaluated or not
        self._warned = False
        self._paced: list[Sample] = []  # the starts as paces were learnt from them last
        self._resting = 0.0  # until when that is not done again: a run that tells much should not wait for it
        self._learnt = brain  # with the paces that it has learnt
        self.choice: Choice | None = None
        self.belief: RunBelief | None = None  # of when the run ends, if it stays as it is

    def __call__(self, sample: Sample) -> Move | None:
        self.see(sample)
        asked = requested(self._folder)
        if asked is not None and asked != sample.config.workers:
            config = resized(sample.config, asked)
            return None if config is None else Move(config, f"{asked} workers were asked for")
        if self.choice is None or self.choice.config == sample.config or self._decided is self.choice:
            return None
        self._decided = self.choice
        return Move(self.choice.config, self.choice.reason)

    def see(self, sample: Sample) -> None:
        """Renew what is thought of the run, where the sample has an evaluation more."""
        if sample.id not in self._starts:
            before = [*self._probes, *(start for _, start in self._starts.values())]
            self._first_look = self._brain.first_look(sample.config, before)
        if sample.id not in self._starts or sample.epoch_seconds is None:  # it says only now where it goes on
            self._starts[sample.id] = (sample.epochs, sample)
        at = self._starts[sample.id][0]
        self._starts[sample.id] = (at, sample)
        evaluations = sum(len(start.curve) for _, start in self._starts.values())
        begun, looks = self._clock(), sample.epochs - at >= self._first_look * (1 - 1e-9)
        if sample.epoch_seconds is None or not (looks or evaluations > self._weighed):
            return
        self._weighed, rests = evaluations, begun < self._resting and not sample.ended
        if not rests:
            self._paced = [start for _, start in self._starts.values() if not _is_start_up(start)]
            restart = self._brain.restart if sample.engine == RECORDED else restart_seconds(sample)
            self._learnt = replace(self._brain, restart=restart)
        if not timed((*self._brain.known, *self._probes, *self._paced)):
            return  # all that was told by now may be start-up
        self._first_look = float("inf")
        met = self._brain.job.reached(self._brain.goal.target, sample)
        self.choice, self.belief = (None, None) if met else self._chosen(sample)
        own = None if self.choice is None else self._own_odds(sample)
        if self.choice is not None and own is not None and own[0] < self.choice.odds:
            self.choice, self.belief = replace(self.choice, odds=own[0], remedy=_BY_OWN_CURVES), own[1]
        if not rests:
            self._resting = begun + (1 + REST) * (self._clock() - begun)

    @property
    def odds(self) -> float | None:
        """Return P(met) as it was told last."""
        return None if self.choice is None else self.choice.odds

    @property
    def words(self) -> str:
        """Return what is thought of the run, to be shown with its progress."""
        return "" if self.choice is None else f", P(met) {self.choice.odds:.2f}"

    def warning(self) -> str | None:
        """Return what would help, when the odds have just fallen below what was asked."""
        if self.choice is None:
            return None
        low = self.choice.odds < self._brain.goal.confidence
        new, self._warned = low and not self._warned, low
        if not new:
            return None
        asked = f"is below the {self._brain.goal.confidence:g} asked"
        return f"P(met) {self.choice.odds:.2f} {asked}: {overdue(self._brain.goal, self._spent) or self.choice.remedy}"

    @property
    def _spent(self) -> float:
        return sum(start.seconds for start in (*self._probes, *(start for _, start in self._starts.values())))

    def _chosen(self, sample: Sample) -> tuple[Choice, RunBelief]:
        brain, samples = self._learnt, [*self._probes, *self._paced]
        legs = [self._leg(begun, start) for begun, start in self._starts.values()]
        return brain.choose(samples, legs, self._spent, sample.config), brain.belief(samples, legs, sample.config)

    def _leg(self, begun: float, start: Sample) -> Leg:
        points: list[Evaluation] = [point for point in start.curve if point.epoch > begun]
        target, sign = self._brain.goal.target, self._brain.job.sign
        gaps = () if target is None else tuple((p.epoch - begun, sign * (target - p.accuracy)) for p in points)
        return Leg(self._brain.row(start.config), max(start.epochs - begun, 0.0), gaps)


def _is_start_up(start: Sample) -> bool:
    """Return whether all that a start has told of its pace may be the start of the job's own code: one report."""
    return start.engine != RECORDED and len(start.curve) < 2 and start.terms.startup == 0.0
