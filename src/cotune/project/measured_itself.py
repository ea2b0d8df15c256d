"""How a run without a profile begins: a handful of time probes, then what they and other jobs say is best.

Its probes and its training share one engine: what took ten seconds to come up does not come up twice. On this machine
these seconds are therefore no part of the share of the deadline that probes may take. Probes of a recording are paid
for in full, so none of them is begun that would take long: the run may begin with a config that nobody has timed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from cotune.display import Display
from cotune.jobfile.settings import Settings
from cotune.predict.samples import timed
from cotune.probe.measure import Limits
from cotune.probe.outcome import ProfileOutcome
from cotune.probe.self_measuring import SelfMeasuring
from cotune.probe.session import measure, told_when_interrupted
from cotune.probe.timing import LEAST_SHARE, SHARE, SelfTiming, begun_untimed, next_to_time
from cotune.run.attempt import HERE
from cotune.run.launch import Engine, opened_engine
from cotune.types import RECORDED, Config, Sample
from cotune.units import duration

MOST_PROBES = 8  # starts, before it begins


@dataclass(frozen=True)
class MeasuredItself:
    """What a run begins with, its P(met) where that is known, what decides for it, its probes and their engine."""

    config: Config
    odds: float | None
    brain: SelfMeasuring
    probes: tuple[Sample, ...]
    engine: Engine
    closing: ExitStack  # closes the engine, where this made it


def measured_itself(
    settings: Settings,
    engine: str | Engine,
    brain: SelfMeasuring,
    runs: Path,
    display: Display,
    *,
    save: Callable[[Sample], None],
    seed: int,
) -> MeasuredItself:
    """Time a few configs, and choose what to begin with."""
    goal, known, recorded = settings.goal, brain.known, settings.engine == RECORDED
    share = SHARE * goal.deadline if goal.deadline else settings.profile_seconds
    limits = Limits(math.inf if recorded else share, MOST_PROBES, engine_counts=settings.engine != HERE)
    ends = {"deadline": goal.deadline} if recorded else {}  # its account is closed then
    with told_when_interrupted(display), ExitStack() as stack:
        up = stack.enter_context(opened_engine(engine, {**settings.engine_settings, **ends}))
        if (dear := begun_untimed(brain)) is not None:
            choice = brain.untimed(dear)
            display.note(f"beginning with {dear}: {choice.reason}")
            return MeasuredItself(dear, choice.odds, brain, (), up, stack.pop_all())
        short = not (recorded or timed(known) or share >= LEAST_SHARE)
        if short and (untimed := next_to_time(brain, (), 0.0)) is not None:
            display.note(f"beginning with {untimed}: {duration(share)} may be over before any has told its pace")
            return MeasuredItself(untimed, None, brain, (), up, stack.pop_all())
        probes = measure(
            up,
            SelfTiming(brain),
            known,
            limits,
            runs,
            save=save,
            display=display,
            seed=seed,
            engine_name=settings.engine,
        )
        config, why, odds = _first_choice(brain, ProfileOutcome(settings.job, probes, known, known, limits))
        display.note(f"beginning with {config}: {why}")
        return MeasuredItself(config, odds, brain, probes, up, stack.pop_all())


def _first_choice(brain: SelfMeasuring, outcome: ProfileOutcome) -> tuple[Config, str, float | None]:
    """Return what to begin with, why, and its odds: by what was timed, or what was being timed when that was over."""
    probes = outcome.new
    slow = probes and brain.goal.deadline is not None and not any(probe.failed for probe in probes)
    if slow and not timed(outcome.samples):
        words = f"it told no pace within {duration(outcome.limits.seconds)}, so that no other was timed"
        return probes[-1].config, words, None
    if probes or not brain.at_once:
        outcome.require_speed()
    choice = brain.choose(probes, (), sum(probe.seconds for probe in probes), None)
    return choice.config, choice.reason, choice.odds
