"""The law of a step: seconds per epoch as physics has them, up to coefficients that samples tell.

    seconds = operations x bubble / (n x peak) x (own^g + network^g)^(1/g)
    own     = 1 + h / u + (q1 + q2 [t across nodes]) (t - 1) / width + q3 attention
    network = k1 (l - 1) / (l b) + k2 (N - 1) / (N b)

    N = ceil(n / per_node)      l = n / N      n workers on as few nodes as hold them, as even as can be

b examples per worker lie between two exchanges, and u of them keep it busy at a time: h is the overhead of a batch, k1
and k2 a ring inside a node and between nodes. Each coefficient is counted in what its term adds to a typical config.

Named axes of these names are understood where they are numbers; none of them is needed:

    tensor t, pipeline p    workers that share one replica
    micro_batch m           examples that a replica takes at a time, m / (t p) of them each worker's; a pipeline idles
                            while it fills: bubble = 1 + (p - 1) / u, u = b t p / m micro-batches in a step
    params, layers, hidden, seq_len s, activation_checkpointing
                            operations per example: 6 params s (1 + checkpointing / 3); attention is 2 layers hidden s /
                            params beside them, at a speed of its own; hidden is the width that tensor groups share
    sharding                full_shard gathers parameters for every batch, not once for all that accumulate. What is
                            gathered layer by layer hides behind arithmetic: g = 2 for it and for shard_grad_op, else 1

Where operations are known and the device is in `devices`, they are divided by its peak.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cotune.devices import known
from cotune.space import Configs
from cotune.types import Floats, Mask

# Logarithms of h, k1, k2, q1, q2, q3 at a typical config, in shares of the arithmetic: a batch's overhead takes
# half of it, each network a third, a tensor group a twentieth, and attention is a little slower than matrix products.
# They are the centres of priors (`predictors/gaussian.py`); with 0.3 less of h forecasts differ by 1 %.
USUAL = np.array([-0.7, -1.0, -1.0, -3.0, -3.0, 0.3])
_NETWORK = slice(1, 3)


@dataclass(frozen=True, slots=True)
class LawTerms:
    """What multiplies each coefficient, for some configs."""

    base: Floats
    """Logarithm of operations x bubble / (n x peak), for each config."""

    factors: Floats
    """What multiplies each coefficient (rows) for each config (columns), 1 at a typical config."""

    overlap: Floats
    """g: 1 where network and arithmetic add up, 2 where one hides behind the other."""

    def log(self, coefficients: Floats) -> Floats:
        """Return ln seconds up to a constant: one row for each row of coefficients, one column for each config."""
        own, network = self._parts(coefficients)
        return self.base + np.log(own) + np.log1p((network / own) ** self.overlap) / self.overlap

    def slopes(self, coefficients: Floats) -> Floats:
        """Return by how much ln seconds rises with the logarithm of each coefficient: the share of its term in a step.

        Its axes are those of rows of coefficients, of coefficients, and of configs.
        """
        own, network = self._parts(coefficients)
        whole = own**self.overlap + network**self.overlap
        found = coefficients[:, :, None] * self.factors
        slopes = found * (own ** (self.overlap - 1) / whole)[:, None]
        slopes[:, _NETWORK] = found[:, _NETWORK] * (network ** (self.overlap - 1) / whole)[:, None]
        return np.asarray(slopes)

    @staticmethod
    def of_network(slopes: Floats) -> Floats:
        """Return the share of the network in a step, given the slopes."""
        return np.asarray(slopes[:, _NETWORK].sum(axis=1))

    def _parts(self, coefficients: Floats) -> tuple[Floats, Floats]:
        network = coefficients[:, _NETWORK] @ self.factors[_NETWORK]
        return 1 + coefficients @ self.factors - network, network


@dataclass(frozen=True, slots=True)
class Law:
    """The law in units of some typical configs."""

    per_node: int | None
    typical: Floats

    @classmethod
    def of(cls, configs: Configs, per_node: int | None) -> Law:
        return cls(per_node, np.exp([np.log(scale).mean() for scale in _scales(configs)]))

    def terms(self, configs: Configs) -> LawTerms:
        """Return what multiplies the coefficients for some configs."""
        idle, rate, narrow = (scale / usual for scale, usual in zip(_scales(configs), self.typical, strict=True))
        across = nodes(configs, self.per_node)
        local = np.maximum(configs.workers, 1) / across
        inside, between = (local - 1) / local * rate, (across - 1) / across * rate
        tensor = _number(configs, "tensor", 1.0)
        split = (tensor - 1) * narrow
        work, attention, _ = operations(configs)
        factors = np.stack([idle, inside, between, split, split * (tensor > (self.per_node or np.inf)), attention])
        base = np.log(work * bubble(configs) / np.maximum(configs.workers, 1) / _peak(configs))
        return LawTerms(base, factors, np.where(_sharded(configs, "full_shard", "shard_grad_op"), 2.0, 1.0))


def nodes(configs: Configs, per_node: int | None) -> Floats:
    """Return the nodes that each config spans; one when nothing is known of nodes."""
    return np.ones(configs.length) if per_node is None else np.ceil(configs.workers / per_node)


def at_once(configs: Configs) -> Floats:
    """Return the examples that keep one worker busy at a time."""
    shared = _number(configs, "tensor", 1.0) * _number(configs, "pipeline", 1.0)
    return _number(configs, "micro_batch", 0.0, configs.batch_size * shared) / shared


def bubble(configs: Configs) -> Floats:
    """Return the factor by which filling its pipeline makes a step longer."""
    stages = _number(configs, "pipeline", 1.0)
    rounds = configs.per_step / np.maximum(at_once(configs), 1e-3)
    return 1 + np.where(stages > 1, (stages - 1) / np.maximum(rounds, 1.0), 0.0)


def operations(configs: Configs) -> tuple[Floats, Floats, Floats]:
    """Return operations per example, those of attention beside each, and parameters; 1, 0, 1 where axes do not say."""
    length, layers, hidden = (_number(configs, name, 0.0) for name in ("seq_len", "layers", "hidden"))
    params = _number(configs, "params", 0.0, 12 * layers * hidden**2)
    counted = params > 0
    work = params * np.maximum(length, 1.0) * (1 + _number(configs, "activation_checkpointing", 0.0) / 3)
    attention = 2 * layers * hidden * length / np.where(counted, params, 1.0)
    return np.where(counted, work, 1.0), np.where(counted, attention, 0.0), np.where(counted, params, 1.0)


def _scales(configs: Configs) -> tuple[Floats, Floats, Floats]:
    """Return 1 / u and 1 / b in units of work, and 1 / width."""
    work, _, params = operations(configs)
    exchanged = np.where(_sharded(configs, "full_shard"), configs.batch_size, configs.per_step)
    idle = 1 / (np.maximum(at_once(configs), 1e-3) * work)
    return idle, params / (np.maximum(exchanged, 1) * work), 1 / _number(configs, "hidden", 1.0)


def _peak(configs: Configs) -> Floats:
    """Return the operations per second of each device at its fastest; 1 where operations or device are unknown."""
    counted = operations(configs)[0] > 1
    if not counted.any():
        return np.ones(configs.length)
    peaks = {name: max(spec.flops.values()) for name in set(configs.device.tolist()) if (spec := known(name))}
    return np.where(counted, [peaks.get(name, 1.0) for name in configs.device.tolist()], 1.0)


def _sharded(configs: Configs, *ways: str) -> Mask:
    values = configs.columns["sharding"].tolist() if "sharding" in configs.columns else [""] * configs.length
    return np.array([value in ways for value in values], dtype=bool)


def _number(configs: Configs, name: str, missing: float, instead: Floats | None = None) -> Floats:
    """Return a named axis as positive numbers, and something else where it is absent or a word."""
    default = np.full(configs.length, missing) if instead is None else instead.astype(np.float64)
    if name not in configs.columns:
        return default
    values = [value if type(value) in (int, float) else -1.0 for value in configs.columns[name].tolist()]
    found = np.array(values, dtype=np.float64)
    return np.where(found > 0, found, default)
