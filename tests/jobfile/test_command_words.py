from __future__ import annotations

import shlex
from typing import Any

import pytest

from cotune.errors import UsageError
from cotune.jobfile.command import line, require_settable, without_launcher
from cotune.types import Job


@pytest.mark.parametrize(
    ("command", "own"),
    [
        ("torchrun train.py --lr 1", "python train.py --lr 1"),
        ("torchrun --standalone --nproc-per-node 2 train.py -m 3", "python train.py -m 3"),
        ("torchrun --nproc-per-node=2 --nnodes 1 -m pack.train 'a b'", "python -m pack.train 'a b'"),
        ("torchrun --no-python ./train.sh {batch_size}", "./train.sh {batch_size}"),
        ("python3 -m torch.distributed.run --standalone train.py", "python3 train.py"),
        ("python train.py --launcher torchrun", "python train.py --launcher torchrun"),
    ],
)
def test_torchrun_stands_for_the_command_that_it_starts(command: str, own: str) -> None:
    assert line(without_launcher(shlex.split(command))) == own


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (
            "torchrun train.py --batch-size {batch_size}",
            "leave out torchrun; write: python train.py --batch-size {batch_size}",
        ),
        ("torchrun train.py -b 64", "leave out torchrun; write: python train.py -b {batch_size}"),
        ("python train.py --bs=64 'a b'", "write: python train.py --bs={batch_size} 'a b' (or"),
    ],
)
def test_a_command_that_cannot_be_set_is_answered_with_one_that_can(command: str, words: str) -> None:
    with pytest.raises(UsageError) as refused:
        require_settable(Job("test", tuple(shlex.split(command))), "here")
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("placeholder", "axes", "words"),
    [
        ("{batchsize}", (), "here: unknown placeholder {batchsize}; did you mean 'batch_size'?"),
        ("{batch-size}", (), "the command has no {batch_size}"),
        ("{batchsize}", ("batchsize",), "the command has no {batch_size}"),
        ("{{batchsize}}", (), "the command has no {batch_size}"),
        ("{depth}", (), "the command has no {batch_size}"),
    ],
)
def test_a_misspelt_placeholder_is_named_unless_it_is_an_axis_of_the_search(
    placeholder: str, axes: tuple[str, ...], words: str
) -> None:
    with pytest.raises(UsageError) as refused:
        require_settable(Job("test", ("python", "a.py", "--b", placeholder)), "here", axes)
    assert words in str(refused.value)


@pytest.mark.parametrize("said", [{"reads": ("batch_size",)}, {"framework": "transformers"}])
def test_a_batch_that_the_script_reads_or_its_framework_sets_needs_no_placeholder(said: dict[str, Any]) -> None:
    require_settable(Job("job", ("python", "-m", "train"), **said), "cotune.yaml")


def test_a_batch_in_a_variable_is_answered_with_the_command_that_sets_it() -> None:
    job = Job("a", ("python", "train.py"), env=(("A", "1"), ("TRAIN_BATCH", "{batch_size}")))
    with pytest.raises(UsageError, match=r"write: env TRAIN_BATCH=\{batch_size\} python train.py \(or"):
        require_settable(job, "cotune.yaml")
    require_settable(Job("a", ("env", "TRAIN_BATCH={batch_size}", "python", "train.py")), "cotune.yaml")
