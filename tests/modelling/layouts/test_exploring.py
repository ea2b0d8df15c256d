from __future__ import annotations

from dataclasses import replace

import numpy as np

from cotune.modelling.layouts.choosing import MOST_EXPLORED, compared, most_telling
from cotune.modelling.layouts.fitted_law import PACE, SECONDS, STRANGE, STRANGE_PACE, CountedLaw, FittedLaw
from cotune.modelling.layouts.fitting import LogPrior
from cotune.modelling.layouts.layout import LayoutRows
from cotune.modelling.layouts.seconds import COEFFICIENTS, RESOURCES, count_terms, log_seconds
from cotune.modelling.layouts.setting import DTENSOR, Machine, Setting
from modelling.layouts.settings import SMALL, some_layouts

CORE = Machine("core", 4, 2e10, 1e10, 1e9, 1e8, float("inf"), overlaps=False)
WHERE = Setting(replace(SMALL, layers=4, hidden=64, heads=4, kv_heads=4, ffn=172, vocab=256), CORE, DTENSOR)
PACES = np.array([0.3, 1.5, 4.0, 4.5, 0.0])  # of arithmetic, launches, latency, network and attention, as logarithms
BEFORE = LogPrior.of(COEFFICIENTS)


def rows_of_a_strange_machine() -> LayoutRows:
    layouts = some_layouts(WHERE, nodes=(1, 2), batch=16)
    seconds = np.exp(log_seconds(BEFORE.centre + RESOURCES @ PACES, count_terms(layouts, WHERE)))
    return LayoutRows(WHERE, layouts, seconds, np.full(len(seconds), np.nan))


def error_after(rows: LayoutRows, law: CountedLaw, pace: float, count: int) -> float:
    """The mean error on the rest after measuring one by one what tells most, or what is next in a random order."""
    used: list[int] = []
    shuffled = np.random.default_rng(0).permutation(len(rows.seconds))
    for _ in range(count):
        left = np.setdiff1d(np.arange(len(rows.seconds)), used)
        if law is STRANGE:
            fitted = FittedLaw.fit(law, [rows.take(np.array(used, dtype=np.int64))], BEFORE, pace)
            here = rows.layouts.take(left)
            speed = 1 / np.exp(fitted.expected(here, WHERE)[0])
            groups = np.zeros(len(left), dtype=np.int64)
            used.append(int(left[most_telling(fitted.covariance([(here, WHERE)]), speed, groups, 1)[0]]))
        else:
            used.append(int(shuffled[len(used)]))
    fitted = FittedLaw.fit(law, [rows.take(np.array(used))], BEFORE, pace)
    rest = np.setdiff1d(np.arange(len(rows.seconds)), used)
    return float(np.mean(np.abs(fitted.predict(rows.layouts.take(rest), WHERE)[:, 1] / rows.seconds[rest] - 1)))


def test_paces_of_a_machine_that_nobody_knows_are_learnt_from_eight_layouts() -> None:
    rows = rows_of_a_strange_machine()
    assert error_after(rows, STRANGE, STRANGE_PACE, 8) < 0.1 < error_after(rows, SECONDS, PACE, 8)


def test_every_coefficient_is_the_pace_of_one_resource_or_of_the_program() -> None:
    assert RESOURCES.shape == (len(COEFFICIENTS), len(PACES))
    shared = RESOURCES[:, :-1]
    assert set(shared.sum(axis=1)) == {0.0, 1.0}
    assert [one.name for one, row in zip(COEFFICIENTS, shared, strict=True) if not row.any()] == [
        "collectives between sends", "launches of gathers", "collectives beyond a node between sends",
    ]  # fmt: skip


def test_the_layout_that_many_others_depend_on_comes_first_and_its_twin_last() -> None:
    covariance = np.array([[1.0, 0.9, 0.9, 0.0], [0.9, 1.0, 0.8, 0.0], [0.9, 0.8, 1.0, 0.0], [0.0, 0.0, 0.0, 0.5]])
    assert most_telling(covariance, np.ones(4), np.zeros(4, dtype=np.int64), 4)[:2] == [0, 3]


def test_of_too_many_layouts_the_fastest_and_some_of_the_others_are_compared() -> None:
    seconds = np.arange(5000, dtype=float)
    found = compared(seconds, np.arange(5000))
    assert len(found) == len(set(found.tolist())) == MOST_EXPLORED
    assert set(range(MOST_EXPLORED // 2)) <= set(found.tolist())
    assert found.max() == 4999
