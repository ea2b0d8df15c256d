from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotune.errors import UsageError
from cotune.run._command import fill, program

ENV = {"PATH": "/usr/bin:/bin"}


@pytest.mark.parametrize(
    ("command", "own"),
    [
        ("torchrun train.py --lr 1", "python train.py --lr 1"),
        ("torchrun --standalone --nproc-per-node 2 train.py -m 3", "python train.py -m 3"),
        ("torchrun --nproc-per-node=2 --nnodes 1 -m pack.train 'a b'", "python -m pack.train 'a b'"),
        ("torchrun --no-python ./train.sh", "./train.sh"),
        ("python3 -m torch.distributed.run --standalone train.py", "python3 train.py"),
    ],
)
def test_torchrun_is_answered_with_the_command_it_stands_for(command: str, own: str, tmp_path: Path) -> None:
    import shlex

    with pytest.raises(UsageError) as refused:
        program(shlex.split(command), tmp_path, ENV, {})
    assert str(refused.value).endswith(f"give: {own}")


@given(st.text(alphabet='ab"{}:, 1').filter(lambda text: "{{" not in text and not re.search(r"\{\w+\}", text)))
def test_braces_that_hold_no_name_stay_as_they_are(text: str) -> None:
    assert fill([text], {}) == [text]


def test_doubled_braces_are_literal() -> None:
    assert fill(["{{lr}}={lr}", '{"a": {"b": {lr}}}'], {"lr": "0.1"}) == ["{lr}=0.1", '{"a": {"b": 0.1}}']


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
