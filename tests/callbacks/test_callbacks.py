"""Callbacks, in real trainings of two workers under cotune, in the framework's own environment."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cotune.callbacks import evaluated
from cotune.errors import NotFound
from interop import environments

DATA = """
import os, sys, torch
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
x = torch.randn(512, 16)
y = (x.sum(1) > 0).long()
batch, epochs = int(sys.argv[1]), int(sys.argv[2])
"""
LIGHTNING = (
    DATA
    + """
from lightning.pytorch import LightningModule, Trainer
from cotune.callbacks.lightning import Report

class Model(LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(16, 2)
    def training_step(self, batch):
        return torch.nn.functional.cross_entropy(self.layer(batch[0]), batch[1])
    def validation_step(self, batch):
        self.log("val_accuracy", (self.layer(batch[0]).argmax(1) == batch[1]).float().mean(), sync_dist=True)
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.05)

data = TensorDataset(x, y)
trainer = Trainer(
    max_epochs=epochs, callbacks=[Report()], accelerator="cpu", devices=int(os.environ["WORLD_SIZE"]), strategy="ddp",
    logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
)
trainer.fit(Model(), DataLoader(data, batch, shuffle=True), DataLoader(data, 256))
"""
)
HUGGINGFACE = (
    DATA
    + """
from transformers import Trainer, TrainingArguments
from cotune.callbacks.huggingface import Report

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(16, 2)
    def forward(self, x, labels):
        scores = self.layer(x)
        return {"loss": torch.nn.functional.cross_entropy(scores, labels), "logits": scores}

data = [{"x": row, "labels": int(label)} for row, label in zip(x, y)]
settings = TrainingArguments(
    output_dir="out", num_train_epochs=epochs, per_device_train_batch_size=batch, per_device_eval_batch_size=256,
    eval_strategy="epoch", save_strategy="no", logging_strategy="no", learning_rate=0.05, use_cpu=True, report_to=[],
    remove_unused_columns=False, disable_tqdm=True, optim="sgd", lr_scheduler_type="constant",
)
Trainer(
    Model(), settings, train_dataset=data, eval_dataset=data, callbacks=[Report()],
    compute_metrics=lambda found: {"accuracy": float((found.predictions.argmax(1) == found.label_ids).mean())},
).train()
"""
)
SCRIPTS = {"lightning": LIGHTNING, "huggingface": HUGGINGFACE}
CLI = "import sys; sys.argv = ['cotune', *sys.argv[1:]]; from cotune.cli.main import main; main()"


def trained(name: str, folder: Path, *flags: str, epochs: int) -> dict[str, Any]:
    (folder / ".cotune").mkdir()
    (folder / "train.py").write_text(SCRIPTS[name])
    words = ("--workers", "2", "--batch-size", "32", "--epochs", str(epochs), "--examples", "512", "--json", *flags)
    command = ("--", "python", "train.py", "{batch_size}", "{epochs}")
    said = environments.run("logs", CLI, "run", *words, *command, folder=folder, timeout=150)
    document: dict[str, Any] = json.loads(said.splitlines()[-1])
    return document["run"]


@environments.needs("logs")
@pytest.mark.parametrize("name", sorted(SCRIPTS))
def test_a_training_of_two_workers_tells_its_progress_and_its_evaluations(name: str, tmp_path: Path) -> None:
    run = trained(name, tmp_path, epochs=3)
    assert [point["epoch"] for point in run["curve"]] == [1, 2, 3]
    assert run["curve"][-1]["accuracy"] > 0.8
    assert run["terms"].keys() >= {"startup", "evaluation"}
    assert 0 < run["epoch_seconds"] < run["seconds"]


@environments.needs("logs")
@pytest.mark.parametrize("name", sorted(SCRIPTS))
def test_a_training_ends_on_both_workers_when_its_target_is_met(name: str, tmp_path: Path) -> None:
    run = trained(name, tmp_path, "--target", "accuracy=0.7", epochs=500)
    assert run["epochs"] < 500
    assert run["failure"] is None
    assert run["warning"] is None, "it finished by itself"


def test_the_metric_is_found_by_its_name_or_as_what_was_validated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COTUNE_METRIC", raising=False)
    assert evaluated({"val_accuracy": 0.5, "loss": 1.0}, None) == {"accuracy": 0.5}
    assert evaluated({"accuracy": 0.6, "val_accuracy": 0.5}, None) == {"accuracy": 0.6}
    monkeypatch.setenv("COTUNE_METRIC", "loss")
    assert evaluated({"eval_loss": 0.1, "eval_accuracy": 0.5}, None) == {"loss": 0.1}
    assert evaluated({"my/number": 3.0}, "my/number") == {"loss": 3.0}
    with pytest.raises(NotFound, match=r"no metric 'acc' was evaluated, but loss, val_acuracy; name it: Report"):
        evaluated({"loss": 1.0, "val_acuracy": 0.1}, "acc")


@pytest.mark.parametrize(("name", "package"), [("lightning", "lightning"), ("huggingface", "transformers")])
def test_without_the_framework_one_line_says_what_to_install(name: str, package: str) -> None:
    hide = f"import sys; sys.modules['{package}'] = sys.modules['pytorch_lightning'] = None"
    code = f"{hide}\nimport cotune.callbacks.{name}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert f"pip install 'cotune[{name}]'" in done.stderr.splitlines()[-1]


GROWS = """
import os, sys, torch
from transformers import BertConfig, BertForSequenceClassification, TrainingArguments
from cotune.callbacks.huggingface import _takes_any, loss_grows

class Own(torch.nn.Module):
    def forward(self, x, **kwargs):
        return x

class Plain(torch.nn.Module):
    def forward(self, x):
        return x

small = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 8, "vocab_size": 9}
args = [TrainingArguments("out", use_cpu=True, average_tokens_across_devices=average) for average in (True, False)]
os.environ["WORLD_SIZE"] = sys.argv[1]  # known after the arguments, which would wait for the others
for model in (Own(), Plain(), BertForSequenceClassification(BertConfig(**small))):
    print(*(loss_grows(given, model, _takes_any(model)) for given in args))
"""


@environments.needs("logs")
@pytest.mark.parametrize(("workers", "own"), [("1", "False False"), ("2", "True False")])
def test_it_is_known_when_a_trainer_multiplies_a_loss_by_its_workers(workers: str, own: str, tmp_path: Path) -> None:
    said = environments.run("logs", GROWS, workers, folder=tmp_path)
    assert said.splitlines()[-3:] == [own, "False False", "False False"]
