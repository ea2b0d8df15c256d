"""How a config lies on the machine, and what its named axes say of work.

    N = ceil(n / per_node)      l = n / N      as few nodes as hold the workers, as even as can be

Axes of these names are understood where they are numbers; none of them is needed:

    tensor t, pipeline p    workers that share one replica; b examples per worker are B / n
    micro_batch m           examples that a replica takes at a time, m / (t p) of them each worker's;
                            a pipeline idles while it fills: x (1 + (p - 1) / u), u = b t p / m of them a step
    params, layers, hidden, seq_len s, activation_checkpointing
                            operations per example: 6 params s (1 + checkpointing / 3), and beside each of them
                            2 layers hidden s / params of attention, which run at a speed of their own
    sharding                full_shard gathers the parameters for every batch, not once for all that accumulate; what
                            is gathered layer by layer hides behind the arithmetic: (own^2 + network^2)^(1/2)

Where operations are known, so is the peak of a device of the table (`devices`): it is what they are divided by.
"""

from __future__ import annotations

import numpy as np

from cotune.devices import known
from cotune.space import Configs
from cotune.types import Floats, Mask

EXPLAINED = frozenset(
    ("tensor", "pipeline", "micro_batch", "params", "layers", "hidden", "seq_len", "activation_checkpointing")
)


def nodes(configs: Configs, per_node: int | None) -> Floats:
    """Return the nodes that each config spans; one when nothing is known of nodes."""
    if per_node is None:
        return np.ones(configs.length)
    return np.ceil(configs.workers / per_node)


def tensor_across(configs: Configs, per_node: int | None) -> Mask:
    """Return which configs split their tensors over more than one node."""
    return _number(configs, "tensor", 1.0) > (per_node or np.inf)


def tensor(configs: Configs) -> Floats:
    """Return how many workers each tensor is split over."""
    return _number(configs, "tensor", 1.0)


def width(configs: Configs) -> Floats:
    """Return the width of a layer; 1 where axes do not tell."""
    return _number(configs, "hidden", 1.0)


def at_once(configs: Configs) -> Floats:
    """Return the examples that keep one worker busy at a time."""
    shared = tensor(configs) * _number(configs, "pipeline", 1.0)
    return _number(configs, "micro_batch", 0.0, configs.batch_size * shared) / shared


def bubble(configs: Configs) -> Floats:
    """Return the factor by which filling its pipeline makes a step longer."""
    stages = _number(configs, "pipeline", 1.0)
    rounds = configs.per_step / np.maximum(at_once(configs), 1e-3)
    return 1 + np.where(stages > 1, (stages - 1) / np.maximum(rounds, 1.0), 0.0)


def operations(configs: Configs) -> tuple[Floats, Floats, Floats]:
    """Return operations per example, those of attention beside each, and parameters; 1, 0, 1 where axes do not tell."""
    length, layers, hidden = (_number(configs, name, 0.0) for name in ("seq_len", "layers", "hidden"))
    params = _number(configs, "params", 0.0, 12 * layers * hidden**2)
    known = params > 0
    work = params * np.maximum(length, 1.0) * (1 + _number(configs, "activation_checkpointing", 0.0) / 3)
    attention = 2 * layers * hidden * length / np.where(known, params, 1.0)
    return np.where(known, work, 1.0), np.where(known, attention, 0.0), np.where(known, params, 1.0)


def peak(configs: Configs) -> Floats:
    """Return the operations per second of each device at its fastest; 1 where operations or device are unknown."""
    counted = operations(configs)[0] > 1
    if not counted.any():
        return np.ones(configs.length)
    peaks = {name: max(spec.flops.values()) for name in set(configs.device.tolist()) if (spec := known(name))}
    return np.where(counted, [peaks.get(name, 1.0) for name in configs.device.tolist()], 1.0)


def exchanged(configs: Configs) -> Floats:
    """Return the examples that one worker takes between two exchanges with others."""
    return np.where(_sharded(configs, "full_shard"), configs.batch_size, configs.per_step).astype(np.float64)


def overlap(configs: Configs) -> Floats:
    """Return g of (own^g + network^g)^(1/g), by which arithmetic and network make a step."""
    return np.where(_sharded(configs, "full_shard", "shard_grad_op"), 2.0, 1.0)


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
