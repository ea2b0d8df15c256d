"""Bytes of a device, counted per stage; the fullest stage decides.

    peak = max over stages of   constant
         + (2 + gradients) P / t          weights and gradients; over dp with shard 3 and 2
         + states P / t                   master copy and moments; over dp with shard 1
         + in flight x layers x s b (20 h + 8 f) / t                  activations (2 h with recompute)
         + 6 s b V / t x min(m, 2)        logits of a micro-batch and of the one before, on the head's stage
         + in flight x 32 s b h / t       what a pipeline stores of a micro-batch besides its layers
         + 2 h s b x layers x min(m, 2)   gathered inputs of tensor parallelism, without a pipeline
         + 48 s b h / t                   workspace; with recompute one layer's activations too

P parameters of the stage, t = tp, b sequences of a micro-batch, s tokens, h hidden, f feed-forward, V vocabulary, m
micro-batches. Stage i of p has min(m, p - i) micro-batches in flight (1F1B). Attention that is not fused stores 5 bytes
of every score: s for each head and token.

    p_memory = 1 / (1 + exp(-(ln limit - ln predicted) / width))
"""

from __future__ import annotations

import numpy as np

from cotune.modelling.layouts.fitting import Coefficient
from cotune.modelling.layouts.layout import Layouts, allowed
from cotune.modelling.layouts.setting import GIB, Setting
from cotune.types import Floats

MEMORY = (  # 1 is as counted
    Coefficient("constant", 0.5, 0.7),
    Coefficient("weights and gradients", 1.0, 0.15),
    Coefficient("states", 1.0, 0.15),
    Coefficient("activations", 1.0, 0.3),
    Coefficient("logits", 1.0, 0.5),
    Coefficient("in flight", 1.0, 1.0),
    Coefficient("gathered inputs", 0.5, 1.0),
    Coefficient("workspace", 0.3, 1.0),
)

_LIMIT = 0.97  # share of a device's memory that a program can use: a CUDA context takes 1 to 3 GB of 80
_WIDTH = 0.06  # of the border between what fits and what does not, as a logarithm: fragments of the allocator


def count_memory(layouts: Layouts, setting: Setting) -> Floats:
    """Return the counted GiB of three candidate stages of every layout: (layouts, stages, coefficients)."""
    model, framework = setting.model, setting.framework
    layers, place, params, head = _candidates(layouts, setting)
    tokens = (layouts.micro_batch * float(model.seq_len))[:, None]
    tp, dp, shard = (column.astype(float)[:, None] for column in (layouts.tp, layouts.dp, layouts.shard))
    micro_batches = layouts.accumulate.astype(float)[:, None]
    piped = layouts.pp[:, None] > 1
    flight = np.minimum(micro_batches, layouts.pp[:, None] - place)
    pair = np.minimum(micro_batches, 2)
    own = 2 / np.where(shard == 3, dp, 1) + framework.gradient_bytes / np.where(shard >= 2, dp, 1)
    scores = 0.0 if framework.fused_attention else 5.0 * model.heads * model.seq_len
    held = np.where(layouts.recompute > 0, 2.0 * model.hidden, 20.0 * model.hidden + 8.0 * model.ffn + scores)[:, None]
    columns = (
        np.full_like(layers, GIB),
        own * params / tp,
        framework.state_bytes * params / tp / np.where(shard >= 1, dp, 1),
        flight * layers * tokens * held / tp,
        head * pair * 6 * tokens * model.vocab / tp,
        piped * flight * tokens * 32 * model.hidden / tp,
        ~piped * (tp > 1) * layers * pair * tokens * 2 * model.hidden,
        48 * tokens * model.hidden / tp + (layouts.recompute[:, None] > 0) * tokens * (34 * model.hidden + scores) / tp,
    )
    return np.stack([np.broadcast_to(column, layers.shape) for column in columns], axis=2) / GIB


def _candidates(layouts: Layouts, setting: Setting) -> Floats:
    """Return layers, place, parameters and whether it has the head, of stages that can be the fullest, (4, rows, 3).

    They are the first, the one with most layers, and the head's.
    """
    table = np.zeros((len(layouts), 3, 4))
    for pp in np.unique(layouts.pp):
        cut, params = setting.stages(int(pp)), setting.stage_params(int(pp))
        stages = (0, int(np.argmax(cut.layers)), cut.head)
        table[layouts.pp == pp] = [(cut.layers[one], one, params[one], one == cut.head) for one in stages]
    return np.moveaxis(table, 2, 0)


def log_memory(theta: Floats, counted: Floats) -> Floats:
    """Return the logarithm of the GiB that every layout takes on its fullest device."""
    return np.asarray(np.log((counted @ np.exp(theta)).max(axis=1)))


def p_memory(log_gib: Floats, capacity_gib: float, deviation: Floats | float = 0.0) -> Floats:
    """Return the probability that memory suffices, given the logarithm of the predicted GiB and its deviation."""
    width = np.sqrt(_WIDTH**2 + (0.6 * deviation) ** 2)  # a logistic curve of this width is near a normal one
    return np.asarray(1 / (1 + np.exp(-(np.log(_LIMIT * capacity_gib) - log_gib) / width)))


def p_counted(theta: Floats, layouts: Layouts, setting: Setting) -> Floats:
    """Return the probability that memory suffices as counted with these coefficients; 0 of what cannot be built."""
    gib = log_memory(theta, count_memory(layouts, setting))
    return np.asarray(p_memory(gib, setting.machine.gib) * allowed(layouts, setting))
