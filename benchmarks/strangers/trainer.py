"""A small network trained by transformers' Trainer with its own defaults (linear decay); it knows nothing of cotune."""

from __future__ import annotations

import tempfile

import torch
from torch import nn
from transformers import Trainer, TrainingArguments

FEATURES, CLASSES, WIDTH, EXAMPLES, HELD_OUT = 20, 5, 64, 4000, 1000


class Net(nn.Module):
    """Two layers that return their loss, as the Trainer expects."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(FEATURES, WIDTH), nn.ReLU(), nn.Linear(WIDTH, CLASSES))

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        """Return the loss and what it is of."""
        logits = self.layers(x)
        return {"loss": nn.functional.cross_entropy(logits, labels), "logits": logits}


def main() -> None:
    """Train on made-up points, whose classes a fixed random network gives."""
    torch.set_num_threads(1)
    chance = torch.Generator().manual_seed(1)
    x = torch.randn(EXAMPLES + HELD_OUT, FEATURES, generator=chance)
    hidden = torch.tanh(x @ torch.randn(FEATURES, 6, generator=chance))
    labels = (hidden @ torch.randn(6, CLASSES, generator=chance)).argmax(dim=1)
    rows = [{"x": point, "labels": label} for point, label in zip(x, labels, strict=True)]
    with tempfile.TemporaryDirectory() as folder:
        asked = TrainingArguments(
            folder,
            eval_strategy="epoch",
            save_strategy="no",
            learning_rate=1e-2,
            per_device_train_batch_size=32,
            per_device_eval_batch_size=500,
            num_train_epochs=24,
            report_to=[],
            disable_tqdm=True,
            use_cpu=True,
        )
        Trainer(Net(), asked, train_dataset=rows[:EXAMPLES], eval_dataset=rows[EXAMPLES:]).train()


if __name__ == "__main__":
    main()
