"""The constants of a run that measures itself, with what they were chosen on."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from cotune.plan.moving import CONSTANTS, MovingConstants
from cotune.predict.way import FIXED_RATE, PRIOR, WayPrior


@dataclass(frozen=True, slots=True)
class TimingConstants:
    """How much of a run may go into timing configs before it begins, and what is thought of who asks.

    `spare` was tried as 0.02, 0.05 and 0.1 on our own recordings: 4.10, 4.16 and 4.26 of the static oracle's cost, two
    added for a goal that is missed. `presumed` was first tried as 0.05, which made our own runs half as dear again, and
    as 0, which made Pollux's four times as dear. `half` was tried as 0, 0.3 and 1 on what begins untimed: of our own
    0.3 and 1 meet more, of GPT-3 0 and 0.3. `untimed` lies between what those of our own (0.5) and of recent MLPerf
    (0.77) met, told 0.95. The others were chosen with sources of recordings left out.
    """

    most: int = 7  # probes
    cost: float = 0.03  # of the usual cost of the run, for each probe
    seconds: float = 0.015  # of the deadline, for each probe
    first: float = 0.1  # of the epochs that are usual, for the first
    spare: float = 0.05  # of the time that is left, for a probe of what to begin with
    presumed: float = 0.2  # of the deadline, for the first; live ones are cut short there (`timing.SHARE`)
    half: float = 0.3  # of the middle batch of a worker: that which takes twice its work, before anything is timed
    untimed: float = 0.7  # P(met) that is told at most before anything is timed
    tight: float = 1.25  # a deadline over the quickest way, at least
    loose: float = 2.5  # and over the cheapest way, at most
    others: float = 0.15  # weight of what other jobs say, beside the job's own curves
    hopeless: float = 0.5  # P(met) below which the quickest config is timed, whatever that costs
    implausible: float = 4.0  # power by which a way that no config can walk in time counts for less


@dataclass(frozen=True, slots=True)
class SelfMeasuringConstants:
    """All that a run that measures itself takes from elsewhere."""

    way: WayPrior = PRIOR
    fixed_way: WayPrior = FIXED_RATE
    moving: MovingConstants = CONSTANTS
    timing: TimingConstants = TimingConstants()

    @property
    def timed(self) -> SelfMeasuringConstants:
        """Return the same for a run that always times a config first: its probes can be cut short."""
        return replace(self, timing=replace(self.timing, presumed=math.inf))

    @property
    def staying(self) -> SelfMeasuringConstants:
        """Return the same for a run that never moves, so that it has to know what it begins with."""
        return replace(self.timed, moving=replace(self.moving, margin=1.0))


SELF_MEASURING = SelfMeasuringConstants()
