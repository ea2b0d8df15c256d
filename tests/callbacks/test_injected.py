"""Scripts of transformers' Trainer, as they are: measured, planned and run to their target."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from cli.jobs import cotune
from cotune.callbacks import injected

needs_trainer = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("transformers", "accelerate")),
    reason="transformers and accelerate are not installed: pip install 'cotune[huggingface]'",
)
SCRIPT = """
import torch
from torch import nn
from transformers import Trainer, TrainingArguments

class Line(nn.Module):
    def __init__(self):
        super().__init__()
        self.line = nn.Linear(4, 1)
    def forward(self, x, labels):
        loss = ((self.line(x).squeeze(-1) - labels) ** 2).mean()
        return {"loss": loss, "logits": self.line(x)}

torch.manual_seed(0)
rows = [{"x": (x := torch.randn(4)), "labels": x.sum()} for _ in range(256)]
arguments = TrainingArguments(
    "out", per_device_train_batch_size=8, max_steps=200, learning_rate=0.02, eval_strategy="steps", eval_steps=10,
    report_to=[], use_cpu=True, save_strategy="no", disable_tqdm=True,
)
Trainer(Line(), arguments, train_dataset=rows[:224], eval_dataset=rows[224:]).train()
"""
JOB = """
name: line
run: python train.py
length: 200 steps of 8
target: eval_loss=0.5
deadline: 5m
search: {workers: 1, batch_size: [8, 16]}
budget: {profile: 60s}
"""


@needs_trainer
def test_a_script_of_the_trainer_is_measured_planned_and_run_unchanged(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    (tmp_path / "cotune.yaml").write_text(JOB)
    profile = cotune(tmp_path, "profile", "--max-samples", "2", "--json")
    assert profile.code == 0, profile.err
    assert all(sample["failure"] is None for sample in profile.json["samples"])
    assert all(sample["curve"] for sample in profile.json["samples"])
    plan = cotune(tmp_path, "plan", "--no-measure", "--json")
    assert plan.code == 0, plan.err
    run = cotune(tmp_path, "run", "--json")
    assert run.code == 0, run.err
    assert run.json["met"]
    assert run.json["run"]["progress"]["done"] < 200


def test_the_numbers_of_the_config_are_arguments_of_the_trainer(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"TRAINER": "batch_size,lr,epochs", "BATCH_SIZE": "16", "LR": "0.1", "EPOCHS": "3"}.items():
        monkeypatch.setenv(f"COTUNE_{name}", value)
    assert injected.arguments() == {
        "per_device_train_batch_size": 16,
        "learning_rate": 0.1,
        "num_train_epochs": 3,
        "max_steps": -1,
    }


def test_nothing_is_watched_without_cotune(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.delenv(injected.VARIABLE, raising=False)
    before = list(sys.meta_path)
    injected.install()
    assert sys.meta_path == before
    assert injected.arguments() == {}
