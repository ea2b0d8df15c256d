"""A short turn of the campaign in benchmarks/fuzz.py: broken input ends in an error of ours, or is read."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

CASES = 60


@pytest.fixture(scope="module")
def fuzz() -> ModuleType:
    path = Path(__file__).parents[1] / "benchmarks" / "fuzz.py"
    found = importlib.util.spec_from_file_location("fuzz", path)
    assert found is not None
    assert found.loader is not None
    made = importlib.util.module_from_spec(found)
    sys.modules["fuzz"] = made
    found.loader.exec_module(made)
    return made


def test_broken_input_makes_no_traceback_and_no_hang(fuzz: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", "")  # the campaign sets both, and they are given back here
    monkeypatch.setenv("COTUNE_STORE", "")
    verdicts = list(fuzz.campaign(CASES, seed=4))
    assert len(verdicts) >= CASES
    assert {kind for kind, _ in verdicts} == set(fuzz.KINDS)
    assert [problem for _, problem in verdicts if problem] == []
