"""When a live run that measures itself goes on with another config: after each evaluation, by `SelfMeasuring`."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from cotune.predict.way import Leg
from cotune.probe.self_measuring import Choice, SelfMeasuring
from cotune.run.supervise import Move, requested, resized, restart_seconds
from cotune.types import Evaluation, Sample

_BY_OWN_CURVES = "by what was measured of the job before; cotune plan names a goal that would be met"
_REST = 9.0  # times what weighing took, until the next evaluation is weighed


class SelfChange:
    """Looks at a run after each evaluation; keeps its legs, and what was said of its odds last."""

    def __init__(
        self,
        brain: SelfMeasuring,
        probes: Sequence[Sample],
        folder: Path,
        own_odds: Callable[[Sample], float | None] = lambda _: None,
    ) -> None:
        """Decide for the run in a folder, which has paid for some probes.

        `own_odds` tells the odds by the job's own law and the run's evaluations, where there are enough to have one.
        """
        self._brain, self._probes, self._folder, self._own_odds = brain, list(probes), folder, own_odds
        self._starts: dict[str, tuple[float, Sample]] = {}  # where each start began, and its sample by now
        self._weighed = self._decided = 0  # evaluations that were looked at, and that a move came of
        self._warned = False
        self._resting = 0.0  # until when nothing is weighed: a run that tells much should not wait for what it is worth
        self.choice: Choice | None = None

    def __call__(self, sample: Sample) -> Move | None:
        self.see(sample)
        asked = requested(self._folder)
        if asked is not None and asked != sample.config.workers:
            config = resized(sample.config, asked)
            return None if config is None else Move(config, f"{asked} workers were asked for")
        if self.choice is None or self.choice.config == sample.config or self._decided == self._weighed:
            return None
        self._decided = self._weighed
        return Move(self.choice.config, self.choice.reason)

    def see(self, sample: Sample) -> None:
        """Renew what is thought of the run, where the sample has an evaluation more."""
        at = self._starts[sample.id][0] if sample.id in self._starts else sample.epochs
        self._starts[sample.id] = (at, sample)
        evaluations = sum(len(start.curve) for _, start in self._starts.values())
        begun = time.monotonic()
        if evaluations == self._weighed or sample.epoch_seconds is None or (begun < self._resting and not sample.ended):
            return
        self._weighed = evaluations
        met = self._brain.job.reached(self._brain.goal.target, sample)
        self.choice = None if met else self._chosen(sample)
        own = None if self.choice is None else self._own_odds(sample)
        if self.choice is not None and own is not None and own < self.choice.odds:
            self.choice = replace(self.choice, odds=own, remedy=_BY_OWN_CURVES)
        self._resting = begun + (1 + _REST) * (time.monotonic() - begun)

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
        return f"P(met) {self.choice.odds:.2f} {asked}: {self.choice.remedy}"

    def _chosen(self, sample: Sample) -> Choice:
        starts = [start for _, start in self._starts.values()]
        spent = sum(start.seconds for start in (*self._probes, *starts))
        restart = restart_seconds(sample)
        brain = replace(self._brain, restart=restart)
        legs = [self._leg(begun, start) for begun, start in self._starts.values()]
        return brain.choose([*self._probes, *starts], legs, spent, sample.config)

    def _leg(self, begun: float, start: Sample) -> Leg:
        points: list[Evaluation] = [point for point in start.curve if point.epoch > begun]
        target, sign = self._brain.goal.target, self._brain.job.sign
        gaps = () if target is None else tuple((p.epoch - begun, sign * (target - p.accuracy)) for p in points)
        return Leg(self._brain.row(start.config), max(start.epochs - begun, 0.0), gaps)
