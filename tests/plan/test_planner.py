from __future__ import annotations

import math
import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cotune import registry
from cotune.errors import Infeasible
from cotune.forecast import Outlook
from cotune.lab.searches.tabu import Tabu
from cotune.plan.assess import assess
from cotune.plan.choose import choose
from cotune.plan.rates import rates
from cotune.plan.searches.grid import Grid
from cotune.remedies import listed
from cotune.space import Axis, Configs, Space
from cotune.types import Cluster, Config, Device, Goal, Job, Plan
from plan.outlooks import EXAMPLES, outlook_of

JOB = Job("made-up", examples=EXAMPLES)
CLUSTER = Cluster()
SPACE = Space((Axis("workers", (1, 2, 4, 8)), Axis("batch_size", (16, 64, 256, 1024))))
GOALS = st.builds(
    Goal,
    target=st.floats(0.6, 0.97),
    deadline=st.floats(1, 600),
    max_epochs=st.integers(1, 30),
    prefer=st.sampled_from(["cheap", "fast"]),
    max_cost=st.none() | st.floats(1, 5000),
)


def plan_of(goal: Goal, space: Space = SPACE, *, job: Job = JOB, cluster: Cluster = CLUSTER, seed: int = 0) -> Plan:
    return choose(job, goal, space, cluster, forecast=outlook_of, search=Grid(), seed=seed)


def slow_choice(goal: Goal, space: Space) -> tuple[float, Config] | None:
    """The definition in plain loops: every config, every draw, every epoch."""
    best: tuple[tuple[float, float, int], Config] | None = None
    outlook = outlook_of(space.configs(), goal.max_epochs)
    learning = outlook.learning
    assert learning is not None
    for row, config in enumerate(outlook.configs):
        spent, met = [], 0
        for z_time, shown in zip(outlook.z_time, learning.shown[learning.recipe[row]], strict=True):
            needed = math.inf
            for epoch in range(1, goal.max_epochs + 1):
                if shown[epoch - 1] >= goal.target:
                    needed = epoch
                    break
            pace = outlook.epoch_seconds[row] * math.exp(outlook.spread[row] * z_time)
            seconds = outlook.startup[row] + min(needed, goal.max_epochs) * (pace + outlook.overhead[row])
            spent.append(seconds)
            in_budget = goal.max_cost is None or seconds * config.workers <= goal.max_cost
            met += needed <= goal.max_epochs and seconds <= goal.deadline and in_budget
        if met / len(spent) >= goal.confidence:
            seconds = float(np.median(spent))
            cost = seconds * config.workers
            key = (cost, seconds, config.workers) if goal.prefer == "cheap" else (seconds, cost, config.workers)
            if best is None or key < best[0]:
                best = (key, config)
    return None if best is None else (best[0][0], best[1])


@settings(max_examples=40, deadline=None)
@given(GOALS)
def test_a_plan_equals_brute_force(goal: Goal) -> None:
    expected = slow_choice(goal, SPACE)
    if expected is None:
        with pytest.raises(Infeasible):
            plan_of(goal)
        return
    found = plan_of(goal)
    assert found.config == expected[1]
    value = found.forecast.cost.mid if goal.prefer == "cheap" else found.forecast.seconds.mid
    assert value == pytest.approx(expected[0])


@settings(max_examples=60, deadline=None)
@given(GOALS, st.floats(1, 10))
def test_a_longer_deadline_never_costs_more(goal: Goal, factor: float) -> None:
    goal = replace(goal, prefer="cheap")
    try:
        tight = plan_of(goal)
    except Infeasible:
        return
    assert goal.deadline is not None
    loose = plan_of(replace(goal, deadline=goal.deadline * factor))
    assert loose.forecast.cost.mid <= tight.forecast.cost.mid + 1e-9


@pytest.mark.parametrize(("saved", "wins"), [(0.05, False), (0.15, True)])
def test_a_batch_that_no_run_has_trained_must_save_a_tenth(saved: float, wins: bool) -> None:
    space = Space((Axis("workers", (1,)), Axis("batch_size", (64, 256))))

    def outlook(configs: Configs, max_epochs: int) -> Outlook:
        made = outlook_of(configs, max_epochs, noise=0.001)
        assert made.learning is not None
        alike = replace(
            made.learning,
            shown=np.repeat(made.learning.shown[:1], 2, axis=0),
            source=np.array(["measured", "interpolated"], dtype=object),
        )
        return replace(made, learning=alike, epoch_seconds=np.array([10.0, 10.0 * (1 - saved)]))

    goal = Goal(target=0.9, deadline=1000)
    plan = choose(JOB, goal, space, CLUSTER, forecast=outlook, search=Grid())
    assert plan.config.batch_size == (256 if wins else 64)
    assert ("too little for a batch that no run has trained" in plan.reason) is not wins


def test_a_rival_that_costs_the_same_is_not_said_to_cost_more() -> None:
    space = Space((Axis("workers", (1,)), Axis("batch_size", (64, 65))))

    def outlook(configs: Configs, max_epochs: int) -> Outlook:
        made = outlook_of(configs, max_epochs)
        assert made.learning is not None
        alike = replace(made.learning, shown=np.repeat(made.learning.shown[:1], 2, axis=0))
        return replace(made, learning=alike, epoch_seconds=np.array([10.0, 10.001]))

    plan = choose(JOB, Goal(target=0.9, deadline=1000), space, CLUSTER, forecast=outlook, search=Grid())
    assert plan.reason.endswith("costs as much")


def test_the_same_seed_gives_the_same_plan() -> None:
    goal = Goal(target=0.9, deadline=300)
    for search in (Grid(), Tabu(rounds=200)):
        first, second = (
            choose(JOB, goal, SPACE, CLUSTER, forecast=outlook_of, search=search, seed=7) for _ in range(2)
        )
        assert first == second


@pytest.mark.parametrize("name", registry.names("search"))
def test_every_search_finds_the_bottom_of_a_bowl(name: str) -> None:
    space = Space((Axis("workers", tuple(range(1, 9))), Axis("batch_size", tuple(range(16, 32)))))

    def bowl(points: np.ndarray) -> np.ndarray:
        return ((points - np.array([5, 9])) ** 2).sum(axis=1, keepdims=True).astype(float)

    found = registry.load("search", name)().search(space, bowl, random.Random(0))
    assert found == (5, 9)


def test_the_forecast_of_a_plan_holds_intervals_sources_and_units() -> None:
    forecast = plan_of(Goal(target=0.9, deadline=300)).forecast
    assert forecast.seconds.low < forecast.seconds.mid < forecast.seconds.high
    assert forecast.seconds.source == "interpolated"
    assert forecast.cost.unit == "device-seconds"
    assert forecast.probability >= 0.9


def test_the_cap_is_the_most_epochs_that_the_deadline_allows() -> None:
    goal = Goal(target=0.9, deadline=60, prefer="fast")
    found = assess(outlook_of(SPACE.configs(), goal.max_epochs), goal, CLUSTER, 1)
    plan = plan_of(goal)
    row = SPACE.row(plan.config)
    assert row is not None
    each = float(np.median(found.outlook.each(np.array([row]))))
    begun = float(np.median(found.outlook.begun(np.array([row]))))
    assert plan.epochs == min(goal.max_epochs, int((60 - begun) / each))
    assert plan_of(Goal(target=0.9)).epochs == Goal().max_epochs


def test_prices_turn_device_seconds_into_money_and_whole_nodes_are_billed() -> None:
    configs = Configs.of([Config.data_parallel(32, 3, "t4", servers=1), Config.data_parallel(32, 5, "t4")])
    by_device = Cluster((Device("t4", 8, 3.6, 4),))
    by_node = Cluster((Device("t4", 8, 3.6, 4, "node"),))
    assert rates(configs, by_device) == pytest.approx([4 * 0.001, 5 * 0.001])
    assert rates(configs, by_node) == pytest.approx([4 * 0.001, 8 * 0.001])
    assert by_node.unit == "USD"


def test_more_workers_than_devices_are_never_planned() -> None:
    cluster = Cluster((Device("cpu", count=2),))
    plan = plan_of(Goal(target=0.9, prefer="fast"), cluster=cluster)
    assert plan.config.workers <= 2


def test_a_fixed_recipe_plans_the_layout_without_an_accuracy_model() -> None:
    def seconds_only(configs: Configs, max_epochs: int) -> Outlook:
        return replace(outlook_of(configs, max_epochs), learning=None)

    space = Space((Axis("workers", (1, 2, 3, 4)), Axis("accumulate", (1, 2))), global_batch=256)
    plan = choose(JOB, Goal(epochs=5, prefer="fast"), space, CLUSTER, forecast=seconds_only, search=Grid())
    assert plan.config.global_batch == 256
    assert plan.epochs == 5
    assert plan.forecast.accuracy is None
    assert plan.config.workers != 3  # 256 does not divide by 3


def test_prefer_accurate_uses_the_time_there_is() -> None:
    goal = Goal(deadline=60, prefer="accurate")
    best = plan_of(goal)
    assert best.forecast.seconds.high <= 60 * 1.05
    cheap = plan_of(Goal(target=0.9, deadline=60))
    assert best.forecast.accuracy is not None
    assert cheap.forecast.accuracy is not None
    assert best.forecast.accuracy.mid > cheap.forecast.accuracy.mid


def test_prefer_accurate_takes_what_can_be_counted_on_and_not_the_boldest_guess() -> None:
    def bold(configs: Configs, max_epochs: int) -> Outlook:
        outlook = outlook_of(configs, max_epochs)
        learning = outlook.learning
        assert learning is not None
        shown, medians = learning.shown.copy(), np.median(learning.shown, axis=1)
        guessed = int(np.argmin(medians[:, -1]))
        shown[guessed] = medians.max(axis=0) + 0.01 + 0.3 * outlook.z_time[:, None]
        return replace(outlook, learning=replace(learning, shown=shown))

    goal = Goal(deadline=60, prefer="accurate")
    plan = choose(JOB, goal, SPACE, CLUSTER, forecast=bold, search=Grid())
    assert plan.config == plan_of(goal).config


@pytest.mark.parametrize(
    ("goal", "constraint", "words"),
    [
        (Goal(target=0.9, deadline=2), "deadline", "the deadline binds: it takes"),
        (Goal(target=0.9, max_cost=1), "max_cost", "the cost binds"),
        (Goal(target=0.999, deadline=100), "target", "is the best that can be counted on"),
    ],
)
def test_an_infeasible_goal_names_what_binds_and_three_nearest_plans(goal: Goal, constraint: str, words: str) -> None:
    with pytest.raises(Infeasible, match=words) as caught:
        plan_of(goal)
    assert caught.value.constraint == constraint
    assert len(caught.value.nearest) == 3
    assert all(near.epochs >= near.epochs_needed.high for near in caught.value.nearest)  # type: ignore[attr-defined]
    assert caught.value.by is not None
    assert caught.value.by > 0
    assert caught.value.exit_code == 5
    best = caught.value.facts["plan"]
    assert isinstance(best, Plan)
    assert best.forecast.probability < goal.confidence
    assert all(rival.probability <= best.forecast.probability for rival in best.rivals)


def test_constraints_that_bind_together_are_each_told_alone() -> None:
    with pytest.raises(Infeasible, match=r"at once: accuracy .* is the best .*, and the first epoch takes") as caught:
        plan_of(Goal(target=0.999, deadline=0.01))
    assert caught.value.constraint == "several"
    assert len(caught.value.nearest) == 3


def test_the_deadline_that_binds_is_enough_when_granted() -> None:
    with pytest.raises(Infeasible) as caught:
        plan_of(Goal(target=0.9, deadline=2))
    least = float(str(caught.value).split("it takes ")[1].split(" s")[0])
    plan_of(Goal(target=0.9, deadline=least * 1.01))
    with pytest.raises(Infeasible):
        plan_of(Goal(target=0.9, deadline=least * 0.97))


@pytest.mark.parametrize(
    "goal", [Goal(target=0.9, deadline=2), Goal(target=0.9, max_cost=1), Goal(target=0.999, deadline=100)]
)
def test_what_is_offered_instead_would_be_met(goal: Goal) -> None:
    with pytest.raises(Infeasible) as caught:
        plan_of(goal)
    relaxed = caught.value.facts["relaxed"]
    assert isinstance(relaxed, Goal)
    assert plan_of(relaxed).forecast.probability >= goal.confidence


def test_a_target_that_only_curves_drawn_on_would_meet_is_said_to_be_one_that_may_be() -> None:
    def short(configs: Configs, max_epochs: int) -> Outlook:
        outlook = outlook_of(configs, max_epochs)
        assert outlook.learning is not None
        return replace(outlook, learning=replace(outlook.learning, told=np.full(len(outlook.learning.told), 3.0)))

    for forecast, words in ((outlook_of, "would be met"), (short, "may be met, in a longer run than any so far")):
        with pytest.raises(Infeasible) as caught:
            choose(JOB, Goal(target=0.999, deadline=100), SPACE, CLUSTER, forecast=forecast, search=Grid())
        assert f"  {words}, with the same --recording: cotune plan" in listed(caught.value)


def test_the_nearest_are_told_by_the_quantile_that_binds_not_by_medians() -> None:
    with pytest.raises(Infeasible) as caught:
        plan_of(Goal(target=0.9, deadline=2))
    _, binds, first, *others = caught.value.facts["lines"]  # type: ignore[misc]
    least = binds.split("it takes ")[1].split(",")[0]
    assert f": {least}, " in first
    assert len(others) == 2


def test_a_metric_that_should_fall_is_planned_the_same_way() -> None:
    def loss(configs: Configs, max_epochs: int) -> Outlook:
        outlook = outlook_of(configs, max_epochs)
        assert outlook.learning is not None
        loss = outlook.learning.shown - 1  # minus the loss, which rises
        return replace(outlook, learning=replace(outlook.learning, shown=loss))

    job = replace(JOB, metric="loss", better="lower")
    plan = choose(job, Goal(target=0.1, deadline=300), SPACE, CLUSTER, forecast=loss, search=Grid())
    assert plan.config == plan_of(Goal(target=0.9, deadline=300)).config
    assert plan.forecast.accuracy is not None
    assert plan.forecast.accuracy.mid == pytest.approx(0.1, abs=0.05)


def test_tabu_never_beats_the_grid_and_often_meets_it() -> None:
    goal = Goal(target=0.9, deadline=300)
    best = plan_of(goal).forecast.cost.mid
    costs = [
        choose(JOB, goal, SPACE, CLUSTER, forecast=outlook_of, search=Tabu(rounds=300), seed=seed).forecast.cost.mid
        for seed in range(10)
    ]
    assert min(costs) == pytest.approx(best)
    assert all(cost >= best - 1e-9 for cost in costs)


def test_what_is_trained_already_is_not_paid_again_and_the_forecast_stays_whole() -> None:
    goal = Goal(target=0.9, max_epochs=30)
    fresh = plan_of(goal)

    def trained(configs: Configs) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        return np.where(configs.global_batch == fresh.config.global_batch, 2.0, 0.0)

    going_on = choose(JOB, goal, SPACE, CLUSTER, forecast=outlook_of, search=Grid(), trained=trained)
    assert going_on.forecast == fresh.forecast
    assert going_on.rest is not None
    assert going_on.rest.epochs_needed is not None
    assert fresh.forecast.epochs_needed is not None
    assert going_on.rest.epochs_needed.mid == fresh.forecast.epochs_needed.mid - 2
    assert going_on.rest.cost.mid < fresh.forecast.cost.mid
    assert fresh.rest is None


def test_weights_that_meet_the_target_are_sure_where_nothing_else_is() -> None:
    goal = Goal(target=0.995, max_epochs=30)
    with pytest.raises(Infeasible):
        plan_of(goal)

    def met(configs: Configs) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        return np.where(configs.global_batch == 64, np.inf, 0.0)

    with pytest.raises(Infeasible):
        choose(JOB, goal, SPACE, CLUSTER, forecast=outlook_of, search=Grid(), trained=met)
    found = choose(JOB, goal, SPACE, CLUSTER, forecast=outlook_of, search=Grid(), trained=met, go_on=True)
    assert found.config.global_batch == 64
    assert found.rest is not None
    assert (found.rest.seconds.high, found.rest.probability) == (0.0, 1.0)
    with pytest.raises(Infeasible):
        choose(JOB, replace(goal, deadline=1.0), SPACE, CLUSTER, forecast=outlook_of, search=Grid(), trained=met)
