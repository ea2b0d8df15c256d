"""Plans with their neighbours, batches chosen along, and what is said when nothing will do."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from cotune.errors import Infeasible, UsageError
from cotune.placement.answers import PlacementGoal, answer
from cotune.placement.placements.exact import Exact
from cotune.placement.problems import Placement, Problem
from cotune.placement.profiles import Profile, parse
from cotune.placement.testing import ctr
from cotune.types import Stage


@pytest.mark.parametrize("seed", range(6))
def test_neighbours_are_faster_and_dearer_or_slower_and_cheaper(seed: int) -> None:
    rng = random.Random(seed)
    profile = parse(ctr(rng, 8, 2))
    found = answer(profile, PlacementGoal(4096 / rng.uniform(0.1, 0.4)))
    plan = found.plan
    assert found.optimal
    assert found.bound == pytest.approx(plan.cost_per_million)
    if found.next_faster is not None:
        assert found.next_faster.throughput > plan.throughput
        assert found.next_faster.cost_per_million >= plan.cost_per_million * (1 - 1e-9)
    if found.next_cheaper is not None:
        assert found.next_cheaper.cost_per_million < plan.cost_per_million
        assert found.next_cheaper.throughput < plan.throughput


def test_fast_is_at_least_as_fast_as_cheap_and_needs_limits() -> None:
    data = ctr(random.Random(3), 6, 2)
    profile, asked = parse(data), PlacementGoal(4096.0)
    quick = answer(profile, replace(asked, prefer="fast"))
    assert quick.plan.throughput >= answer(profile, asked).plan.throughput
    assert quick.next_faster is None
    data["types"][0]["limit"] = None
    with pytest.raises(UsageError, match="cpu8 has none"):
        answer(parse(data), replace(asked, prefer="fast"))


def affine(rng: random.Random) -> dict[str, Any]:
    data = ctr(rng, 5, 2)
    for layer in data["layers"]:
        layer["compute_fixed"] = [seconds * rng.uniform(0.2, 0.8) for seconds in layer["compute"]]
        layer["example_bytes"] = 1e5
    data["types"][1]["memory_bytes"] = 4e9
    return data


@pytest.mark.parametrize("seed", range(5))
def test_the_batch_chosen_is_the_best_of_each_batch_alone(seed: int) -> None:
    profile = parse(affine(random.Random(seed)))
    batches = (1024.0, 4096.0, 16384.0)
    joint = answer(profile, PlacementGoal(8000.0, batches=batches)).plan
    alone = [Exact().solve(Problem.of(profile, 8000.0, batch=batch)).placement for batch in batches]
    assert joint.cost_per_million == pytest.approx(min(one.cost_per_million for one in alone if one is not None))


def test_a_larger_batch_spreads_what_is_fixed_until_memory_is_full() -> None:
    layer = {"compute": [1.0], "compute_parallel": [1.0], "compute_fixed": [0.5], "example_bytes": 1.0}
    data = {"batch": 10, "types": [{"name": "a", "price_per_hour": 1.0, "memory_bytes": 40}], "layers": [layer]}
    plans = [answer(parse(data), PlacementGoal(1.0, batches=(batch,))).plan for batch in (10.0, 40.0, 80.0)]
    assert [plan.units for plan in plans] == [1, 1, 2]
    assert plans[0].seconds == pytest.approx(0.5 + 0.5)
    assert plans[1].seconds == pytest.approx(0.5 + 0.5 * 4)
    assert plans[1].cost_per_million < plans[0].cost_per_million


def test_a_stage_of_a_measured_table_must_fit_its_device_too() -> None:
    """The fast type cannot hold the first layer; four units of the small one hold their examples, two do not."""
    layers = [{"weight_bytes": 40.0}, {"weight_bytes": 1.0, "example_bytes": 8.0}]
    types = [
        {"name": "roomy", "price_per_hour": 1.0, "limit": 8},
        {"name": "fast", "price_per_hour": 1.0, "memory_bytes": 30.0, "limit": 8},
    ]
    stages = [
        {"type": name, "first": first, "last": last, "units": units, "seconds": seconds * (1 + last - first) / units}
        for name, seconds in (("roomy", 10.0), ("fast", 1.0))
        for first, last in ((0, 0), (1, 1), (0, 1))
        for units in (1, 2, 4)
    ]
    profile = parse({"batch": 10, "types": types, "layers": layers, "stage_seconds": stages})
    held = [[(s.device, s.first, s.workers) for s in stages] for stages in every_plan(profile)]
    assert not any(device == "fast" and first == 0 for plan in held for device, first, _ in plan)
    assert {units for plan in held for device, _, units in plan if device == "fast"} == {4}


def every_plan(profile: Profile) -> list[tuple[Stage, ...]]:
    """Return the cheapest plan and the fastest for many throughputs."""
    cheap = [PlacementGoal(rate) for rate in (0.5, 1.0, 2.0, 4.0)]
    return [answer(profile, asked).plan.stages for one in cheap for asked in (one, replace(one, prefer="fast"))]


def test_an_infeasible_throughput_names_what_is_nearest() -> None:
    profile = parse(ctr(random.Random(1), 6, 2))
    fastest = answer(profile, PlacementGoal(1.0, prefer="fast")).plan
    with pytest.raises(Infeasible, match=r"the fastest takes .* less") as caught:
        answer(profile, PlacementGoal(fastest.throughput * 1.25))
    nearest = [plan for plan in caught.value.nearest if isinstance(plan, Placement)]
    assert nearest[0].throughput == pytest.approx(fastest.throughput)
    assert "20.0% less" in str(caught.value)
    assert len(nearest) == 3
    assert caught.value.by == pytest.approx(fastest.throughput * 0.25)
    assert caught.value.exit_code == 5


def test_a_throughput_beyond_every_number_of_units_is_said_to_be_so() -> None:
    layer = {"compute": [1.0], "compute_parallel": [0.5]}
    profile = parse({"batch": 10, "types": [{"name": "a", "price_per_hour": 1.0}], "layers": [layer]})
    with pytest.raises(Infeasible) as caught:
        answer(profile, PlacementGoal(21.0))
    assert caught.value.constraint == "throughput"
    nearest = [plan for plan in caught.value.nearest if isinstance(plan, Placement)]
    assert 19.8 <= nearest[0].throughput < 20.0  # half of its work is never shared: two tenths of a second at least
    assert len(nearest) == 3
    assert caught.value.by == pytest.approx(21.0 - nearest[0].throughput)
