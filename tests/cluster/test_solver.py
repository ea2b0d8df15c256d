"""What solvers print stays out of our output."""

from __future__ import annotations

import os

import pytest

from cotune.cluster.solver import quietly


def test_what_native_code_prints_while_solving_is_not_seen(capfd: pytest.CaptureFixture[str]) -> None:
    print("before")
    with quietly():
        os.write(1, b"HighsMipSolverData: a debug line\n")
    print("after")
    assert capfd.readouterr().out == "before\nafter\n"


def test_output_comes_back_after_a_solver_failed(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(RuntimeError), quietly():
        raise RuntimeError
    os.write(1, b"seen")
    assert capfd.readouterr().out == "seen"
