from __future__ import annotations

from dataclasses import replace
from math import comb

import numpy as np
import pytest

from cotune.modelling.layouts.layout import Layout, Layouts
from cotune.modelling.layouts.predictor import LayoutLearner, LayoutRows
from cotune.modelling.layouts.stalls import Stalls, exchanges
from cotune.types import Floats, Mask
from modelling.layouts.settings import LARGE, SMALL, lawful_rows

PER_NODE = 8
STALL = 0.5


def pipelines(nodes: tuple[int, ...]) -> Layouts:
    return Layouts.of(
        Layout(nodes_ * PER_NODE // (tp * pp), tp, pp, 1, 1, m)
        for nodes_ in nodes
        for tp in (1, 2, 4)
        for pp in (1, 2, 4)
        for m in (4, 8, 16, 32)
    )


def two_kinds(layouts: Layouts, seed: int = 0) -> tuple[Floats, Floats, Mask]:
    """The law, what was measured, and which runs stalled: pipelines, more often the more nodes."""
    rng = np.random.default_rng(seed)
    nodes = layouts.gpus / PER_NODE
    law = 0.05 * layouts.accumulate + 0.2
    stalled = (layouts.pp > 1) & (rng.random(len(layouts)) < np.minimum(nodes / 36, 1))
    return law, (law + STALL * stalled * exchanges(layouts, PER_NODE)) * rng.lognormal(0, 0.03, len(law)), stalled


def test_the_seconds_of_an_exchange_and_which_runs_stalled_are_found() -> None:
    layouts = pipelines((2, 8, 16, 32))
    law, measured, stalled = two_kinds(layouts)
    found, chance = Stalls.assumed().fit(layouts, PER_NODE, law, measured)
    assert found.seconds == pytest.approx(STALL, rel=0.05)
    assert np.array_equal(chance > 0.5, stalled)


def test_a_job_of_the_whole_pool_cannot_avoid_its_bad_nodes() -> None:
    layouts = pipelines((2, 8, 16, 32))
    law, measured, _ = two_kinds(layouts)
    found, _ = Stalls.assumed().fit(layouts, PER_NODE, law, measured)
    pool, half = (Layout(dp, 2, 4, 1, 1, 8) for dp in (64, 32))
    beyond = Layouts.of([pool, half, replace(pool, dp=256, pp=1), replace(pool, dp=8, pp=1)])
    chance = found.probability(beyond, PER_NODE)
    assert chance[0] > 0.95 > chance[1] > chance[3]
    assert chance[1] > chance[2] > chance[3]


@pytest.mark.parametrize("bad", [1, 2, 5])
def test_the_odds_are_those_of_drawing_nodes_from_a_pool(bad: int) -> None:
    stalls = replace(Stalls.assumed(), weights=np.array([np.log(bad), 0.0, 0.0]))
    layouts = Layouts.of(Layout(nodes * PER_NODE, 1, 1, 0, 1, 1) for nodes in (2, 8, 16, 32, 48))
    drawn = [1 - comb(64 - bad, nodes) / comb(64, nodes) for nodes in (2, 8, 16, 32, 48)]
    assert stalls.probability(layouts, PER_NODE) == pytest.approx(drawn, abs=0.03)


def test_pipelines_between_tensor_groups_of_many_nodes_are_a_kind_of_their_own() -> None:
    layouts = Layouts.of(Layout(dp, tp, 2, 1, 1, m) for dp in (1, 2, 4) for tp in (8, 16, 32) for m in (4, 8, 16, 32))
    law = 0.05 * layouts.accumulate + 0.2
    wide = layouts.tp == 32
    found, _ = Stalls.assumed().fit(layouts, PER_NODE, law, law + STALL * wide * exchanges(layouts, PER_NODE))
    chance = found.probability(layouts, PER_NODE)
    assert chance[wide].min() > 0.5 > chance[~wide].max()


def test_a_table_without_stalls_leaves_forecasts_as_they_are() -> None:
    layouts = pipelines((2, 8, 16, 32))
    law, measured, _ = two_kinds(layouts)
    found, chance = Stalls.assumed().fit(layouts, PER_NODE, law, np.minimum(measured, law * 1.05))
    assert chance.max() < 0.5
    healthy = np.column_stack([0.9 * law, law, 1.1 * law])
    assert np.array_equal(found.told(healthy, layouts, PER_NODE)[:, 1], law)


def test_nothing_stalls_inside_a_node() -> None:
    one_node = pipelines((1,))
    assert not exchanges(one_node, PER_NODE).any()
    assert not Stalls.assumed().probability(one_node, PER_NODE).any()


def test_a_model_is_forecast_to_stall_where_another_one_did() -> None:
    rows = lawful_rows(SMALL, 1.2, nodes=(2, 8, 32))
    slow = np.random.default_rng(0).random(len(rows.seconds)) < rows.layouts.gpus / PER_NODE / 32
    extra = STALL * (slow & (rows.layouts.pp > 1)) * exchanges(rows.layouts, PER_NODE)
    table = LayoutRows(rows.setting, rows.layouts, rows.seconds + extra, rows.gib)
    nothing = lawful_rows(LARGE, 1.2).take(np.zeros(0, dtype=np.int64))
    layouts = Layouts.of([Layout(16, 4, 4, 1, 1, 4)])
    plain, more = (LayoutLearner([one]).fit(nothing).predict(layouts).seconds[0] for one in (rows, table))
    expected = STALL * exchanges(layouts, PER_NODE)[0]
    assert more[1] - plain[1] == pytest.approx(expected, rel=0.2)
    assert more[2] > more[1]
