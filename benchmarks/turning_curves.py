"""Learning curves that turn, or that end at a bound nobody told: small networks on few examples, and a pole on a cart.

    COTUNE_DATA=... python benchmarks/turning_curves.py OUT.csv          (ten minutes on one core)

Two layers and a small convolution on 300 to 2,000 examples of Fashion-MNIST, MNIST and Adult learn these by heart:
their validation loss gets worse after some epochs, their accuracy hardly. A policy that balances a pole (Barto, Sutton
and Anderson's equations, REINFORCE) earns a reward of at most 200 or 500, where an episode ends. Three seeds of each.
Columns: task, metric, better, global_batch, seed, epoch, value.
"""

from __future__ import annotations

import csv
import gzip
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from torch import nn

SEEDS = (1, 2, 3)
EPOCHS = 60
VALIDATION = 2000
# data, network, examples, learning rate, batches
NETWORKS = (
    ("fashion-mnist", "layers", 500, 1e-3, (16, 64)),
    ("fashion-mnist", "convolutions", 2000, 1e-3, (32, 128)),
    ("mnist", "layers", 300, 1e-3, (16, 64)),
    ("mnist", "convolutions", 1000, 2e-3, (32, 128)),
    ("adult", "layers", 1000, 1e-3, (16, 64)),
    ("adult", "layers", 2000, 3e-3, (32, 128)),
)
POLES = ((200, 8, 0.02), (200, 32, 0.02), (500, 16, 0.02), (500, 32, 0.01))  # bound, episodes an update, rate
UPDATES = 80
Point = tuple[str, str, str, int, int, int, float]


def loaded(name: str) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return training and validation data of one set."""
    folder = Path(os.environ["COTUNE_DATA"]) / name
    if name == "adult":
        return _adult(folder)
    with np.load(folder / f"{name}.npz") as file:
        names = sorted(file.files)
        x, y, vx, vy = (file[key] for key in _keys(names))
    return (
        torch.tensor(x[:4000], dtype=torch.float32).reshape(-1, 1, 28, 28) / 255,
        torch.tensor(y[:4000].astype(np.int64)),
        torch.tensor(vx[:VALIDATION], dtype=torch.float32).reshape(-1, 1, 28, 28) / 255,
        torch.tensor(vy[:VALIDATION].astype(np.int64)),
    )


def _keys(names: list[str]) -> list[str]:
    """Return the names of training images and labels, then those of the test."""
    images = [name for name in names if "x" in name or "image" in name]
    labels = [name for name in names if name not in images]
    train = [next(one for one in kind if "train" in one) for kind in (images, labels)]
    return train + [next(one for one in kind if "test" in one) for kind in (images, labels)]


def _adult(folder: Path) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    with gzip.open(folder / "adult.csv.gz", "rt") as file:
        rows = [row for _, row in zip(range(8000), csv.DictReader(file), strict=False)]
    label = next(name for name in rows[0] if name in ("income", "label", "class", "target"))
    columns = []
    for name in rows[0]:
        if name == label:
            continue
        values = [row[name] for row in rows]
        try:
            numbers = np.array(values, dtype=np.float64)
            columns.append(((numbers - numbers.mean()) / (numbers.std() + 1e-9))[:, None])
        except ValueError:
            kinds = sorted(set(values))
            columns.append((np.array(values)[:, None] == np.array(kinds)[None, :]).astype(np.float64))
    x = torch.tensor(np.hstack(columns), dtype=torch.float32)
    most = sorted({row[label] for row in rows})[-1]
    y = torch.tensor([int(row[label] == most) for row in rows])
    return x[:4000], y[:4000], x[4000 : 4000 + VALIDATION], y[4000 : 4000 + VALIDATION]


def network(kind: str, x: torch.Tensor, classes: int) -> nn.Module:
    """Return two layers, or two convolutions."""
    if kind == "layers":
        wide = int(np.prod(x.shape[1:]))
        return nn.Sequential(nn.Flatten(), nn.Linear(wide, 256), nn.ReLU(), nn.Linear(256, classes))
    return nn.Sequential(
        *(nn.Conv2d(1, 16, 5), nn.ReLU(), nn.MaxPool2d(3)),
        *(nn.Conv2d(16, 32, 3), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(288, classes)),
    )


def trained(data: str, kind: str, examples: int, *, rate: float, batch: int, seed: int) -> Iterator[Point]:
    """Yield validation loss and accuracy after each epoch."""
    x, y, vx, vy = loaded(data)
    chosen = torch.randperm(len(x), generator=torch.Generator().manual_seed(7))[:examples]
    x, y = x[chosen], y[chosen]
    torch.manual_seed(seed)
    model = network(kind, x, int(vy.max()) + 1)
    optimiser = torch.optim.Adam(model.parameters(), rate)
    task = f"{data}-{kind}-{examples}"
    for epoch in range(1, EPOCHS + 1):
        for rows in torch.split(torch.randperm(len(x)), batch):
            optimiser.zero_grad()
            torch.autograd.backward(nn.functional.cross_entropy(model(x[rows]), y[rows]))
            optimiser.step()
        with torch.no_grad():
            told = model(vx)
        loss = float(nn.functional.cross_entropy(told, vy))
        yield task, "val_loss", "lower", batch, seed, epoch, loss
        yield task, "accuracy", "higher", batch, seed, epoch, float((told.argmax(1) == vy).float().mean())


def balanced(bound: int, episodes: int, rate: float, seed: int) -> Iterator[Point]:
    """Yield the mean reward of each update of a policy that balances a pole on a cart."""
    rng = np.random.default_rng(seed)
    hidden = rng.normal(0, 0.5, (4, 16))
    first, second = np.zeros_like(hidden), np.zeros((16, 1))
    out = np.zeros((16, 1))
    for update in range(1, UPDATES + 1):
        states, actions, alive = _episodes(bound, episodes, hidden, out, rng)
        length = alive.sum(axis=0)
        yield f"pole-{bound}", "reward", "higher", episodes, seed, update, float(length.mean())
        left = length[None, :] - np.arange(len(alive))[:, None]
        worth = np.where(alive, left, 0.0)
        worth = np.where(alive, (worth - worth[alive].mean()) / (worth[alive].std() + 1e-9), 0.0)
        layer = np.tanh(states @ hidden)
        chance = 1 / (1 + np.exp(-(layer @ out)[..., 0]))
        error = ((actions - chance) * worth)[..., None] / alive.sum()
        down = np.einsum("tnh,tno->ho", layer, error)
        up = np.einsum("tns,tnh->sh", states, error * out[:, 0] * (1 - layer**2))
        first, second = 0.9 * first + up, 0.9 * second + down
        hidden, out = hidden + 50 * rate * first, out + 50 * rate * second


def _episodes(
    bound: int, count: int, hidden: np.ndarray, out: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    state = rng.uniform(-0.05, 0.05, (count, 4))
    up = np.ones(count, dtype=bool)
    states, actions, alive = [], [], []
    for _ in range(bound):
        chance = 1 / (1 + np.exp(-(np.tanh(state @ hidden) @ out)[:, 0]))
        action = rng.random(count) < chance
        states.append(state)
        actions.append(action.astype(np.float64))
        alive.append(up)
        state = _moved(state, action)
        up = up & (np.abs(state[:, 0]) < 2.4) & (np.abs(state[:, 2]) < 0.2095)
        if not up.any():
            break
    return np.stack(states), np.stack(actions), np.stack(alive)


def _moved(state: np.ndarray, right: np.ndarray) -> np.ndarray:
    x, v, angle, turn = state.T
    cos, sin = np.cos(angle), np.sin(angle)
    push = (np.where(right, 10.0, -10.0) + 0.05 * turn**2 * sin) / 1.1
    bend = (9.8 * sin - cos * push) / (0.5 * (4 / 3 - 0.1 * cos**2 / 1.1))
    pull = push - 0.05 * bend * cos / 1.1
    return np.stack([x + 0.02 * v, v + 0.02 * pull, angle + 0.02 * turn, turn + 0.02 * bend], axis=1)


def main() -> None:
    """Train everything and write it."""
    torch.set_num_threads(1)
    with Path(sys.argv[1]).open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["task", "metric", "better", "global_batch", "seed", "epoch", "value"])
        for bound, episodes, rate in POLES:
            for seed in SEEDS:
                out.writerows(balanced(bound, episodes, rate, seed))
        for data, kind, examples, rate, batches in NETWORKS:
            for batch in batches:
                for seed in SEEDS:
                    out.writerows(trained(data, kind, examples, rate=rate, batch=batch, seed=seed))
                    file.flush()


if __name__ == "__main__":
    main()
