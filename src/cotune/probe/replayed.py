"""A run that measures itself on a recording: probes, training and moves in one account, decided by `SelfMeasuring`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from cotune.predict.way import Leg
from cotune.probe.self_measuring import Choice, SelfMeasuring
from cotune.probe.timing import begun_untimed, next_to_time
from cotune.run.replayed_training import ReplayedTraining


@dataclass(frozen=True, slots=True)
class SelfMeasuredStep:
    """What was done, and what is thought of the rest: begin (after probes), pace (a first look), evaluation or move."""

    kind: str
    choice: Choice


def self_measured(brain: SelfMeasuring, training: ReplayedTraining) -> Iterator[SelfMeasuredStep]:
    """Train to the end; yield what is decided at the beginning and after each evaluation."""
    choice = _beginning(brain, training)
    training.begin(choice.config)
    yield SelfMeasuredStep("begin", choice)
    before: list[Leg] = []
    leg = Leg(brain.row(choice.config), 0.0)
    begun, seen = 0.0, 0
    while True:
        training.train(brain.first_look(training.starts[-1].config, training.samples))
        if training.ended:
            return
        start = training.starts[-1]
        points = leg.evaluations
        evaluated = len(start.curve) > seen
        if evaluated and brain.goal.target is not None:
            seen = len(start.curve)
            gap = brain.job.sign * (brain.goal.target - start.curve[-1].accuracy)
            points = (*points, (training.epoch - begun, gap))
        leg = replace(leg, epochs=training.epoch - begun, evaluations=points)
        choice = brain.choose(training.samples, [*before, leg], training.seconds, start.config)
        if choice.config == start.config:
            yield SelfMeasuredStep("evaluation" if evaluated else "pace", choice)
            continue
        training.move(choice.config, choice.reason)
        yield SelfMeasuredStep("move", choice)
        before, leg = [*before, leg], Leg(brain.row(choice.config), 0.0)
        begun, seen = training.epoch, 0


def _beginning(brain: SelfMeasuring, training: ReplayedTraining) -> Choice:
    """Time what is worth it, and return what to begin with."""
    if (untimed := begun_untimed(brain)) is not None:
        return brain.untimed(untimed)
    while (config := next_to_time(brain, training.probes, training.seconds)) is not None:
        training.probe(config)
    return brain.choose(training.probes, (), training.seconds, None)
