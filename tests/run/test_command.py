from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotune.errors import UsageError
from cotune.run.command import fill, program

ENV = {"PATH": "/usr/bin:/bin"}


@given(st.text(alphabet='ab"{}:, 1').filter(lambda text: "{{" not in text and not re.search(r"\{\w+\}", text)))
def test_braces_that_hold_no_name_stay_as_they_are(text: str) -> None:
    assert fill([text], {}) == [text]


def test_doubled_braces_are_literal() -> None:
    assert fill(["{{lr}}={lr}", '{"a": {"b": {lr}}}'], {"lr": "0.1"}) == ["{lr}=0.1", '{"a": {"b": 0.1}}']


def test_a_placeholder_that_nothing_fills_is_answered_with_the_axis_that_would() -> None:
    with pytest.raises(UsageError) as refused:
        fill(["--amp", "{amp}"], {"workers": "1"})
    assert "search: {amp: [..., ...]} in the job file or --axis amp=..." in str(refused.value)


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        (["train.py"], "script"),
        (["-u", "train.py"], "script"),
        (["-m", "json.tool"], "module"),
        (["-c", "pass"], "exec"),
        (["-O", "train.py"], "exec"),
    ],
)
def test_only_what_python_would_run_as_main_runs_in_the_fork(arguments: list[str], kind: str, tmp_path: Path) -> None:
    (tmp_path / "train.py").touch()
    assert program([sys.executable, *arguments], tmp_path, ENV, {}).kind == kind


def test_a_link_to_our_interpreter_elsewhere_is_another_one(tmp_path: Path) -> None:
    (tmp_path / "train.py").touch()
    (tmp_path / "python").symlink_to(Path(sys.executable).resolve())
    ours = sys.prefix == sys.base_prefix
    assert program(["./python", "train.py"], tmp_path, ENV, {}).kind == ("script" if ours else "exec")
