"""What a report says: frontier, scaling and outcomes against their definitions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cotune.checkpoints import Resumable
from cotune.documents import price_words
from cotune.forecast import Learning, Outlook, standard_draws
from cotune.plan.rates import cost_of
from cotune.project.planner import Planner
from cotune.reports import Findings, find
from cotune.reports.document import document
from cotune.reports.figures import cost_time, epoch_times, learning_curves
from cotune.reports.frames import clock, counted, logarithmic, words
from cotune.reports.markup import data, table, tag
from cotune.reports.page import page
from cotune.reports.scaling import Scaling, ScalingStep
from cotune.space import Axis, Space
from cotune.types import Cluster, Config, Device, Evaluation, Failure, Goal, Job, Plan, Sample

JOB = Job("digits", examples=1000)
SPACE = Space((Axis("workers", (1, 2, 4, 8)), Axis("batch_size", (16, 64))))
CLUSTER = Cluster((Device("cpu"),))
GOAL = Goal(target=0.9, deadline=50.0, max_epochs=10)


def outlook(seconds: list[float] | None = None, accuracy: float = 0.93) -> Outlook:
    """Forecasts of the eight configs; accuracy rises by a tenth an epoch until it stays."""
    configs = SPACE.configs()
    count = len(configs)
    given = np.array(seconds) if seconds else 8.0 / configs.workers + 0.4 * configs.workers
    z_time = standard_draws(128, 0)
    rising = np.minimum(0.4 + 0.1 * np.arange(1, 11), accuracy)
    luck = 0.001 * np.random.default_rng(0).permutation(z_time)
    return Outlook(
        configs=configs,
        epoch_seconds=given,
        spread=np.full(count, 0.05),
        seconds_source=np.full(count, "interpolated", dtype=object),
        startup=np.ones(count),
        overhead=np.zeros(count),
        z_time=z_time,
        learning=Learning(
            recipe=np.zeros(count, dtype=np.int64),
            shown=(rising + luck[:, None])[None],
            source=np.array(["measured"], dtype=object),
            told=np.full(1, np.inf),
        ),
    )


def planner(known: Outlook, goal: Goal = GOAL) -> Planner:
    return Planner(JOB, goal, SPACE, CLUSTER, lambda *_: known, known, Resumable({}))


def found(goal: Goal = GOAL, samples: list[Sample] | None = None, plans: Any = (), **world: Any) -> Findings:
    checkpoints = Resumable.among(samples or [])
    return find(replace(planner(outlook(**world), goal), checkpoints=checkpoints), samples or [], plans)


@settings(deadline=None)
@given(st.lists(st.floats(0.5, 50), min_size=8, max_size=8))
def test_no_config_beats_one_of_the_frontier_in_both_time_and_cost(seconds: list[float]) -> None:
    result = found(seconds=seconds)
    time, cost = result.assessed.seconds, result.assessed.cost
    front = set(result.frontier.tolist())
    for row in range(len(time)):
        beaten = any((time[o] <= time[row]) and (cost[o] <= cost[row]) and o != row for o in range(len(time)))
        strictly = any((time[o] <= time[row]) & (cost[o] < cost[row]) for o in range(len(time)))
        assert (row in front) or beaten
        assert not (row in front and strictly)


def test_a_goal_that_cannot_be_met_is_a_finding_and_not_an_error() -> None:
    result = found(replace(GOAL, target=0.99))
    assert result.plan is None
    assert result.refusal is not None
    assert result.refusal.constraint == "target"
    assert len(result.frontier) == 0
    assert cost_time(result)["data"]


def test_configs_that_cannot_run_at_all_leave_empty_figures() -> None:
    few = find(replace(planner(outlook()), cluster=Cluster((Device("gpu"),))))
    assert few.refusal is not None
    assert few.refusal.constraint == "devices"
    assert few.scaling is None
    assert [trace["name"] for trace in cost_time(few)["data"]] == ["frontier"]
    assert learning_curves(few) is not None
    assert epoch_times(few)["data"]


def test_a_metric_that_should_fall_is_drawn_as_it_is() -> None:
    risen = outlook().learning
    assert risen is not None
    falling = replace(outlook(), learning=replace(risen, shown=risen.shown - 2.0))
    job = replace(JOB, metric="loss", better="lower")
    result = find(replace(planner(falling, replace(GOAL, target=1.2)), job=job))
    assert result.plan is not None
    figure = learning_curves(result)
    assert figure is not None
    low, high, middle = (trace["y"] for trace in (figure["data"][1], figure["data"][0], figure["data"][2]))
    assert middle == sorted(middle, reverse=True)
    assert all(below <= mid <= above for below, mid, above in zip(low, middle, high, strict=True))


def test_scaling_pays_while_an_added_worker_brings_half_of_its_share() -> None:
    result = found(seconds=[8.0, 8.0, 4.0, 4.0, 3.0, 3.0, 4.0, 4.0])
    scaling = result.scaling
    assert scaling is not None
    assert [step.workers for step in scaling.steps] == [1, 2, 4, 8]
    assert scaling.last_paying.workers == 2
    assert scaling.fastest.workers == 4
    assert scaling.cheapest.workers == 1
    for step in scaling.steps:
        assert step.seconds == pytest.approx(result.assessed.forecast(step.row).seconds.mid)
    assert "up to 2 workers" in scaling.words
    assert "quickest is 4 workers" in scaling.words


@settings(deadline=None)
@given(st.lists(st.floats(0.1, 10), min_size=2, max_size=8))
def test_gain_of_all_steps_sums_to_the_speed_up(speed_ups: list[float]) -> None:
    seconds = [10.0, *(10.0 / speed for speed in speed_ups)]
    times = [second for second in seconds[:4] for _ in range(2)]
    result = found(seconds=(times * 8)[:8]).scaling
    assert result is not None
    total = 1.0
    for before, step in zip(result.steps, result.steps[1:], strict=False):
        total += step.gain * (step.workers - before.workers)
    assert total == pytest.approx(result.steps[-1].speed_up)


def test_one_worker_count_scales_nowhere() -> None:
    alone = Scaling((ScalingStep(0, 3, 10.0, 30.0, 1.0, 1.0, 1.0),))
    assert alone.last_paying.workers == 3
    assert alone.words == "Only 3 workers can be compared."


def _run(id: str, config: Config, **changes: Any) -> Sample:
    curve = (Evaluation(1, 0.5, 5.0), Evaluation(2, 0.95, 10.0))
    whole = Sample(
        config, 2.0, 5.0, 0.95, curve=curve, seconds=11.0, purpose="run", id=id, started="2026-01-02T10:00:00"
    )
    return replace(whole, **changes)


def test_a_run_is_compared_with_the_plan_that_was_made_before_it() -> None:
    first = found().plan
    assert first is not None
    later: Plan = replace(first, reason="made after the run")
    plans = [("2026-01-02T11:00:00.5+00:00", later), ("2026-01-02T10:00:00.9+00:00", first)]
    outcome = found(samples=[_run("a", first.config)], plans=plans).runs[0]
    assert outcome.plan is first
    assert outcome.missed is None
    assert outcome.cost == pytest.approx(11.0 * first.config.workers)


def test_a_run_without_a_plan_is_judged_by_the_goal_it_was_for() -> None:
    curve = (Evaluation(1.0, 0.8, 2.0),)
    run = Sample(
        Config.data_parallel(16, 2), 1.0, 2.0, 0.8, curve=curve, seconds=2.0, purpose="run", id="run", goal=GOAL
    )
    (outcome,) = found(samples=[run]).runs
    assert outcome.missed is not None


def test_a_run_in_several_starts_is_one_outcome() -> None:
    config = Config.data_parallel(16, 2)
    starts = [
        _run("a", config, failure=Failure.interrupted("by the user"), curve=()),
        _run("b", config, resumed_from="a"),
        _run("other", config, failure=Failure("crashed")),
    ]
    outcomes = found(samples=starts).runs
    assert [len(outcome.starts) for outcome in outcomes] == [1, 2]
    assert outcomes[1].seconds == 22.0
    assert outcomes[0].missed == "crashed"


def test_the_best_of_all_starts_is_what_a_run_has_reached() -> None:
    config = Config.data_parallel(16, 2)
    starts = [
        _run("a", config, failure=Failure.interrupted("by the user"), curve=(Evaluation(1.0, 0.87, 2.0),), goal=GOAL),
        _run("b", config, resumed_from="a", curve=(Evaluation(2.0, 0.81, 4.0),), goal=GOAL),
    ]
    (outcome,) = found(samples=starts).runs
    assert "reached 0.87" in str(outcome.missed)


def test_the_probe_that_a_run_goes_on_from_is_no_start_of_it() -> None:
    plan = found().plan
    assert plan is not None
    probe = _run("p", Config.data_parallel(16, 1), purpose="probe", seconds=45.0)
    nothing_left = _run("a", plan.config, resumed_from="p", curve=(), seconds=0.0)
    outcome = found(samples=[probe, nothing_left], plans=[("2026-01-02T09:00:00", plan)]).runs[0]
    assert [start.id for start in outcome.starts] == ["a"]
    assert outcome.seconds == 0.0
    assert outcome.plan is plan
    assert outcome.missed is None, "the weights of its probe meet the target"


def test_money_is_counted_at_the_price_of_each_device() -> None:
    priced = Cluster((Device("cpu", count=1, price_per_hour=3.6),))
    sample = _run("a", Config.data_parallel(16, 2))
    result = replace(found(samples=[sample]), cluster=priced)
    assert result.cost([sample]) == pytest.approx(11.0 * 2 * 0.001)


def test_whole_nodes_are_counted_in_device_seconds_too() -> None:
    sample = _run("a", Config.data_parallel(16, 2))
    by_node = Cluster((Device("cpu", per_node=4, bill="node"),))
    assert cost_of([sample], by_node) == pytest.approx(11.0 * 4)
    assert cost_of([sample], Cluster((Device("t4"),))) == pytest.approx(11.0 * 2), "measured elsewhere"


def test_what_a_run_goes_on_from_is_told_as_reused() -> None:
    probe = Sample(Config.data_parallel(16, 1), 2.0, 8.4, 0.6, curve=(Evaluation(2, 0.6, 17.0),), seconds=17.0, id="p")
    plan = found().plan
    assert plan is not None
    result = replace(found(samples=[probe]), plan=replace(plan, continues="p"))
    assert document(result)["profile"]["reused_device_seconds"] == pytest.approx(17.0)


def test_a_report_tells_the_prices_in_use_and_where_they_come_from() -> None:
    listed = Device("t4", price_per_hour=0.35, price_source="0.35 USD an hour at gcp, a list, 2026-09-20")
    cluster = Cluster((listed, Device("a100", price_per_hour=2.0, per_node=4, bill="node")))
    assert price_words(cluster) == [
        "t4 at 0.35 USD an hour at gcp, a list, 2026-09-20",
        "a100 at 2 USD an hour, as given, by whole nodes of 4",
    ]
    result = replace(found(), cluster=cluster)
    assert document(result)["prices"]["t4"] == {
        "price_per_hour": 0.35, "unit": "USD per hour", "source": listed.price_source
    }  # fmt: skip
    assert "Prices: t4 at 0.35 USD an hour at gcp" in page(result)
    assert "no prices are given" in page(found())


@given(st.text(max_size=40))
def test_no_text_can_become_markup(text: str) -> None:
    for made in (tag("p", text, title=text), table(["head"], [[text]], text)):
        inner = made.replace("<p title=", "").replace("</p>", "")
        assert "<script" not in inner.lower()
        assert "<" not in words(text)
    assert "<" not in data({"name": text})


@pytest.mark.parametrize(("seconds", "unit"), [(20, "seconds"), (600, "minutes"), (20_000, "hours"), (1e6, "days")])
def test_times_are_shown_in_a_unit_of_their_size(seconds: float, unit: str) -> None:
    assert clock(seconds)[1] == unit


@example(3.0, 8.0)
@given(st.floats(1e-3, 1e6), st.floats(1.0, 1e7))
def test_a_logarithmic_axis_has_round_numbers_about_its_values(low: float, ratio: float) -> None:
    axis = logarithmic([low, low * ratio])
    ticks = axis["tickvals"]
    assert ticks[0] <= low * 1.0001 or ratio < 8
    assert len(ticks) <= 15
    assert len(set(axis["ticktext"])) == len(ticks), "no two read the same"
    if ratio >= 1.2:
        assert sum(low <= tick <= low * ratio * 1.0001 for tick in ticks) >= min(3, np.log10(ratio))


@given(st.integers(1, 5000))
def test_workers_are_counted_in_whole_numbers(most: int) -> None:
    step = counted([1, most])["dtick"]
    assert isinstance(step, int)
    assert most / step <= 8 or step == 1


def test_figures_hold_every_config_measured_point_and_curve() -> None:
    sample = _run("a", Config.data_parallel(16, 2))
    result = found(samples=[sample])
    points = sum(len(trace["x"]) for trace in cost_time(result)["data"] if trace["name"].endswith(")"))
    assert points == 8
    measured = [trace for trace in epoch_times(result)["data"] if trace["mode"] == "markers"]
    assert [(trace["x"], trace["y"]) for trace in measured] == [([2], [5.0])]
    curves = learning_curves(result)
    assert curves is not None
    assert curves["data"][0]["y"] == [0.5, 0.95]
    assert curves["layout"]["annotations"][0]["text"] == "target 0.9"
