"""What is read of scripts, and the job files that are drafted from them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cotune.errors import InvalidFile
from cotune.jobfile import settings as job_settings
from cotune.jobfile.draft import draft
from cotune.jobfile.script import Script, read
from cotune.types import LearningRate

ARGPARSE = """
import argparse, torch
parser = argparse.ArgumentParser()
parser.add_argument("-b", "--batch-size", type=int, default=32)
parser.add_argument("--lr", type=float, default=3e-4)
parser.add_argument("--epochs", type=int, default=12)
torch.optim.AdamW([])
"""
TRAINER = """
from transformers import Trainer, TrainingArguments
args = TrainingArguments(per_device_train_batch_size=8, gradient_accumulation_steps=4,
    learning_rate=2e-5, max_steps=500)
"""
PLAIN = """
batch_size = 12
learning_rate: float = 6e-4
max_iters = 600 * 1000
opt = SGD(lr=learning_rate)
"""


def test_flags_of_argparse_give_their_defaults_and_their_names(tmp_path: Path) -> None:
    found = _read(ARGPARSE, tmp_path)
    assert {name: default.value for name, default in found.defaults.items()} == {
        "batch_size": 32,
        "lr": 3e-4,
        "epochs": 12,
    }
    assert found.flags == {"batch_size": "--batch-size", "lr": "--lr", "epochs": "--epochs"}


@pytest.mark.parametrize(
    ("batch", "length"),
    [
        ("--per-device-batch", "--total-steps"),
        ("--per_device_batch_size", "--max_steps"),
        ("--local-batch-size", "--steps"),
    ],
)
def test_the_batch_of_one_worker_and_the_steps_go_by_many_names(batch: str, length: str, tmp_path: Path) -> None:
    text = ARGPARSE.replace('"-b", "--batch-size"', f'"{batch}"').replace("--epochs", length)
    assert _read(text, tmp_path).flags == {"batch_size": batch, "lr": "--lr", "steps": length}


@pytest.mark.parametrize("file", ["train.py", "train/__main__.py"])
def test_a_module_of_the_folder_is_read_as_its_script_is(tmp_path: Path, file: str) -> None:
    path = tmp_path / "pkg" / file
    path.parent.mkdir(parents=True)
    path.write_text(f"{ARGPARSE}\nimport cotune\nprint(f'epoch {{epoch}} accuracy {{top1:.3f}}')\n")
    drafted = draft(("python", "-u", "-m", "pkg.train", "--out", "runs"), tmp_path, "job", 100, 4)
    assert drafted.command[-6:] == ("--batch-size", "{batch_size}", "--lr", "{lr}", "--epochs", "{epochs}")
    assert "pattern: 'epoch" in drafted.text
    assert f"as {path.name} prints it" in drafted.text


def test_a_module_from_elsewhere_is_not_read_and_a_script_before_it_is(tmp_path: Path) -> None:
    _read(ARGPARSE, tmp_path)
    (tmp_path / "fast.py").write_text(PLAIN)
    launched = read(("python", "-m", "torch.distributed.run", "train.py"), tmp_path)
    flagged = read(("python", "train.py", "-m", "fast"), tmp_path)
    assert launched is not None
    assert flagged is not None
    assert {launched.name, flagged.name} == {"train.py"}
    assert read(("python", "-m", "package.train"), tmp_path) is None
    assert read(("python", "-m", "../train"), tmp_path) is None


def test_arguments_of_a_framework_are_read(tmp_path: Path) -> None:
    found = _read(TRAINER, tmp_path)
    assert found.framework == "transformers"
    assert {name: default.value for name, default in found.defaults.items()} == {
        "batch_size": 8,
        "accumulate": 4,
        "lr": 2e-5,
        "steps": 500,
    }
    assert found.optimiser is not None
    assert found.optimiser.adam_like


def test_plain_settings_are_read_with_products(tmp_path: Path) -> None:
    found = _read(PLAIN, tmp_path)
    assert found.defaults["steps"].value == 600_000
    assert found.optimiser is not None
    assert not found.optimiser.adam_like


def test_a_file_of_settings_wins_over_the_script_and_the_command_over_both(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("train: {batch_size: 48, lr: 0.1}")
    found = _read(ARGPARSE, tmp_path, "--config", "c.yaml", "--lr=0.2")
    assert (found.defaults["batch_size"].value, found.defaults["lr"].value) == (48, 0.2)


def test_two_kinds_of_optimisers_are_none_unless_the_command_names_one(tmp_path: Path) -> None:
    both = ARGPARSE + "torch.optim.SGD([])"
    assert _read(both, tmp_path).optimiser is None
    chosen = _read(both, tmp_path, "--optimizer", "sgd").optimiser
    assert chosen is not None
    assert not chosen.adam_like


@pytest.mark.parametrize("text", ["def broken(:", "\0", "", "x" * 10])
def test_a_script_that_cannot_be_read_says_nothing(text: str, tmp_path: Path) -> None:
    assert _read(text, tmp_path).defaults == {}


def test_a_draft_fills_in_the_flags_and_takes_the_scripts_own_rate(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(ARGPARSE)
    found = draft(("python", "train.py", "--epochs", "3"), tmp_path, "job", 1000, 2)
    assert found.command[2:] == ("--epochs", "{epochs}", "--batch-size", "{batch_size}", "--lr", "{lr}")
    settings = job_settings.loads(found.text, {}, "draft", tmp_path)
    assert settings.job.lr == LearningRate(3e-4, 32, "sqrt")
    assert settings.goal.max_epochs == 3
    assert "AdamW" in found.text


def test_a_draft_of_a_script_in_steps_has_its_length_in_steps(tmp_path: Path) -> None:
    steps = ARGPARSE.replace('"--epochs", type=int, default=12', '"--max_steps", type=int, default=500')
    (tmp_path / "train.py").write_text(steps)
    found = draft(("python", "train.py"), tmp_path, "job", None, 2)
    assert "--max_steps {steps}" in " ".join(found.command)
    settings = job_settings.loads(found.text, {}, "draft", tmp_path)
    assert settings.job.counting.unit == "steps"
    assert "length: 500 steps of 32" in found.text


def test_a_placeholder_says_what_its_flag_sets_and_the_loss_is_read_by_steps(tmp_path: Path) -> None:
    (tmp_path / "fit.py").write_text(
        "parser.add_argument('--rows', type=int, default=128)\n"
        "parser.add_argument('-n', '--updates', type=int, default=3000)\n"
        "print(f'step {step}/{n} | train loss {a:.4f} | val loss {b:.4f}')\n"
    )
    drafted = draft(
        ("python", "fit.py", "--rows={batch_size}", "--updates", "{steps}"), tmp_path, "fit", examples=None, cores=2
    )
    assert "length: 3000 steps of 128 " in drafted.text
    assert "pattern: 'step\\s+(?P<step>\\d+).*?\\bval\\s+loss\\s+(?P<val_loss>[\\d.]+)'" in drafted.text
    assert drafted.command == ("python", "fit.py", "--rows={batch_size}", "--updates", "{steps}")


def test_a_draft_invents_no_learning_rate(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import torch; torch.optim.AdamW")
    found = draft(("python", "train.py", "{batch_size}", "{lr}"), tmp_path, "job", None, 2)
    assert job_settings.loads(found.text, {}, "draft", tmp_path).job.lr is None
    assert any("fill in the line lr" in remark for remark in found.remarks)


@pytest.mark.parametrize(("optimiser", "rule"), [("Adam", "sqrt"), ("SGD", "linear"), ("Novel", "linear")])
def test_a_rule_that_is_left_open_follows_the_optimiser_and_is_told(optimiser: str, rule: str, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(f"opt = torch.optim.{optimiser}(p)")
    text = "run: python train.py {batch_size} {lr}\nlr: {at: 0.1, global_batch: 4}"
    settings = job_settings.loads(text, {}, "cotune.yaml", tmp_path)
    assert settings.job.lr == LearningRate(0.1, 4, rule)
    assert f"rule {rule}" in settings.notes[0]


def test_a_power_of_the_batch_is_a_rule(tmp_path: Path) -> None:
    text = "run: python train.py {batch_size} {lr}\nlr: {at: 0.1, global_batch: 4, rule: power(0.25)}"
    rate = job_settings.loads(text, {}, "cotune.yaml", tmp_path).job.lr
    assert rate is not None
    assert rate.of(64) == pytest.approx(0.2)
    with pytest.raises(InvalidFile, match="power"):
        job_settings.loads(text.replace("0.25", "2"), {}, "cotune.yaml", tmp_path)


def _read(text: str, folder: Path, *words: str) -> Script:
    (folder / "train.py").write_text(text)
    found = read(("python", "train.py", *words), folder)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("text", "meets"),
    [
        ("import numpy as np\nimport sklearn", False),
        ("import torch, argparse", False),
        ("import torch.distributed as dist", True),
        ("import os\nos.environ['WORLD_SIZE']", True),
        ("import somebodys_library", True),
        ("from beside import fit", True),
        ("from plain import fit", False),
        ("from . import beside", True),
        ("from . import plain", False),
        ("for for", True),
    ],
)
def test_workers_meet_where_the_script_or_what_lies_beside_it_says_so(tmp_path: Path, text: str, meets: bool) -> None:
    (tmp_path / "beside.py").write_text("from torch.nn.parallel import DistributedDataParallel")
    (tmp_path / "plain.py").write_text("import math")
    assert _read(text, tmp_path).meets is meets


@pytest.mark.parametrize(
    ("printing", "line"),
    [
        ('print(f"epoch {epoch} loss {loss:.3f} accuracy {accuracy:.4f}")', "epoch 12 loss 0.3 accuracy 0.875"),
        ('print("epoch", epoch, "accuracy", accuracy)', "epoch 12 accuracy 0.875"),
        ('print("epoch %d: accuracy %.3f" % (epoch, accuracy))', "epoch 12: accuracy 0.875"),
        ('logging.info("epoch {}: accuracy {:.3f}".format(epoch, accuracy))', "epoch 12: accuracy 0.875"),
    ],
)
def test_a_draft_reads_what_the_script_prints(tmp_path: Path, printing: str, line: str) -> None:
    (tmp_path / "train.py").write_text(f"import logging\n{printing}\n")
    text = draft(("python", "train.py", "{batch_size}"), tmp_path, "job", 100, 4).text
    pattern = job_settings.loads(text, {}, "draft", tmp_path).job.pattern
    assert pattern is not None
    found = re.search(pattern, line)
    assert found is not None
    assert (found["epoch"], found["accuracy"]) == ("12", "0.875")


@pytest.mark.parametrize(
    ("printing", "line", "epoch", "accuracy"),
    [
        ('print(f"epoch {x:.1f}  top1 {y:.2f}%")', "epoch 1.5  top1 81.25%", "1.5", "81.25"),
        ('print("epoch %.2f: top1 %.2f" % (x, y))', "epoch 1.50: top1 81.25", "1.50", "81.25"),
        ('print("epoch {:.1f} top1 {:.3f}".format(x, y))', "epoch 1.5 top1 0.875", "1.5", "0.875"),
        ('logging.info("epoch %g top1 %.3f", x, y)', "epoch 1.5 top1 0.875", "1.5", "0.875"),
        ('print(f"epoch {x:.2e} top1 {y:.2e}")', "epoch 1.50e+00 top1 8.75e-01", "1.50e+00", "8.75e-01"),
        ('print(f"epoch {epoch:{w}} top1 {y:.2f}")', "epoch   12 top1 0.87", "12", "0.87"),
        ('print(f"epoch {epoch:3d} top1 {y:.2f}")', "epoch  12 top1 0.87", "12", "0.87"),
    ],
)
def test_a_draft_reads_numbers_in_the_format_that_the_script_prints_them(
    tmp_path: Path, printing: str, line: str, epoch: str, accuracy: str
) -> None:
    (tmp_path / "train.py").write_text(f"import logging\n{printing}\n")
    text = draft(("python", "train.py", "{batch_size}"), tmp_path, "job", 100, 4).text
    pattern = job_settings.loads(text, {}, "draft", tmp_path).job.pattern
    found = re.search(pattern or "", line)
    assert found is not None
    assert (found["epoch"], found["accuracy"]) == (epoch, accuracy)


@pytest.mark.parametrize("spec", ["", ":d", ":03d", ":.0f", ":{w}"])
def test_a_draft_reads_whole_epochs_where_no_format_shows_parts_of_them(tmp_path: Path, spec: str) -> None:
    (tmp_path / "train.py").write_text(f'print(f"epoch {{epoch{spec}}} top1 {{y:.2f}}")')
    text = draft(("python", "train.py", "{batch_size}"), tmp_path, "job", 100, 4).text
    assert r"(?P<epoch>\d+)" in text


def test_a_draft_reads_lines_that_logging_fills_in_and_evaluations_on_lines_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("""
import logging
log = logging.getLogger()
log.info("epoch %d/%d | loss: %.4f | %.1fs", epoch + 1, epochs, loss, seconds)
log.info("Test: Average loss: %.4f, Accuracy: %d/%d (%.2f%%)", loss, right, many, 100 * right / many)
""")
    text = draft(("python", "train.py", "{batch_size}"), tmp_path, "job", 100, 4).text
    job = job_settings.loads(text, {}, "draft", tmp_path).job
    lines = ("INFO epoch 2/12 | loss: 0.2 | 0.3s", "INFO Test: Average loss: 0.16, Accuracy: 285/297 (95.96%)")
    matches = [re.search(job.pattern or "", line) for line in lines]
    assert [match and match.groupdict() for match in matches] == [
        {"epoch": "2", "accuracy": None},
        {"epoch": None, "accuracy": "95.96"},
    ]


def test_a_draft_reads_the_loss_that_a_script_in_steps_prints_of_held_out_data(tmp_path: Path) -> None:
    said = """print(f"step {step}: train loss {losses['train']:.4f}, val loss {losses['val']:.4f}")"""
    (tmp_path / "train.py").write_text(f"batch_size = 12\nmax_iters = 500\n{said}\n")
    found = draft(("python", "train.py", "{batch_size}", "{steps}"), tmp_path, "job", None, 4)
    pattern = job_settings.loads(found.text, {}, "draft", tmp_path).job.pattern
    assert pattern is not None
    line = re.search(pattern, "step 250: train loss 1.9, val loss 2.125")
    assert line is not None
    assert (line["step"], line["val_loss"]) == ("250", "2.125")
    assert "# target: val_loss<=LEVEL" in found.text
    assert any("of which the pattern reads val_loss" in remark for remark in found.remarks)


def test_a_draft_reads_a_bare_count_of_epochs_and_asks_in_per_cent_as_the_script_does(tmp_path: Path) -> None:
    line = 'print(f"[{epoch + 1}/{args.num_epochs}] loss={loss.item():.4f} val_top1={100 * accuracy:.2f}%")'
    (tmp_path / "train.py").write_text(line)
    text = draft(("python", "train.py", "{batch_size}"), tmp_path, "job", 100, 4).text
    assert r"pattern: '\[(?P<epoch>\d+)/.*?\bval_top1=(?P<accuracy>[\d.]+)\s*%'" in text
    assert "at_least: 95}" in text


def test_a_draft_asks_for_what_its_pattern_reads_whatever_names_the_script_has(tmp_path: Path) -> None:
    (tmp_path / "fit.py").write_text('print(f"epoch {e}/{n} | top1 {100 * hits:.2f}%")')
    text = draft(("python", "fit.py", "{batch_size}"), tmp_path, "job", 100, 4).text
    assert "(?P<accuracy>" in text
    assert "target: {metric: accuracy, at_least: 95}" in text
    assert "loss<=LEVEL" not in text


@pytest.mark.parametrize(
    ("said", "target"),
    [
        ('print(f"epoch {e} | dev-PPL -> {ppl:.2f}")', "# target: val_perplexity<=LEVEL "),
        ('print(f"Epoch {e} RMSE(val): {rmse:.4f}")', "# target: val_rmse<=LEVEL "),
        ('print(f"{e}: goodness {g:.4f}")', "# target: {metric: ..., at_most: ...} "),
    ],
)
def test_a_draft_names_the_metric_that_is_read_and_else_none(tmp_path: Path, said: str, target: str) -> None:
    (tmp_path / "fit.py").write_text(said)
    drafted = draft(("python", "fit.py", "{batch_size}"), tmp_path, "job", 100, 4)
    assert target in drafted.text
    assert drafted.lacks_target


def test_a_draft_of_a_script_that_trains_alone_has_one_worker_and_says_why(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import numpy\n")
    drafted = draft(("python", "train.py", "{batch_size}"), tmp_path, "job", 100, 4)
    assert "workers: 1," in drafted.text
    assert any("train all of it alone" in remark for remark in drafted.remarks)


def test_a_draft_names_the_placeholders_that_nothing_fills(tmp_path: Path) -> None:
    _read(ARGPARSE, tmp_path)
    command = ("python", "train.py", "--amp", "{amp}", "--seed", "{seed}", "--keep", "{{braces}}")
    drafted = draft(command, tmp_path, "job", 100, 4)
    assert "\n# amp: [..., ...] in search has the values for {amp}\n" in drafted.text
    assert [remark for remark in drafted.remarks if "nothing fills" in remark] == [
        "nothing fills {amp} of the command: give its values in the line search, amp: [..., ...], "
        "or by --axis amp=...,... (write {{amp}} for the braces themselves)"
    ]
    job_settings.loads(drafted.text, {}, "draft", tmp_path)


def test_a_draft_of_a_script_that_is_not_there_says_so(tmp_path: Path) -> None:
    drafted = draft(("python", "trian.py", "{batch_size}"), tmp_path, "job", 100, 4)
    assert any("no trian.py here" in remark for remark in drafted.remarks)


@pytest.mark.parametrize(
    ("command", "names"),
    [
        ("python train.py --eval_strategy epoch", ("eval_accuracy", "eval_f1", "eval_loss")),
        ("python train.py --eval_strategy=steps", ("eval_accuracy", "eval_f1", "eval_loss")),
        ("python train.py args.yaml", ("eval_accuracy", "eval_f1", "eval_loss")),
        ("python train.py --eval_strategy no", ()),
        ("python train.py", ()),
    ],
)
def test_what_a_trainer_evaluates_is_read_of_the_command_and_its_files_too(
    tmp_path: Path, command: str, names: tuple[str, ...]
) -> None:
    (tmp_path / "args.yaml").write_text("eval_strategy: epoch\n")
    (tmp_path / "train.py").write_text("""
from transformers import HfArgumentParser, Trainer, TrainingArguments

def compute_metrics(told):
    guesses = told.predictions.argmax(-1)
    return {"accuracy": (guesses == told.label_ids).mean(), 'f1': f1(guesses)}

(args,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()
Trainer(model, args, compute_metrics=compute_metrics).train()
""")
    script = read(command.split(), tmp_path)
    assert script is not None
    assert script.metrics == names
    found = draft(command.split(), tmp_path, "job", 100, 4)
    assert any("never to evaluate" in remark for remark in found.remarks) == (not names)


@pytest.mark.parametrize("named", ["monitor=", ""])
def test_what_a_script_judges_its_best_by_is_its_metric(named: str, tmp_path: Path) -> None:
    text = """
import lightning as L
from lightning.pytorch.callbacks import EarlyStopping

class Net(L.LightningModule):
    def validation_step(self, batch, at):
        self.log("val_loss", 1.0)
        self.log("val_f1", 0.5)

L.Trainer(callbacks=[EarlyStopping(monitor="val_f1", mode="max")]).fit(Net())
"""
    (tmp_path / "train.py").write_text(text.replace("monitor=", named))
    script = read(("python", "train.py"), tmp_path)
    assert script is not None
    assert script.metrics == ("val_f1", "val_loss")
    drafted = draft(("python", "train.py"), tmp_path, "job", 100, 4)
    assert drafted.open_target == "val_f1>=LEVEL"
    settings = job_settings.loads("run: python train.py", {}, "cotune.yaml", tmp_path)
    assert (settings.job.metric, settings.job.better, settings.metric_named) == ("val_f1", "higher", False)


@pytest.mark.parametrize(
    "makes",
    [
        "def score(p):\n    return dict(accuracy=right(p), f1=f1_score(p))\n",
        "def score(p):\n    told = {'accuracy': right(p), 'f1': 0.5}\n    return {'accuracy': right(p), 'f1': 0.5}\n",
        "both = evaluate.load('accuracy'), evaluate.load('f1')\ndef score(p):\n    return both[0].compute(p)\n",
    ],
)
def test_what_compute_metrics_returns_is_read_however_it_is_called_and_written(tmp_path: Path, makes: str) -> None:
    text = "from transformers import Trainer, TrainingArguments\nimport evaluate\n" + makes
    text += "Trainer(model, TrainingArguments('out', eval_strategy='epoch'), compute_metrics=score).train()\n"
    (tmp_path / "train.py").write_text(text)
    script = read(("python", "train.py"), tmp_path)
    assert script is not None
    assert script.metrics == ("eval_accuracy", "eval_f1", "eval_loss")


def test_a_draft_takes_the_only_number_that_a_script_prints_and_the_unit_its_flag_names(tmp_path: Path) -> None:
    epochs = ARGPARSE.replace('"--epochs"', '"--iterations"')
    (tmp_path / "train.py").write_text(f"{epochs}\nprint(f'iter={{it}} mean_reward={{reward:.1f}}')\n")
    found = draft(("python", "train.py", "--iterations", "{epochs}"), tmp_path, "job", None, 2)
    assert "(?P<epoch>" in found.text
    assert found.open_target == "mean_reward>=LEVEL"


@pytest.mark.parametrize("printed", ["{'epoch': e, 'val_acc': a}", "json.dumps({'epoch': e, 'val_acc': a})"])
def test_a_draft_reads_dictionaries_that_a_script_prints(tmp_path: Path, printed: str) -> None:
    (tmp_path / "train.py").write_text(f"{ARGPARSE}\nprint({printed})\n")
    found = draft(("python", "train.py"), tmp_path, "job", None, 2)
    settings = job_settings.loads(found.text, {}, "draft", tmp_path)
    assert settings.job.pattern is not None
    match = re.search(settings.job.pattern, str({"epoch": 3, "val_acc": 0.91}))
    assert match is not None
    assert (match["epoch"], match["accuracy"]) == ("3", "0.91")


@pytest.mark.parametrize(
    ("printing", "line", "metric", "value"),
    [
        ('print(f"Epoch {e:.1f}: loss={l:.4f} AUC={auc:.4f}")', "Epoch 0.5: loss=0.5256 AUC=0.8845", "AUC", "0.8845"),
        (
            'print(f"[{ep}/{a.epochs}] train_loss={t:.4f} "\n      f"top1={top1:.2f}% ({s:.1f}s)")',
            "[3/20] train_loss=0.9257 top1=77.95% (3.4s)",
            "accuracy",
            "77.95",
        ),
        (
            'print(f"[{epoch}] lr={lr:.5f} test_loss={loss:.4f} "\n      f"test_acc={acc:.2f}%")',
            "[3] lr=0.00400 test_loss=0.6512 test_acc=77.40%",
            "accuracy",
            "77.40",
        ),
        (
            'print(f"epoch {epoch} loss {l:.4f} val_loss {v:.4f} f1 {f:.4f}")',
            "epoch 1 loss 2 val_loss 0.7 f1 0.3",
            "val_loss",
            "0.7",
        ),
    ],
)
def test_a_draft_reads_a_score_rather_than_a_loss_of_training_data(
    tmp_path: Path, printing: str, line: str, metric: str, value: str
) -> None:
    (tmp_path / "train.py").write_text(printing)
    text = draft(("python", "train.py", "{batch_size}", "{epochs}"), tmp_path, "job", 100, 4).text
    pattern = job_settings.loads(text, {}, "draft", tmp_path).job.pattern
    found = re.search(pattern or "", line)
    assert found is not None
    assert found[metric] == value


@pytest.mark.parametrize(
    "printing",
    [
        'print(f"[{i}/{len(loader)}] loss={l:.4f} acc={a:.2f}")',
        'print(f"epoch {epoch} train loss {l:.4f} acc {a:.2f}")',
        'print(f"epoch {epoch} [{i}/{n}] acc {a:.2f} auc {b:.2f}")',
    ],
)
def test_a_draft_reads_no_score_of_a_part_of_an_epoch_or_of_training_data(tmp_path: Path, printing: str) -> None:
    (tmp_path / "train.py").write_text(printing)
    text = draft(("python", "train.py", "{batch_size}", "{epochs}"), tmp_path, "job", 100, 4).text
    assert "\npattern:" not in text


def test_a_draft_names_every_value_of_held_out_data_that_is_told(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text('print(f"epoch {epoch} val_loss {v:.4f} val_acc {a:.4f}")')
    remarks = draft(("python", "train.py", "{batch_size}"), tmp_path, "job", 100, 4).remarks
    assert any("it tells val_loss and val_acc of held-out data" in remark for remark in remarks)


@pytest.mark.parametrize("flag", ["--seed", "--rng", "--random-seed"])
def test_a_draft_hands_on_the_seed_unless_the_command_has_one(tmp_path: Path, flag: str) -> None:
    (tmp_path / "train.py").write_text(f'p.add_argument("{flag}", type=int, default=0)')
    command = ("python", "train.py", "{batch_size}")
    assert f"{flag} {{seed}}" in draft(command, tmp_path, "job", 100, 4).text
    assert "{seed}" not in draft((*command, flag, "7"), tmp_path, "job", 100, 4).text


def test_the_peak_of_a_schedule_is_the_learning_rate_where_no_other_is_stated(tmp_path: Path) -> None:
    peak = 'p.add_argument("--batch-size", default=50)\np.add_argument("--max-lr", default=0.004)\n'
    script = _read(peak, tmp_path)
    assert (script.defaults["lr"].value, script.flags["lr"]) == (0.004, "--max-lr")
    script = _read('p.add_argument("--lr", default=0.1)\n' + peak, tmp_path)
    assert (script.defaults["lr"].value, script.flags["lr"]) == (0.1, "--lr")
