"""A loop of one's own around Accelerate, with the flags of its examples; nothing of cotune.

python examples/frameworks/accelerate_net.py --num_train_epochs 5
"""

import argparse

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--per_device_train_batch_size", type=int, default=32)
parser.add_argument("--learning_rate", type=float, default=5e-3)
parser.add_argument("--num_train_epochs", type=int, default=20)
parser.add_argument("--gradient_accumulation_steps", type=int, default=1)
args = parser.parse_args()

torch.manual_seed(0)
x = torch.randn(2048, 32)
y = torch.sin(x[:, :8].sum(1)) + 0.5 * x[:, 8:].abs().mean(1)
data = TensorDataset(x, y)
train, test = torch.utils.data.random_split(data, (1792, 256))

accelerator = Accelerator(gradient_accumulation_steps=args.gradient_accumulation_steps)
model = nn.Sequential(nn.Linear(32, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=args.learning_rate)
model, optimizer, loader, held_out = accelerator.prepare(
    model,
    optimizer,
    DataLoader(train, batch_size=args.per_device_train_batch_size, shuffle=True),
    DataLoader(test, batch_size=128),
)
accelerator.init_trackers("net")
for epoch in range(args.num_train_epochs):
    model.train()
    for inputs, targets in loader:
        with accelerator.accumulate(model):
            loss = nn.functional.mse_loss(model(inputs).squeeze(-1), targets)
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
    model.eval()
    with torch.no_grad():
        parts = [(model(inputs).squeeze(-1), targets) for inputs, targets in held_out]
    found, wanted = accelerator.gather_for_metrics([torch.cat(part) for part in zip(*parts, strict=True)])
    accelerator.log({"eval_loss": nn.functional.mse_loss(found, wanted).item(), "train_loss": loss.item()}, step=epoch)
accelerator.end_training()
