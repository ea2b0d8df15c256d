"""Good news makes nothing less likely."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from cotune.plan.assess import assess
from cotune.predict.learn import forecaster
from cotune.predict.successes import successes
from cotune.space import Configs
from cotune.types import Cluster, Config, Evaluation, Goal, Job, Sample

JOB = Job("made-up", examples=10_000)
CONFIG = Config.data_parallel(64, 2)


def run(seconds: float, epochs: int, pace: float = 1.0, config: Config = CONFIG, **changes: object) -> Sample:
    values = 0.95 - 0.6 / (1 + pace * np.arange(1, epochs + 1)) ** 0.8
    each = seconds / epochs
    curve = tuple(Evaluation(float(epoch), float(value), each * epoch) for epoch, value in enumerate(values, 1))
    whole = Sample(config, float(epochs), each, curve[-1].accuracy, curve=curve, seconds=seconds)
    return replace(whole, **changes)  # type: ignore[arg-type]


PROBES = [
    run(40.0, 8, config=Config.data_parallel(64, 1)),
    run(26.0, 8, config=CONFIG),
    run(8.0, 4, config=Config.data_parallel(64, 4)),
]


def chance(samples: list[Sample], goal: Goal) -> tuple[float, float]:
    outlook = forecaster(JOB, samples, Cluster(), predictor="gaussian", accuracy="posterior")(Configs.of([CONFIG]), 30)
    found = assess(outlook, goal, Cluster(), 1)
    return float(found.probability[0]), float(found.seconds[0])


@settings(max_examples=15, deadline=None)
@given(st.floats(0.3, 1.0), st.floats(0.6, 1.6), st.floats(1.0, 1.6), st.integers(1, 3))
def test_a_success_no_later_than_the_forecast_never_lowers_the_probability(
    share: float, pace: float, slack: float, times: int
) -> None:
    target = float(PROBES[1].curve[6].accuracy)
    samples = list(PROBES)
    goal = Goal(target, deadline=slack * 7 * 26.0 / 8, max_epochs=30)
    for _ in range(times):
        before, expected = chance(samples, goal)
        seconds = min(share * expected, goal.deadline or 0.0)
        epochs = next(n for n in range(1, 31) if 0.95 - 0.6 / (1 + pace * n) ** 0.8 >= target)
        samples.append(run(seconds, epochs, pace, purpose="run", goal=goal, id=str(len(samples))))
        after, _ = chance(samples, goal)
        assert after >= before - 1e-9


def test_a_run_that_met_its_goal_later_than_expected_leaves_it_as_likely_as_before() -> None:
    target = float(PROBES[1].curve[6].accuracy)
    goal = Goal(target, deadline=1.3 * 7 * 26.0 / 8, max_epochs=30)
    before, expected = chance(PROBES, goal)
    late = run(1.1 * expected, 9, 0.85, purpose="run", goal=goal, id="late")
    assert expected < late.seconds <= (goal.deadline or 0.0)
    assert JOB.reached(target, late)
    assert chance([*PROBES, late], goal)[0] >= before


def test_runs_that_all_met_their_goal_speak_for_themselves_until_one_misses() -> None:
    goal = Goal(float(PROBES[1].curve[6].accuracy), deadline=40.0, max_epochs=30)
    met = [run(30.0, 8, purpose="run", goal=goal, id=str(place)) for place in range(4)]
    late = run(50.0, 8, purpose="run", goal=goal, id="late")
    assert [success.seconds for _, success in successes(JOB, [*PROBES, *met])] == [30.0] * 4
    assert successes(JOB, [*PROBES, *met, late]) == []
    assert successes(JOB, [replace(met[0], resumed_from="probe")]) == []
    assert chance([*PROBES, *met], goal)[0] >= 4.5 / 5
    harder = replace(goal, deadline=20.0)
    assert chance([*PROBES, *met], harder)[0] < 0.5
