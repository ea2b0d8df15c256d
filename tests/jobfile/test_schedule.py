"""How a learning rate goes is read of the script, or of the command, where the job file does not say."""

from __future__ import annotations

from pathlib import Path

import pytest

from cotune.jobfile.schedule import schedule_of
from cotune.jobfile.settings import loads

TOLD = ("python", "train.py", "--epochs", "{epochs}")


def _found(folder: Path, text: str, command: tuple[str, ...] = TOLD) -> str | None:
    (folder / "train.py").write_text(text)
    found = schedule_of(command, folder)
    return found.name if found else None


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("s = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=args.epochs)", "cosine"),
        ("s = CosineAnnealingLR(opt, args.epochs * len(loader))", "cosine"),
        ("lr = 0.5 * (1 + math.cos(math.pi * step / total))", "cosine"),
        ("s = get_linear_schedule_with_warmup(opt, 0, total)", "linear"),
        ("s = OneCycleLR(opt, 0.1, total_steps=total)", "one_cycle"),
        ("from transformers import Trainer", "linear"),
        ("from transformers import Trainer\nTrainingArguments(lr_scheduler_type='cosine')", "cosine"),
        ("from transformers import Trainer\nTrainingArguments(lr_scheduler_type='constant')", None),
        ("s = CosineAnnealingLR(opt, T_max=200)", None),
        ("s = CosineAnnealingLR(opt, 200)", None),
        ("s = CosineAnnealingWarmRestarts(opt, args.epochs)", None),
        ("s = StepLR(opt, 30)", None),
        ("p.add_argument('--lr-schedule', default='none')\ns = CosineAnnealingLR(opt, n)", None),
        ("p.add_argument('--lr-schedule', type=str, default='linear')\ns = CosineAnnealingLR(opt, n)", "linear"),
        ("s = CosineAnnealingLR(opt, n) if args.cosine else OneCycleLR(opt, 1, total_steps=n)", None),
    ],
)
def test_a_script_names_its_schedule(tmp_path: Path, text: str, name: str | None) -> None:
    assert _found(tmp_path, text) == name


def test_a_module_of_the_folder_names_its_schedule(tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "train.py").write_text("s = CosineAnnealingLR(opt, T_max=args.epochs)")
    found = schedule_of(("python", "-m", "package.train", "--epochs", "{epochs}"), tmp_path)
    assert found is not None
    assert found.name == "cosine"


def test_a_script_that_is_not_told_its_length_has_a_schedule_of_its_own(tmp_path: Path) -> None:
    assert _found(tmp_path, "s = CosineAnnealingLR(opt, T_max=args.epochs)", ("python", "train.py")) is None


def test_the_command_wins_over_the_script(tmp_path: Path) -> None:
    text = "s = CosineAnnealingLR(opt, T_max=args.epochs)"
    assert _found(tmp_path, text, (*TOLD, "--lr-scheduler-type", "linear")) == "linear"
    assert _found(tmp_path, text, (*TOLD, "--schedule=constant")) is None


def test_the_file_wins_over_both_and_what_is_read_is_told(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("s = CosineAnnealingLR(opt, T_max=args.epochs)")
    text = f"run: {' '.join(TOLD)} --batch-size {{batch_size}}\n"
    read = loads(text, {}, "cotune.yaml", tmp_path)
    assert read.job.schedule == "cosine"
    assert any("CosineAnnealingLR of train.py" in note for note in read.notes)
    said = loads(text + "schedule: constant\n", {}, "cotune.yaml", tmp_path)
    assert (said.job.schedule, said.notes) == ("constant", ())
