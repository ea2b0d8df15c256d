from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cotune.modelling.layouts.fitting import LogPrior, RobustLoss, most_likely
from cotune.modelling.layouts.layout import Layout, Layouts, enumerate_layouts
from cotune.modelling.layouts.memory import MEMORY, count_memory, log_memory
from cotune.modelling.layouts.seconds import COEFFICIENTS, count_terms, log_seconds, step_parts
from cotune.modelling.layouts.setting import Setting
from cotune.types import Floats
from modelling.layouts.settings import SMALL, lawful_rows, setting, some_layouts

THETA = LogPrior.of(COEFFICIENTS).centre


def seconds_of(*layouts: Layout) -> Floats:
    return np.exp(log_seconds(THETA, count_terms(Layouts.of(layouts), setting())))


def gib_of(*layouts: Layout) -> Floats:
    return np.exp(log_memory(LogPrior.of(MEMORY).centre, count_memory(Layouts.of(layouts), setting())))


def test_the_parts_of_a_step_without_a_pipeline_have_no_bubble() -> None:
    layouts = some_layouts(setting())
    parts = step_parts(THETA, count_terms(layouts, setting()))
    assert np.all(parts.bubble[layouts.pp == 1] == 0)
    assert np.all(parts.bubble[layouts.pp > 1] > 0)
    assert np.all(parts.total > parts.once)


def test_more_micro_batches_make_a_step_longer_but_the_bubble_a_smaller_share() -> None:
    few, many = Layout(2, 1, 4, 1, 1, 8), Layout(2, 1, 4, 1, 1, 64)
    parts = step_parts(THETA, count_terms(Layouts.of([few, many]), setting()))
    assert parts.total[1] > parts.total[0]
    assert parts.bubble[1] / parts.total[1] < parts.bubble[0] / parts.total[0]


def test_recomputing_takes_longer_and_less_memory() -> None:
    plain = Layout(8, 1, 1, 0, 4, 2)
    again = replace(plain, recompute=1)
    assert seconds_of(again)[0] > seconds_of(plain)[0]
    assert gib_of(again)[0] < gib_of(plain)[0]


def test_each_stage_of_sharding_takes_less_memory() -> None:
    gib = gib_of(*(Layout(8, 1, 1, shard, 1, 8) for shard in range(4)))
    assert np.all(np.diff(gib) < 0)


def test_tensor_parallelism_across_nodes_is_slower() -> None:
    inside, across = seconds_of(Layout(4, 8, 1, 0, 2, 8), Layout(2, 16, 1, 0, 2, 16))
    assert across > inside


def test_nothing_hides_the_latency_of_collectives_across_nodes() -> None:
    theta = THETA.copy()
    latency = [one.name for one in COEFFICIENTS].index("collectives beyond a node")
    terms = count_terms(Layouts.of([Layout(1, 16, 1, 0, 8, 4)]), setting())
    before = step_parts(theta, terms).total[0]
    theta[latency] = np.log(np.exp(theta[latency]) + 1e-3)
    assert step_parts(theta, terms).total[0] - before == pytest.approx(4 * SMALL.layers * 1e-3)


def test_gradients_of_whole_copies_hide_behind_the_last_backward_pass_where_they_are_cut_into_buckets() -> None:
    once, many = (Layouts.of([Layout(64, 1, 1, 0, *cut)]) for cut in ((8, 1), (1, 8)))
    where = setting()
    plain = replace(where, framework=replace(where.framework, buckets=False))

    def left(layouts: Layouts, at: Setting) -> float:
        return float(step_parts(THETA, count_terms(layouts, at)).once[0])

    assert left(once, plain) == pytest.approx(left(many, plain))
    assert left(once, where) < left(many, where) < left(many, plain)


@pytest.mark.parametrize("recompute", [0, 1])
def test_attention_that_is_not_fused_moves_and_keeps_its_scores(recompute: int) -> None:
    where = setting()
    plain = replace(where, framework=replace(where.framework, fused_attention=False))
    layouts = Layouts.of([Layout(1, 1, 1, 0, 2, 4, recompute)])
    seconds = [step_parts(THETA, count_terms(layouts, at)).compute[0] for at in (where, plain)]
    gib = [np.exp(log_memory(LogPrior.of(MEMORY).centre, count_memory(layouts, at)))[0] for at in (where, plain)]
    assert seconds[1] > seconds[0]
    assert gib[1] > gib[0]


def test_memory_of_a_pipeline_grows_with_micro_batches_in_flight_up_to_its_stages() -> None:
    gib = gib_of(*(Layout(1, 1, 8, 0, 1, count) for count in (1, 4, 8, 64)))
    assert gib[0] < gib[1] < gib[2]
    assert gib[2] == gib[3]


def test_the_fit_finds_coefficients_that_made_the_rows() -> None:
    rows = lawful_rows(SMALL, factor=1.5)
    ran = rows.take(rows.ran)
    terms = count_terms(ran.layouts, ran.setting)
    loss = RobustLoss(above=0.1, below=0.1, noise=0.03)
    theta = most_likely(lambda at: log_seconds(at, terms), ran.seconds, LogPrior.of(COEFFICIENTS), loss)
    assert np.max(np.abs(np.exp(log_seconds(theta, terms)) / ran.seconds - 1)) < 0.05
    assert abs(theta[0] - THETA[0] - np.log(1.5)) < 0.1


def test_a_straggler_moves_the_fit_less_than_a_run_that_was_too_fast() -> None:
    rows = lawful_rows(SMALL)
    few = rows.take(np.flatnonzero(rows.ran)[::7])
    terms = count_terms(few.layouts, few.setting)
    loss = RobustLoss(above=0.04, below=0.2, noise=0.08)

    def moved(factor: float) -> float:
        measured = few.seconds.copy()
        measured[0] *= factor
        theta = most_likely(lambda at: log_seconds(at, terms), measured, LogPrior.of(COEFFICIENTS), loss)
        return float(np.max(np.abs(theta - THETA)))

    assert moved(1.5) < moved(1 / 1.5)


def test_without_rows_the_prior_stands() -> None:
    layouts = enumerate_layouts(setting(), 8, 8).take(np.zeros(0, dtype=np.int64))
    terms = count_terms(layouts, setting())
    loss = RobustLoss(above=0.1, below=0.1, noise=0.03)
    found = most_likely(lambda at: log_seconds(at, terms), np.zeros(0), LogPrior.of(COEFFICIENTS), loss)
    assert np.array_equal(found, THETA)
