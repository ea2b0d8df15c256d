"""How a command is run: its placeholders, its program, and whether torch is imported ahead of it."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotune.errors import UsageError
from cotune.run.command import fill, program
from cotune.run.local.messages import Program
from cotune.run.preload import may_need_torch

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


@pytest.mark.parametrize(
    ("text", "needs"),
    [
        ("import os, sys\nimport numpy as np\nfrom pathlib import Path\nimport cotune", False),
        ("import numpy.linalg\nfrom cotune import report", False),
        ("def main():\n    import torch.nn", True),
        ("from helper import train", True),
        ("from . import model", True),
        ("import cotune.torch", True),
        ("from cotune import torch", True),
        ("import importlib\nimportlib.import_module('torch')", True),
        ("import importlib as modules\nmodules.import_module('torch')", True),
        ("from importlib import import_module as bring\nbring('torch')", True),
        ("import importlib.util\nimportlib.util.module_from_spec(spec).__loader__.exec_module(made)", True),
        ("from runpy import run_path", True),
        ("exec(open('train.py').read())", True),
        ("import importlib.util\nimportlib.util.find_spec('sklearn')", False),
        ("import importlib.metadata\nprint(importlib.metadata.version('numpy'))", False),
        ("def train(", True),
    ],
)
def test_a_script_may_need_torch_unless_nothing_it_imports_could(tmp_path: Path, text: str, needs: bool) -> None:
    (tmp_path / "train.py").write_text(text)
    assert may_need_torch(Program("script", "train.py", ()), str(tmp_path)) is needs


def test_a_module_may_need_torch_and_another_executable_does_not(tmp_path: Path) -> None:
    assert may_need_torch(Program("module", "package.train", ()), str(tmp_path))
    assert not may_need_torch(Program("exec", "/bin/sh", ("train.sh",)), str(tmp_path))
    assert may_need_torch(Program("script", "missing.py", ()), str(tmp_path))
