from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cotune.placement.fits import LayerTiming, MeasuredNetwork, Transfer, fitted
from cotune.placement.problems import Problem
from cotune.placement.profiles import parse

UNITS, BATCHES = (1, 2, 4), (256, 1024)
seconds = st.floats(1e-4, 10)


@settings(deadline=None)  # the first one imports scipy
@given(seconds, seconds, seconds)
def test_letters_that_made_the_seconds_are_found_again(fixed: float, serial: float, shared: float) -> None:
    points = [(b, k, fixed + serial * b + shared * b / k) for b, k in product((0.25, 1.0), UNITS)]
    form = fitted(points)
    assert form.miss < 1e-6
    for scale, units, took in points:
        if scale == 1.0:
            assert form.at(units) == pytest.approx(took, rel=1e-6)
    assert 0 <= form.parallel <= 1


def test_one_batch_and_one_count_tell_nothing_apart() -> None:
    form = fitted([(1.0, 1, 2.0)])
    assert (form.whole, form.fixed, form.parallel) == (pytest.approx(2.0), 0.0, 1.0)


def network(sync: float, overlap: bool = False, saved: float = 0.0) -> MeasuredNetwork:
    """Three layers on two types, with Amdahl's law and something to synchronise; together they save twice `saved`."""
    types: list[dict[str, Any]] = [
        {"name": "cpu", "price_per_hour": 0.04, "limit": 6},
        {"name": "gpu", "price_per_hour": 2.0, "limit": 1},
    ]
    timings = [
        LayerTiming(kind, layer, batch, units, batch / 1024 * (0.01 + work / units), sync if units > 1 else 0.0)
        for kind, work, counts in (("cpu", 0.4, UNITS), ("gpu", 0.02, (1,)))
        for layer, batch, units in product(range(3), BATCHES, counts)
    ]
    timings += [
        LayerTiming(each.type, None, each.batch, each.units, 3 * each.compute - 2 * saved, 3 * each.sync)
        for each in timings
        if each.layer == 0
    ]
    transfers = [
        Transfer(kind, layer, batch, 1e-3 * batch / 1024)
        for kind, layer, batch in product(("cpu", "gpu"), (1, 2), BATCHES)
    ]
    return MeasuredNetwork(
        "net", 1024, types, [{"name": f"fc{place}"} for place in range(3)], timings, transfers, overlap
    )


def test_what_fits_needs_no_table_and_plans_as_measured() -> None:
    found = network(sync=0.0)
    profile = found.profile()
    assert profile["missed"] == []
    assert "stage_seconds" not in profile
    problem = Problem.of(parse(profile), 1.0, overlap=False)
    for first, last, units in ((0, 2, 1), (0, 0, 4), (1, 1, 2), (1, 2, 2)):
        assert problem.stages.seconds(0, first, last, units) == pytest.approx(found.stage("cpu", first, last, units))


def test_where_a_form_misses_only_measured_counts_can_be_planned() -> None:
    found = network(sync=0.2)
    profile = found.profile()
    assert {entry["type"] for entry in profile["missed"]} == {"cpu"}
    listed = {(row["type"], row["units"]) for row in profile["stage_seconds"]}
    assert listed == {("cpu", 1), ("cpu", 2), ("cpu", 4), ("gpu", 1)}
    problem = Problem.of(parse(profile), 1.0)
    assert problem.stages.seconds(0, 1, 1, 2) == pytest.approx(0.01 + 0.2 + 0.2 + 2 * 1e-3 / 2)
    assert problem.stages.seconds(0, 1, 1, 3) == float("inf")


def test_a_link_works_while_the_unit_computes() -> None:
    apart, together = network(sync=0.2), network(sync=0.2, overlap=True)
    assert together.stage("cpu", 1, 1, 2) == pytest.approx(max(0.01 + 0.2, 0.2 + 1e-3))
    assert apart.stage("cpu", 1, 1, 2) > together.stage("cpu", 1, 1, 2)


def test_layers_of_one_stage_save_what_they_save_all_together() -> None:
    plain, joint = network(sync=0.0), network(sync=0.0, saved=0.004)
    for units in UNITS:
        assert joint.stage("cpu", 0, 2, units) == pytest.approx(plain.stage("cpu", 0, 2, units) - 0.008)
        assert joint.stage("cpu", 1, 2, units) == pytest.approx(plain.stage("cpu", 1, 2, units) - 0.004)
        assert joint.stage("cpu", 1, 1, units) == plain.stage("cpu", 1, 1, units)
