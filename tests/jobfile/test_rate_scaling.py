"""Whether a rate grows with the batch is read of the job file, of the script or of the command."""

from __future__ import annotations

from pathlib import Path

import pytest

from cotune.jobfile.rate import scaling_of
from cotune.jobfile.settings import loads

COMMAND = ("python", "train.py", "--epochs", "{epochs}")


@pytest.mark.parametrize(
    ("text", "scaling"),
    [
        ("optimiser = SGD(net.parameters(), lr=args.lr)", "fixed"),
        ("parser.add_argument('--learning-rate', default=0.1)", "fixed"),
        ("optimiser = SGD(net.parameters(), lr=args.lr * dist.get_world_size())", "scaled"),
        ("args.lr = args.lr * args.batch_size / 256", "scaled"),
        ("lr *= math.sqrt(global_batch / 64)", "scaled"),
        ("optimiser = SGD(net.parameters(), lr=0.1 * world_size)", "scaled"),
        ("rate = base_lr * hvd.size() * num_workers", "scaled"),
        ("scaled = config['learning_rate'] * (config['batch_size'] / 32)", "scaled"),
        ("lr = 0.1 * (1 - step / steps)\nloss = total / batch_size", "fixed"),
        ("loss = total / batch_size", "unknown"),
        ("lr = (", "unknown"),
    ],
)
def test_a_script_tells_whether_it_scales_its_rate(tmp_path: Path, text: str, scaling: str) -> None:
    (tmp_path / "train.py").write_text(text)
    assert scaling_of(None, COMMAND, tmp_path) == scaling


def test_a_module_of_the_folder_tells_whether_it_scales_its_rate(tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "train.py").write_text("args.lr = args.lr * args.batch_size / 256")
    assert scaling_of(None, ("python", "-m", "package.train"), tmp_path) == "scaled"


@pytest.mark.parametrize(
    ("command", "scaling"),
    [
        ("python -m package.train --lr 0.1", "fixed"),
        ("python -m package.train --base-lr=0.1", "fixed"),
        ("torchrun train learning_rate=0.1", "fixed"),
        ("python -m package.train --lrelu 0.1", "unknown"),
        ("python -m package.train", "unknown"),
    ],
)
def test_a_command_that_names_its_rate_keeps_it(tmp_path: Path, command: str, scaling: str) -> None:
    assert scaling_of(None, command.split(), tmp_path) == scaling


@pytest.mark.parametrize(
    ("rule", "scaling"), [("linear", "scaled"), ("sqrt", "scaled"), ("power(0.3)", "scaled"), ("fixed", "fixed")]
)
def test_the_rule_of_a_job_file_wins(tmp_path: Path, rule: str, scaling: str) -> None:
    (tmp_path / "train.py").write_text("lr = args.lr * world_size")
    run = "run: python train.py --batch-size {batch_size} --lr {lr}"
    text = f"{run}\nlr: {{at: 0.1, global_batch: 64, rule: {rule}}}\n"
    assert loads(text, {}, "cotune.yaml", tmp_path).job.scaling == scaling


def test_a_job_file_without_a_rate_leaves_it_to_the_script(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("optimiser = SGD(net.parameters(), lr=0.1)")
    assert loads("run: python train.py --batch-size {batch_size}\n", {}, "cotune.yaml", tmp_path).job.scaling == "fixed"


def test_samples_of_an_earlier_version_stay_those_of_the_job(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("optimiser = SGD(net.parameters(), lr=0.1)")
    before = loads("run: python train.py --batch-size {batch_size}\n", {}, "cotune.yaml", tmp_path).job
    (tmp_path / "train.py").write_text("optimiser = SGD(net.parameters(), lr=0.1 * world_size)")
    after = loads("run: python train.py --batch-size {batch_size}\n", {}, "cotune.yaml", tmp_path).job
    assert (before.scaling, after.scaling) == ("fixed", "scaled")
    assert before.fingerprint == after.fingerprint
