"""A small GPT-2 from its config, trained by transformers' Trainer on text of the standard library; nothing of cotune.

python examples/frameworks/hf_trainer.py
"""

import sysconfig
from pathlib import Path

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

LENGTH = 32


def rows() -> list[dict[str, torch.Tensor]]:
    library = sorted(Path(sysconfig.get_paths()["stdlib"]).glob("[a-f]*.py"))
    text = b"".join(path.read_bytes() for path in library)[: 2048 * LENGTH]
    pieces = (torch.tensor(list(text[at : at + LENGTH])) for at in range(0, len(text), LENGTH))
    return [{"input_ids": piece, "labels": piece} for piece in pieces]


torch.manual_seed(0)
data = rows()
arguments = TrainingArguments(
    output_dir="out",
    max_steps=400,
    per_device_train_batch_size=16,
    per_device_eval_batch_size=64,
    learning_rate=1e-2,
    lr_scheduler_type="constant",
    eval_strategy="steps",
    eval_steps=20,
    save_strategy="no",
    report_to="none",
)
model = GPT2LMHeadModel(GPT2Config(vocab_size=256, n_positions=LENGTH, n_embd=32, n_layer=1, n_head=4))
trainer = Trainer(model=model, args=arguments, train_dataset=data[:-64], eval_dataset=data[-64:])
trainer.train()
trainer.save_model("out/last")
