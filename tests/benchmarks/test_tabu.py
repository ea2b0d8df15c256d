"""benchmarks/tabu.py: every recording gets an answer, those without a goal that can be planned too."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", ["lenet5-mnist-slices", "lm-text-slices", "cifar10dnn-cifar10-slices"])
def test_tabu_is_compared_with_the_grid_on_our_own_recordings(name: str) -> None:
    tabu = runpy.run_path(str(ROOT / "benchmarks" / "tabu.py"))
    found = tabu["compare"](ROOT / "recordings" / name, rounds=(50,), seeds=2)
    lines = list(tabu["lines"](found))
    assert len(lines) == 1
    assert ("nothing to compare" in lines[0]) == (found.planned == 0)
    assert all(gap >= -1e-9 for gap in found.gaps[50]), "the grid is exact"
    assert len(found.gaps[50]) == 2 * found.planned
