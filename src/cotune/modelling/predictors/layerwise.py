"""The milliseconds of one layer, learnt from thousands of timed layers (Justus et al., 2018).

    published: ms = relu(w . h(x)),  h = ReLU layers 32-64-128-128 (two more of 128 across devices)
               min mean (ln(1 + ms) - ln(1 + measured))^2 + 1e-5 |weights|^2

x are the published features (`layer_features`), standardised. Adam with epsilon 0.1, rate 0.1
halved every 40 epochs, batches of 128, 300 epochs, dropout 0.2 after the last hidden layer.

    trees: ms = (host + roofline) x exp(mean of boosted trees(physical features)), for each device that was seen
           ms on another = host + (ms - host) x roofline there / roofline here

Each member of the mean keeps a share of the rows, drawn at random, from its trees and grows no more of them where those
no longer help on that share: noisy rows grow few, exact ones many. Trees say how far a layer is off its roofline, so
one larger or smaller than all that were timed is as far off as they are. What an unseen device takes is the mean over
the seen ones, those of like peak, bandwidth and clock counting most. `host` is what the framework takes for the
emptiest layer; it does not follow the GPU. A network's step is the sum of its layers, and an epoch steps x that. Models
are trained when they are wanted, from the rows themselves; nothing trained is kept or shipped.

Reference: Justus et al., Predicting the computational cost of deep learning models, IEEE Big Data 2018.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from cotune.bounds import Count, NotNegative, Positive, Whole
from cotune.errors import missing_extra
from cotune.modelling.layer_features import physical, published, work
from cotune.modelling.layer_rows import Layers
from cotune.predict import TooFewSamples
from cotune.types import Floats

__all__ = ["LayerTrees", "Layerwise"]

LEAST_ROWS = 20
_FLOOR = 0.9  # of the 1 % quantile: what the host takes for the emptiest layer


@dataclass(frozen=True, slots=True)
class Layerwise:
    """The network of Justus et al. for single layers, as published."""

    epochs: Count = 300
    batch_size: Count = 128
    lr: Positive = 0.1
    halved_every: Count = 40
    dropout: NotNegative = 0.2
    decay: NotNegative = 1e-5
    seed: Whole = 0

    def fit_layers(self, layers: Layers) -> _Network:
        """Return the network trained on some layers; with several devices it reads their facts."""
        _check(layers)
        several = len(np.unique(layers.device)) > 1
        features = published(layers, hardware=several)
        centre, spread = features.mean(axis=0), features.std(axis=0)
        spread[spread == 0] = 1.0
        hidden = (32, 64, 128, 128, 128, 128) if several else (32, 64, 128, 128)
        try:
            import torch

            from cotune.modelling.counting.timing import cores
        except ImportError:
            raise missing_extra("torch, which trains the network,", "torch") from None
        with cores(1):  # the matrices are small, and busy cores make the others wait
            weights = self._train(torch, (features - centre) / spread, layers.ms, hidden)
        return _Network(weights, centre, spread, several)

    def _train(
        self, torch: Any, features: Floats, ms: Floats, hidden: tuple[int, ...]
    ) -> list[tuple[Floats, Floats | None]]:
        chance = torch.Generator().manual_seed(self.seed)
        x = torch.tensor(features, dtype=torch.float32)
        y = torch.log1p(torch.tensor(ms, dtype=torch.float32))
        parameters = _initial(torch, (features.shape[1], *hidden, 1), chance)
        kernels, biases = [pair[0] for pair in parameters], [pair[1] for pair in parameters[:-1]]
        groups = [{"params": kernels, "weight_decay": 2 * self.decay}, {"params": biases}]
        optimiser = torch.optim.Adam(groups, lr=self.lr, eps=0.1, fused=True)
        for epoch in range(self.epochs):
            for group in optimiser.param_groups:
                group["lr"] = self.lr * 0.5 ** (epoch // self.halved_every)
            for rows in torch.randperm(len(x), generator=chance).split(self.batch_size):
                state = x[rows]
                for kernel, bias in parameters[:-1]:
                    state = torch.addmm(bias, state, kernel).relu_()
                kept = torch.rand(state.shape, generator=chance) >= self.dropout
                guess = torch.relu((state * kept / (1 - self.dropout)) @ parameters[-1][0])[:, 0]
                optimiser.zero_grad()
                torch.mean((torch.log1p(guess) - y[rows]) ** 2).backward()
                optimiser.step()
        return [
            (kernel.detach().double().numpy(), bias[0].detach().double().numpy() if bias else None)
            for kernel, *bias in parameters
        ]


def _initial(torch: Any, sizes: tuple[int, ...], chance: Any) -> list[list[Any]]:
    """Return Glorot's uniform kernels and zero biases; the last layer has none."""
    made = []
    for place, (inside, outside) in enumerate(pairwise(sizes)):
        bound = (6 / (inside + outside)) ** 0.5
        kernel = (torch.rand(inside, outside, generator=chance) * 2 - 1) * bound
        if place == len(sizes) - 2:
            kernel = kernel.abs()  # an output below zero for every row would never learn
        made.append([kernel, torch.zeros(outside)] if place < len(sizes) - 2 else [kernel])
    for pair in made:
        for tensor in pair:
            tensor.requires_grad_()
    return made


@dataclass(frozen=True, slots=True)
class _Network:
    weights: list[tuple[Floats, Floats | None]]
    centre: Floats
    spread: Floats
    hardware: bool

    def predict(self, layers: Layers) -> Floats:
        state = (published(layers, hardware=self.hardware) - self.centre) / self.spread
        for kernel, bias in self.weights:
            state = np.maximum(state @ kernel + (0.0 if bias is None else bias), 0.0)
        return state[:, 0]


@dataclass(frozen=True, slots=True)
class LayerTrees:
    """Boosted trees on the physical features of single layers, moved by the roofline to devices not seen."""

    trees: int = 1200
    leaves: int = 48
    rate: float = 0.08
    members: int = 5
    kept: float = 0.2
    patience: int = 20
    near: float = 0.4
    seed: int = 0

    def fit_layers(self, layers: Layers) -> _Trees:
        """Return the trees of each device; `near` is how far, in logarithms of facts, devices are alike."""
        _check(layers)
        names = np.unique(layers.device)
        return _Trees({str(name): self._grown(layers.take(layers.device == name)) for name in names}, self.near)

    def _grown(self, layers: Layers) -> _Forest:
        try:
            from sklearn.ensemble import HistGradientBoostingRegressor
            from threadpoolctl import threadpool_limits
        except ImportError:
            raise missing_extra("scikit-learn, which grows the trees,", "workloads") from None
        features, words = physical(layers)
        models = [
            HistGradientBoostingRegressor(
                max_iter=self.trees,
                max_leaf_nodes=self.leaves,
                learning_rate=self.rate,
                min_samples_leaf=min(20, max(2, len(layers) // 50)),
                categorical_features=words,
                early_stopping=True,
                validation_fraction=self.kept,
                n_iter_no_change=self.patience,
                tol=0.0,
                random_state=self.seed + member,
            )
            for member in range(self.members)
        ]
        training = layers.shape["optimizer"] > 0
        floors = [_FLOOR * float(np.quantile(layers.ms[training == side], 0.01)) if (training == side).any() else 0.0
                  for side in (False, True)]  # fmt: skip
        forest = _Forest(models, {name: float(column[0]) for name, column in layers.facts.items()}, floors)
        with threadpool_limits(1):  # threads that wait for a busy core make it twenty times slower
            for model in models:
                model.fit(features, np.log(layers.ms / forest.bound(layers)))
        return forest


@dataclass(frozen=True, slots=True)
class _Forest:
    """The trees of one device, its facts, and what its host takes for the emptiest layer."""

    models: Sequence[Any]
    facts: Mapping[str, float]
    floors: Sequence[float]  # of the forward pass alone, and with a backward pass

    def predict(self, layers: Layers) -> Floats:
        from threadpoolctl import threadpool_limits

        features, _ = physical(layers)
        with threadpool_limits(1):
            factor = np.exp(np.mean([model.predict(features) for model in self.models], axis=0))
        return np.asarray(self.bound(layers) * factor)

    def bound(self, layers: Layers) -> Floats:
        """Return the milliseconds of layers here by host and roofline; 1 where nothing is known of the device."""
        if not np.all(np.isfinite(list(self.facts.values()))):
            return np.ones(len(layers))
        return np.asarray(self._host(layers) + work(layers).roofline(self.facts))

    def _host(self, layers: Layers) -> Floats:
        return np.where(layers.shape["optimizer"] > 0, self.floors[1], self.floors[0])

    def moved(self, layers: Layers) -> Floats:
        """Return the milliseconds on other devices: the host's part stays, the rest follows the roofline."""
        floor = self._host(layers)
        here = self.predict(layers)
        done = work(layers)
        ratio = done.roofline(layers.facts) / done.roofline(self.facts)
        return np.asarray(floor + np.maximum(here - floor, (1 - _FLOOR) * here) * ratio)

    def likeness(self, layers: Layers, near: float) -> Floats:
        """Return the logarithm of how alike this device and those of the layers are."""
        apart = [np.log(layers.facts[name] / self.facts[name]) for name in ("gflops", "gigabytes_per_second", "mhz")]
        return np.asarray(-np.sum(np.square(apart), axis=0) / (2 * near**2))


@dataclass(frozen=True, slots=True)
class _Trees:
    forests: Mapping[str, _Forest]
    near: float

    def predict(self, layers: Layers) -> Floats:
        result = np.empty(len(layers))
        for device in np.unique(layers.device):
            rows = np.flatnonzero(layers.device == device)
            part = layers.take(rows)
            own = self.forests.get(str(device))
            result[rows] = self._unseen(part) if own is None else own.predict(part)
        return result

    def _unseen(self, layers: Layers) -> Floats:
        """Return the mean over the seen devices, in logarithms, those most like the unseen one counting most."""
        _check_facts(layers)
        alike = np.stack([forest.likeness(layers, self.near) for forest in self.forests.values()])
        weights = np.exp(alike - alike.max(axis=0))
        moved = np.log([forest.moved(layers) for forest in self.forests.values()])
        return np.asarray(np.exp((weights * moved).sum(axis=0) / weights.sum(axis=0)))


def _check(layers: Layers) -> None:
    names, counts = np.unique(layers.device, return_counts=True)
    if len(names) == 0 or counts.min() < LEAST_ROWS:
        fewest = int(counts.min()) if len(names) else 0
        raise TooFewSamples(f"{fewest} timed {layers.kind} layers of a device: at least {LEAST_ROWS} are needed")
    if len(names) > 1:
        _check_facts(layers)


def _check_facts(layers: Layers) -> None:
    bare = ~np.all([np.isfinite(column) for column in layers.facts.values()], axis=0)
    if bare.any():
        unknown = ", ".join(np.unique(layers.device[bare]))
        raise TooFewSamples(f"nothing is known of {unknown}: put its facts into devices.csv")
