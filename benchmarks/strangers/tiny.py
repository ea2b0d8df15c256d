"""A two-layer network in numpy on made-up data, which knows nothing of cotune; an epoch takes some 30 ms.

python tiny.py --batch-size 32 --epochs 10 --schedule cosine --evals 4
"""

from __future__ import annotations

import argparse
import math
import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
import numpy as np

FEATURES, CLASSES, WIDTH, HELD_OUT = 20, 5, 64, 2000


def main() -> None:
    """Train, and print the share of held-out examples that are classified rightly."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--examples", type=int, default=8000)
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--optimizer", choices=("sgd", "adam"), default="sgd")
    parser.add_argument("--schedule", choices=("constant", "cosine", "linear"), default="constant")
    parser.add_argument("--evals", type=int, default=1, help="evaluations in an epoch")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    x, y = data(asked.examples + HELD_OUT)
    net = Net(np.random.default_rng(asked.seed + 7), adam=asked.optimizer == "adam")
    steps = math.ceil(asked.examples / asked.batch_size)
    told = {round(steps * (part + 1) / asked.evals) for part in range(asked.evals)}
    for epoch in range(asked.epochs):
        order = net.rng.permutation(asked.examples)
        for step in range(steps):
            rows = order[step * asked.batch_size : (step + 1) * asked.batch_size]
            share = (epoch + step / steps) / asked.epochs
            net.train(x[rows], y[rows], asked.lr * rate(asked.schedule, share))
            if step + 1 in told:
                right = net.accuracy(x[asked.examples :], y[asked.examples :])
                print(f"epoch {epoch + (step + 1) / steps:.4f} val_acc {right:.4f}", flush=True)


def data(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return points and the classes that a fixed random network gives them."""
    rng = np.random.default_rng(1)
    x = rng.standard_normal((count, FEATURES)).astype(np.float32)
    return x, (np.tanh(x @ rng.standard_normal((FEATURES, 6))) @ rng.standard_normal((6, CLASSES))).argmax(axis=1)


def rate(schedule: str, share: float) -> float:
    """Return the learning rate after a share of the run, over its peak."""
    return {"constant": 1.0, "cosine": 0.5 * (1 + math.cos(math.pi * share)), "linear": 1 - share}[schedule]


class Net:
    """Two layers with their optimiser."""

    def __init__(self, rng: np.random.Generator, *, adam: bool) -> None:
        self.rng, self.adam, self.steps = rng, adam, 0
        shapes = ((FEATURES, WIDTH), (WIDTH, CLASSES))
        first, second = (rng.standard_normal(s).astype(np.float32) * math.sqrt(2 / s[0]) for s in shapes)
        self.weights = [first, np.zeros(WIDTH, np.float32), second, np.zeros(CLASSES, np.float32)]
        self.mean = [np.zeros_like(w) for w in self.weights]
        self.square = [np.zeros_like(w) for w in self.weights]

    def train(self, x: np.ndarray, y: np.ndarray, lr: float) -> None:
        """Take one step."""
        first, shift, second, offset = self.weights
        hidden = x @ first + shift
        on = hidden > 0
        hidden *= on
        out = hidden @ second + offset
        out = np.exp(out - out.max(axis=1, keepdims=True))
        out /= out.sum(axis=1, keepdims=True)
        out[np.arange(len(y)), y] -= 1
        out /= len(y)
        back = (out @ second.T) * on
        self.steps += 1
        for place, slope in enumerate((x.T @ back, back.sum(axis=0), hidden.T @ out, out.sum(axis=0))):
            self.weights[place] -= lr * (self._adam(place, slope) if self.adam else self._momentum(place, slope))

    def _momentum(self, place: int, slope: np.ndarray) -> np.ndarray:
        self.mean[place] = 0.9 * self.mean[place] + slope
        return self.mean[place]

    def _adam(self, place: int, slope: np.ndarray) -> np.ndarray:
        self.mean[place] = 0.9 * self.mean[place] + 0.1 * slope
        self.square[place] = 0.999 * self.square[place] + 0.001 * slope * slope
        usual = np.sqrt(self.square[place] / (1 - 0.999**self.steps)) + 1e-8
        return 0.05 * (self.mean[place] / (1 - 0.9**self.steps)) / usual

    def accuracy(self, x: np.ndarray, y: np.ndarray) -> float:
        """Return the share that is classified rightly."""
        first, shift, second, offset = self.weights
        return float(((np.maximum(x @ first + shift, 0) @ second + offset).argmax(axis=1) == y).mean())


if __name__ == "__main__":
    main()
