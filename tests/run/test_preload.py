"""Torch is imported ahead of a program that may need it, and of no other."""

from __future__ import annotations

from pathlib import Path

import pytest

from cotune.run.local.messages import Program
from cotune.run.preload import may_need_torch


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
