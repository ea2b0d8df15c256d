"""What is read of scripts, and the job files that are drafted from them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cotune.init.draft import Draft, draft
from cotune.init.script import Script, read
from cotune.jobfile import settings as job_settings
from cotune.jobfile.settings import Settings
from cotune.types import LearningRate

ARGPARSE = """
import argparse, torch
from torch.nn.parallel import DistributedDataParallel
parser = argparse.ArgumentParser()
parser.add_argument("-b", "--batch-size", type=int, default=32)
parser.add_argument("--test-batch-size", type=int, default=1000)
parser.add_argument("--lr", type=float, default=3e-4)
parser.add_argument("--epochs", type=int, default=12)
torch.optim.AdamW([])
"""
TRAINER = """
from transformers import Trainer, TrainingArguments
args = TrainingArguments(per_device_train_batch_size=8, per_device_eval_batch_size=64, gradient_accumulation_steps=4,
    learning_rate=2e-5, max_steps=500, warmup_steps=50)
"""
PLAIN = """
batch_size = 12
learning_rate: float = 6e-4
max_iters = 600 * 1000
opt = SGD(lr=learning_rate)
"""
LIGHTNING = """
import lightning as L
class Net(L.LightningModule):
    def __init__(self, lr: float = 0.01, batch_size=16): ...
    def validation_step(self, batch, at):
        self.log("train_loss", 1.0)
        self.log("val_f1", 0.5)
L.Trainer(max_epochs=10).fit(Net())
"""
TOLD = ("python", "train.py", "--epochs", "{epochs}")


def _read(text: str, folder: Path, *words: str) -> Script:
    (folder / "train.py").write_text(text)
    found = read(("python", "train.py", *words), folder)
    assert found is not None
    return found


def _drafted(text: str, folder: Path, *words: str) -> tuple[Draft, Settings]:
    (folder / "train.py").write_text(text)
    found = draft(("python", "train.py", *words), folder, "job", 100, 4)
    return found, job_settings.loads(found.text, {}, "draft", folder)


def _numbers(script: Script) -> dict[str, float]:
    return {setting: fact.value for setting, fact in script.numbers.items()}


def test_flags_give_their_defaults_and_their_names_and_where_they_stand(tmp_path: Path) -> None:
    found = _read(ARGPARSE, tmp_path)
    assert _numbers(found) == {"batch_size": 32, "lr": 3e-4, "epochs": 12}
    assert found.flags == {"batch_size": "--batch-size", "lr": "--lr", "epochs": "--epochs"}
    assert found.numbers["lr"].where == "train.py:7"


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        (TRAINER, {"batch_size": 8, "accumulate": 4, "lr": 2e-5, "steps": 500}),
        (PLAIN, {"batch_size": 12, "lr": 6e-4, "steps": 600_000}),
        (LIGHTNING, {"batch_size": 16, "lr": 0.01, "epochs": 10}),
        ("batch_size = 12\ndef fit(batch_size=64): ...", {}),
        ("def broken(:", {}),
        ("", {}),
    ],
)
def test_numbers_are_read_wherever_they_are_stated_with_one_value(
    text: str, numbers: dict[str, float], tmp_path: Path
) -> None:
    assert _numbers(_read(text, tmp_path)) == numbers


def test_a_file_of_settings_wins_over_the_script_and_the_command_over_both(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("train: {batch_size: 48, lr: 0.1}")
    found = _read(ARGPARSE, tmp_path, "--config", "c.yaml", "--lr=0.2")
    assert _numbers(found) == {"batch_size": 48, "lr": 0.2, "epochs": 12}


def test_a_draft_fills_in_the_flags_and_takes_the_scripts_own_numbers(tmp_path: Path) -> None:
    found, settings = _drafted(ARGPARSE, tmp_path, "--epochs", "3")
    assert found.command[2:] == ("--epochs", "{epochs}", "--batch-size", "{batch_size}", "--lr", "{lr}")
    assert settings.job.lr == LearningRate(3e-4, 32, "sqrt")
    assert settings.goal.max_epochs == 3
    assert "# train.py:7; rule: AdamW in train.py:9\n" in found.text


def test_a_module_and_a_script_in_steps_are_read_too(tmp_path: Path) -> None:
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "train.py").write_text(ARGPARSE.replace("--epochs", "--max_steps"))
    found = draft(("python", "-u", "-m", "pkg.train"), tmp_path, "job", None, 2)
    assert "--max_steps {steps}" in " ".join(found.command)
    assert job_settings.loads(found.text, {}, "draft", tmp_path).job.counting.unit == "steps"
    assert "length: 12 steps of 32      # train.py:8\n" in found.text


def test_a_placeholder_says_what_its_flag_sets_and_the_loss_is_read_by_steps(tmp_path: Path) -> None:
    text = (
        "parser.add_argument('--rows', type=int, default=128)\n"
        "parser.add_argument('-n', '--updates', type=int, default=3000)\n"
        "print(f'step {step}/{n} | train loss {a:.4f} | val loss {b:.4f}')\n"
    )
    drafted, settings = _drafted(text, tmp_path, "--rows={batch_size}", "--updates", "{steps}")
    assert "length: 3000 steps of 128 " in drafted.text
    assert settings.job.pattern == r"step\s+(?P<step>\d+).*?\bval\s+loss\s+(?P<val_loss>[\d.]+)"
    assert drafted.open_target == "val_loss<=LEVEL"


def test_a_draft_invents_no_learning_rate_and_no_schedule(tmp_path: Path) -> None:
    found, settings = _drafted("import torch; torch.optim.AdamW", tmp_path, "{batch_size}", "{lr}")
    assert (settings.job.lr, settings.job.schedule, settings.job.scaling) == (None, None, "unknown")
    assert any("fill in the line lr" in remark for remark in found.remarks)


@pytest.mark.parametrize(
    ("text", "words", "rule"),
    [
        ("batch_size = 8\nopt = SGD(p, lr=0.1)", ("{batch_size}",), "fixed"),
        ("batch_size = 8\nopt = SGD(p, lr=0.1)", ("{batch_size}", "{lr}"), "linear"),
        ("batch_size = 8\nlr = 0.1\nopt = SGD(p, lr=lr * world_size)", ("{batch_size}",), "linear"),
        (ARGPARSE + "args.lr *= args.batch_size / 256", (), "linear"),
        (ARGPARSE.replace("AdamW", "SGD"), (), "linear"),
        (ARGPARSE, (), "sqrt"),
        (TRAINER, (), "sqrt"),
    ],
)
def test_the_rule_is_fixed_where_nothing_sets_the_rate_and_else_that_of_the_script_or_its_optimiser(
    text: str, words: tuple[str, ...], rule: str, tmp_path: Path
) -> None:
    _, settings = _drafted(text, tmp_path, *words)
    assert settings.job.lr is not None
    assert settings.job.lr.rule == rule


def test_a_script_that_scales_its_rate_is_not_told_one(tmp_path: Path) -> None:
    found, _ = _drafted(ARGPARSE + "rate = args.lr * dist.get_world_size()", tmp_path)
    assert "--lr" not in found.command
    assert "train.py:10 scales it" in found.text


FLAGS = """p.add_argument('--epochs', type=int, default=40)
p.add_argument('--batch-size', type=int, default=32)
p.add_argument('--warmup-epochs', type=int, default=4)
total = args.epochs * len(loader)
"""
SEQUENTIAL = "s = SequentialLR(o, [LinearLR(o, 0.01, total_iters=args.warmup_epochs), {main}], milestones=[4])"
BY_EPOCH = """def adjust(optimizer, epoch):
    lr = args.lr * 0.2 ** (epoch // 15)
    for group in optimizer.param_groups:
        group['lr'] = lr
"""
TRAPEZOID = """warm = int(0.1 * total)
def lr_at(step):
    if step < warm:
        return (step + 1) / warm
    return min(1.0, (total - step) / (0.2 * total))
"""
IN_LOOP = """start = int(0.7 * args.epochs)
for epoch in range(args.epochs):
    lr = peak if epoch < start else peak * (args.epochs - epoch) / (args.epochs - start)
"""


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("s = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=args.epochs)", "cosine"),
        ("lr = 0.5 * (1 + math.cos(math.pi * step / total))", "cosine"),
        ("s = get_linear_schedule_with_warmup(opt, 0, unknown)", "linear"),
        ("s = get_cosine_schedule_with_warmup(opt, num_warmup_steps=int(0.05 * total), num_training_steps=total)",
         "cosine warmup(0.05)"),
        ("s = get_scheduler('linear', opt, 0.1 * total, total)", "linear warmup(0.1)"),
        ("s = get_wsd_schedule(opt, 0.1 * total, 0.2 * total, total)", "wsd(0.2) warmup(0.1)"),
        ("s = OneCycleLR(opt, 0.1, total_steps=total)", "one_cycle"),
        ("s = OneCycleLR(opt, 0.1, total_steps=total, pct_start=0.1)", "one_cycle warmup(0.1)"),
        ("from transformers import Trainer", "linear"),
        ("from transformers import Trainer\nTrainingArguments(lr_scheduler_type='cosine', warmup_ratio=0.1)",
         "cosine warmup(0.1)"),
        ("from transformers import Trainer\nTrainingArguments(lr_scheduler_type='constant')", "constant"),
        ("from transformers import Trainer\nTrainingArguments(max_steps=2000, lr_scheduler_type='warmup_stable_decay', "
         "lr_scheduler_kwargs={'num_decay_steps': 500})", "wsd(0.25)"),
        ("s = CosineAnnealingLR(opt, T_max=200)", "unknown"),
        ("s = CosineAnnealingLR(opt, 200)", "unknown"),
        ("s = LinearLR(opt, 1.0, 0.0, total_iters=args.epochs)", "linear"),
        ("s = LinearLR(opt, start_factor=1.0, end_factor=0.0, total_iters=100)", "unknown"),
        ("s = ConstantLR(opt, factor=1.0)", "constant"),
        ("s = StepLR(opt, 15)", "step(15,30)"),
        ("s = StepLR(opt, 1, gamma=0.7)", "unknown"),
        ("s = MultiStepLR(opt, milestones=[10, 30], gamma=0.2)", "step(10,30,factor=0.2)"),
        ("s = MultiStepLR(opt, [int(args.epochs * 0.5), int(args.epochs * 0.75)])", "step(0.5,0.75)"),
        ("s = LambdaLR(opt, lambda epoch: 1 - epoch / args.epochs)", "linear"),
        (f"{TRAPEZOID}s = LambdaLR(opt, lr_at)", "wsd(0.2) warmup(0.1)"),
        ("s = LambdaLR(opt, lambda epoch: 0.95 ** epoch)", "unknown"),
        (SEQUENTIAL.format(main="CosineAnnealingLR(o, args.epochs - 4)"), "cosine warmup(4)"),
        (SEQUENTIAL.format(main="ConstantLR(o, 1), LinearLR(o, 1, 0, 0.3 * args.epochs)"), "wsd(0.3) warmup(4)"),
        (BY_EPOCH, "step(15,30,factor=0.2)"),
        (TRAPEZOID, "wsd(0.2) warmup(0.1)"),
        (IN_LOOP, "wsd(0.3)"),
        ("p.add_argument('--lr-schedule', type=str, default='linear')\ns = CosineAnnealingLR(opt, n)",
         "linear warmup(4)"),
        ("s = CosineAnnealingLR(opt, n) if args.cosine else OneCycleLR(opt, 1, total_steps=n)", "unknown"),
        ("lr = opt.param_groups[0]['lr']", None),
        ("# CosineAnnealingLR(opt, T_max=args.epochs)", None),
    ],
)  # fmt: skip
def test_a_draft_names_the_schedule_of_the_script(tmp_path: Path, text: str, told: str | None) -> None:
    flags = FLAGS if "warmup(4)" in str(told) else FLAGS.replace("--warmup-epochs", "--other")
    text = text if "transformers" in text else flags + text
    settings = _drafted(text, tmp_path, "--epochs", "{epochs}", "--batch-size", "{batch_size}")[1]
    assert settings.job.schedule == told


def test_a_file_of_settings_says_the_schedule_and_a_job_in_steps_counts_its_warm_up(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("max_steps: 2000\nbatch_size: 16\nlr_scheduler: {name: wsd, warmup_steps: 100}\n")
    words = ("--config", "c.yaml", "--steps", "{steps}", "--batch-size", "{batch_size}")
    drafted, _ = _drafted("print('step 1 loss 2.0')", tmp_path, *words)
    assert "schedule: wsd      # c.yaml\nwarmup: 100      # steps\n" in drafted.text
    (tmp_path / "c.yaml").write_text("epochs: 20\nbatch_size: 16\nlr_scheduler: cosine\nwarmup_steps: 100\n")
    drafted, settings = _drafted("print('epoch 1 loss 2.0')", tmp_path, *words[:2], "--epochs", "{epochs}", *words[4:])
    assert settings.job.schedule == "cosine", "a hundred steps are no number of epochs"


def test_the_command_wins_over_the_schedule_of_the_script_and_one_without_a_length_is_unknown(tmp_path: Path) -> None:
    text = "s = CosineAnnealingLR(opt, T_max=args.epochs)"
    words = ("{batch_size}", "--schedule=constant")
    assert _drafted(text, tmp_path, *words)[1].job.schedule == "constant"
    assert "schedule: unknown" in _drafted(text, tmp_path, "{batch_size}")[0].text


@pytest.mark.parametrize(
    ("text", "alone"),
    [
        ("import numpy as np", True),
        ("import torch.distributed as dist\ndist.init_process_group()", False),
        ("import os\nos.environ['WORLD_SIZE']", False),
        ("from beside import fit", False),
        ("from plain import fit", True),
        (TRAINER, False),
    ],
)
def test_a_script_in_which_no_workers_meet_gets_one(tmp_path: Path, text: str, alone: bool) -> None:
    (tmp_path / "beside.py").write_text("from torch.nn.parallel import DistributedDataParallel")
    (tmp_path / "plain.py").write_text("import math")
    drafted, _ = _drafted(text, tmp_path, "{batch_size}")
    assert ("{workers: 1," in drafted.text) is alone


def test_what_a_script_reads_from_variables_is_written_down(tmp_path: Path) -> None:
    text = "import os\nsize = int(os.environ['COTUNE_BATCH_SIZE'])\nrank = os.environ['RANK']\n# COTUNE_PRECISION\n"
    drafted, settings = _drafted(text, tmp_path)
    assert settings.job.reads == ("batch_size", "workers")
    assert "reads: [batch_size, workers]      # from variables: train.py:2, train.py\n" in drafted.text


@pytest.mark.parametrize(
    ("text", "framework", "metric"),
    [(TRAINER, "transformers", "eval_loss"), (LIGHTNING, "lightning", "val_f1")],
)
def test_a_framework_is_named_with_the_metric_that_it_reports(
    tmp_path: Path, text: str, framework: str, metric: str
) -> None:
    drafted, settings = _drafted(text, tmp_path)
    assert (settings.job.framework, settings.job.metric, settings.metric_named) == (framework, metric, False)
    assert drafted.open_target is not None
    assert drafted.open_target.startswith(metric)
    assert "framework:" not in _drafted(text + "cotune.report(epoch=1)", tmp_path, "{batch_size}")[0].text


@pytest.mark.parametrize(
    ("printing", "line", "epoch", "accuracy"),
    [
        ('print(f"epoch {epoch} loss {loss:.3f} accuracy {a:.4f}")', "epoch 12 loss 0.3 accuracy 0.875", "12", "0.875"),
        ('print("epoch", epoch, "accuracy", accuracy)', "epoch 12 accuracy 0.875", "12", "0.875"),
        ('print("epoch %d: accuracy %.3f" % (epoch, accuracy))', "epoch 12: accuracy 0.875", "12", "0.875"),
        ('print("epoch {:.1f} top1 {:.3f}".format(x, y))', "epoch 1.5 top1 0.875", "1.5", "0.875"),
        ('logging.info("epoch %g top1 %.3f", x, y)', "epoch 1.5 top1 0.875", "1.5", "0.875"),
        ('print(f"epoch {x:.2e} top1 {y:.2e}")', "epoch 1.50e+00 top1 8.75e-01", "1.50e+00", "8.75e-01"),
        ('print(f"epoch {epoch:{w}} top1 {y:.2f}")', "epoch   12 top1 0.87", "12", "0.87"),
        ("print({'epoch': e, 'val_acc': a})", "{'epoch': 3, 'val_acc': 0.91}", "3", "0.91"),
        ("print(json.dumps({'epoch': e, 'val_acc': a}))", '{"epoch": 3, "val_acc": 0.91}', "3", "0.91"),
        (
            'print(f"[{epoch + 1}/{n}] loss={l:.2f} val_top1={100 * a:.2f}%")',
            "[3/9] loss=1 val_top1=81.2%",
            "3",
            "81.2",
        ),
    ],
)
def test_a_draft_reads_numbers_in_the_format_that_the_script_prints_them(
    tmp_path: Path, printing: str, line: str, epoch: str, accuracy: str
) -> None:
    _, settings = _drafted(printing, tmp_path, "{batch_size}")
    found = re.search(settings.job.pattern or "", line)
    assert found is not None
    assert (found["epoch"], found["accuracy"]) == (epoch, accuracy)


def test_a_draft_asks_in_per_cent_as_the_script_does(tmp_path: Path) -> None:
    text = _drafted('print(f"epoch {e}/{n} | top1 {100 * hits:.2f}%")', tmp_path, "{batch_size}")[0].text
    assert "target: {metric: accuracy, at_least: 95}" in text


@pytest.mark.parametrize(
    ("said", "target"),
    [
        ('print(f"epoch {e} | dev-PPL -> {ppl:.2f}")', "# target: val_perplexity<=LEVEL "),
        ('print(f"epoch={it} mean_reward={reward:.1f}")', "# target: mean_reward>=LEVEL "),
        ('print(f"{e}: goodness {g:.4f}")', "# target: {metric: ..., at_most: ...} "),
    ],
)
def test_a_draft_names_the_metric_that_is_read_and_else_none(tmp_path: Path, said: str, target: str) -> None:
    drafted, _ = _drafted(said, tmp_path, "{batch_size}")
    assert target in drafted.text
    assert drafted.lacks_target


@pytest.mark.parametrize(
    "printing",
    [
        'print(f"[{i}/{len(loader)}] loss={l:.4f} acc={a:.2f}")',
        'print(f"epoch {epoch} train loss {l:.4f} acc {a:.2f}")',
        'print(f"epoch {epoch} [{i}/{n}] acc {a:.2f} auc {b:.2f}")',
    ],
)
def test_a_draft_reads_no_score_of_a_part_of_an_epoch_or_of_training_data(tmp_path: Path, printing: str) -> None:
    assert _drafted(printing, tmp_path, "{batch_size}", "{epochs}")[1].job.pattern is None


def test_a_draft_says_what_is_open(tmp_path: Path) -> None:
    drafted, _ = _drafted('print(f"epoch {e} val_loss {v} val_acc {a}")', tmp_path, "{batch_size}", "--amp", "{amp}")
    assert "\n# amp: [..., ...] in search has the values for {amp}\n" in drafted.text
    assert any(remark.startswith("nothing fills {amp}") for remark in drafted.remarks)
    missing = draft(("python", "trian.py", "{batch_size}"), tmp_path, "job", 100, 4)
    assert any("no trian.py here" in remark for remark in missing.remarks)


def test_a_draft_hands_on_the_seed_unless_the_command_has_one(tmp_path: Path) -> None:
    text = 'p.add_argument("--random-seed", type=int, default=0)'
    assert "--random-seed {seed}" in _drafted(text, tmp_path, "{batch_size}")[0].text
    assert "{seed}" not in _drafted(text, tmp_path, "{batch_size}", "--random-seed", "7")[0].text
