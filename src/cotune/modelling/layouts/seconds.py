"""The seconds of a step, counted from the model: terms at the machine's peak, and how much slower each really is.

    step  = (m - 1) c_slowest + sum over stages c + once
    c     = (device^4 + host^4 + gather^4)^(1/4) + latency             one micro-batch on one stage
    device = layers (matrices + attention + bytes + computed again + collectives) + head + sends
    host  = layers (launches, of collectives too) + a constant
    latency = layers (collectives beyond a node)
    once  = gradients inside and across nodes + parameters gathered again (ZeRO) + optimiser + constants

m micro-batches; a fourth-power mean is a soft maximum: a small micro-batch leaves the device waiting for the host, and
gathering sharded parameters hides behind the layer before. Nothing hides the latency of collectives across nodes.
Gradients of whole copies are reduced behind the last micro-batch's backward pass, where the framework does so:
(backward^4 + gradients^4)^(1/4) - backward is left. Where the host itself exchanges (cores, slices of a GPU) nothing
overlaps, and all is a sum; collectives, and gathers of sharded layers, then wait longer the more workers share the
host, as the root of their number. The stages are as the framework cuts them, so the bubble is that of unequal stages.
Terms are seconds at published peaks; host terms and latencies are counts, their coefficients seconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from cotune.modelling.layouts.fitting import Coefficient
from cotune.modelling.layouts.layout import Layouts
from cotune.modelling.layouts.setting import Setting
from cotune.types import Floats

DEVICE = (  # times slower than the peak; from published fractions of peak, not from any table of layouts
    Coefficient("matrices", 1.8, 0.3),
    Coefficient("attention", 3.3, 0.4),
    Coefficient("bytes", 1.2, 0.4),
    Coefficient("computed again", 1.0, 0.4),
    Coefficient("collectives in a node", 1.5, 0.7),
    Coefficient("collectives across nodes", 2.5, 1.0),
)
MATRICES, _ATTENTION, BYTES = range(3)
COMPUTED = 4  # the first of them compute, the others are collectives
SENDS = (Coefficient("activations sent on", 1.5, 1.0),)
HOST = (  # seconds per layer, of an eager program
    Coefficient("launches", 3e-3, 0.4),
    Coefficient("launches computed again", 1e-3, 0.5),
    Coefficient("launches of collectives", 1e-3, 0.5),
    Coefficient("collectives computed again", 5e-4, 0.5),
    Coefficient("collectives between sends", 2e-3, 0.5),
    Coefficient("launches of gathers", 1e-3, 0.5),
)
LATENCY = (  # seconds per layer that the device waits, whatever the host does meanwhile
    Coefficient("collectives beyond a node", 1e-3, 1.5),  # eight of about 0.1 ms
    Coefficient("collectives beyond two nodes", 1e-2, 1.0),
    Coefficient("collectives beyond a node between sends", 5e-3, 1.0),
)
HOST_STAGE = (Coefficient("a micro-batch", 1e-3, 1.0),)
GATHER = (Coefficient("gathering parameters in a node", 1.2, 0.5), Coefficient("gathering across nodes", 1.0, 0.5))
GRADIENTS = (
    Coefficient("gradients in a node", 2.0, 1.0),
    Coefficient("gradients across nodes", 0.7, 1.0),
    Coefficient("gradients across nodes, each doubling", 0.12, 1.0),
    Coefficient("layers reduced, each doubling", 3e-4, 1.0),
)
ONCE = (
    Coefficient("a step", 0.02, 1.0),
    Coefficient("parameters after a sharded step", 0.8, 1.0),
    Coefficient("layers of a sharded step", 1e-3, 1.0),
    Coefficient("optimiser", 1.5, 1.0),
)
_SCORE_BYTES = 33  # of one score: written 2, softmax 4, dropout 5, and twice as much in the backward pass
_BACKWARD = 2 / 3  # of a micro-batch
_SHARE_A_HOST = 8  # workers of a node for which latencies are given where the host exchanges
_LATENCY = (
    *("launches of collectives", "collectives computed again", "collectives beyond a node"),
    *("collectives beyond two nodes", "layers of a sharded step", "layers reduced, each doubling"),
)
_FRAMEWORK = (  # how one program queues them
    *("launches of gathers", "collectives between sends", "collectives beyond a node between sends"),
)
_ARITHMETIC = ("matrices", "attention", "bytes", "computed again", "optimiser")
_LAUNCHES = ("launches", "launches computed again", "a micro-batch", "a step")
_GROUPS = (DEVICE, SENDS, HOST, LATENCY, HOST_STAGE, GATHER, GRADIENTS, ONCE)
COEFFICIENTS = sum(_GROUPS, ())
_BORDERS = np.cumsum(list(map(len, _GROUPS[:-1])))
_ELSEWHERE = {*_ARITHMETIC, *_LAUNCHES, *_LATENCY, *_FRAMEWORK}
_NETWORK = [one.name for one in COEFFICIENTS if one.name not in _ELSEWHERE]
_KINDS = (_ARITHMETIC, _LAUNCHES, _LATENCY, _NETWORK, ("attention",))
# which resource each coefficient (row) is a pace of, and the kernels of attention by themselves
RESOURCES = np.array([[float(one.name in kind) for kind in _KINDS] for one in COEFFICIENTS])


@dataclass(frozen=True, slots=True)
class LayoutTerms:
    """The counted terms of layouts, a row each; what the coefficients are multiplied with."""

    micro_batches: Floats
    stages: Floats
    most: Floats  # layers of the fullest stage without the head
    mean: Floats  # layers of such stages on average
    last: Floats  # layers of the stage with the head
    layer: Floats  # device seconds of one layer at the peak, a column a coefficient
    head: Floats
    send: Floats
    host: Floats
    latency: Floats  # counts of collectives that the device waits for
    gather: Floats
    gradients: Floats
    once: Floats
    hidden: Floats  # the part of the last micro-batch that gradients are reduced behind
    overlaps: Floats  # 1 where device, host and network work at the same time


@dataclass(frozen=True, slots=True)
class StepParts:
    """Where the seconds of a step go; the five parts add up to the total."""

    compute: Floats  # of the slowest stage: matrices, attention, bytes, the head
    collectives: Floats  # of tensor parallelism, and sends between stages
    waiting: Floats  # for the host's launches, and for gathered parameters
    bubble: Floats  # stages wait for each other
    once: Floats  # gradients, optimiser
    total: Floats


def count_terms(layouts: Layouts, setting: Setting) -> LayoutTerms:
    """Return the terms of every layout, counted from the model's shape."""
    shape = np.zeros((len(layouts), 3))
    for pp in np.unique(layouts.pp):
        cut = setting.stages(int(pp))
        others = [layers for stage, layers in enumerate(cut.layers) if stage != cut.head] or [0]
        shape[layouts.pp == pp] = (max(others), sum(others) / max(pp - 1, 1), cut.layers[cut.head])
    most, mean, last = shape.T
    return LayoutTerms(
        micro_batches=layouts.accumulate.astype(float),
        stages=layouts.pp.astype(float),
        most=most,
        mean=mean,
        last=last,
        layer=_layer(layouts, setting),
        head=_head(layouts, setting),
        send=_sends(layouts, setting),
        host=_host(layouts, setting),
        latency=_latency(layouts, setting),
        gather=_gather(layouts, setting),
        gradients=_gradients(layouts, setting, np.maximum(most, last)),
        once=_once(layouts, setting, np.maximum(most, last)),
        hidden=_BACKWARD * (layouts.shard == 0) * (setting.machine.overlaps and setting.framework.buckets),
        overlaps=np.full(len(layouts), float(setting.machine.overlaps)),
    )


def _layer(layouts: Layouts, setting: Setting) -> Floats:
    model, machine = setting.model, setting.machine
    tokens, tp = layouts.micro_batch * float(model.seq_len), layouts.tp.astype(float)
    matrices = 6 * tokens * model.layer_params / tp / (machine.flops * machine.narrow)
    attention = 6 * tokens * model.seq_len * model.hidden / tp / machine.flops
    scores = 0 if setting.framework.fused_attention else _SCORE_BYTES * model.heads * model.seq_len
    moved = tokens * (54 * model.hidden + 30 * model.ffn + scores) / tp / machine.bandwidth
    usual = [DEVICE[place].prior for place in (MATRICES, _ATTENTION, BYTES)]
    # forward once more, of forward and a backward of two, as fast as these usually are
    again = layouts.recompute / 3 * (usual[0] * matrices + usual[1] * attention + usual[2] * moved)
    gathered = 16 * tokens * model.hidden * (1 + layouts.recompute / 2)  # four gathers, four scatters, two bytes
    inside = (tp > 1) * (tp <= machine.per_node) * gathered * (tp - 1) / tp / machine.link
    nodes = np.maximum(tp / machine.per_node, 1)
    across = (tp > machine.per_node) * gathered * (nodes - 1) / nodes / machine.per_node / machine.network
    return _columns(matrices, attention, moved, again, inside, across)


def _head(layouts: Layouts, setting: Setting) -> Floats:
    """Return the head's own products, and the bytes of its logits: about forty for each, cast, softmax and back."""
    model, machine = setting.model, setting.machine
    tokens, tp = layouts.micro_batch * float(model.seq_len), layouts.tp.astype(float)
    terms = np.zeros((len(layouts), len(DEVICE)))
    terms[:, MATRICES] = 6 * tokens * model.embedding_params / tp / machine.flops
    terms[:, BYTES] = 40 * tokens * model.vocab / tp / machine.bandwidth
    return terms


def _sends(layouts: Layouts, setting: Setting) -> Floats:
    tokens = layouts.micro_batch * float(setting.model.seq_len)
    sent = (layouts.pp > 1) * 4 * tokens * setting.model.hidden / layouts.tp / setting.machine.network
    return np.asarray(sent)[:, None]


def _host(layouts: Layouts, setting: Setting) -> Floats:
    per_node = setting.machine.per_node
    tp, piped = layouts.tp, (layouts.pp > 1) & (layouts.tp > 1)
    spread = piped & (layouts.gpus > per_node)
    split, gathers = np.asarray(tp > 1, dtype=float), np.zeros(len(layouts))
    if not setting.machine.overlaps:
        shared = np.sqrt(np.minimum(layouts.gpus, per_node) / _SHARE_A_HOST)
        split, gathers = shared * split, shared * (layouts.shard == 3) * (layouts.dp > 1)
    return _columns(np.ones(len(layouts)), layouts.recompute, split, layouts.recompute * split, spread * tp, gathers)


def _latency(layouts: Layouts, setting: Setting) -> Floats:
    """Return the collectives of a layer that wait for other nodes."""
    per_node, tp = setting.machine.per_node, layouts.tp
    return _columns(tp > per_node, tp > 2 * per_node, (layouts.pp > 1) & (tp > per_node))


def _columns(*columns: Any) -> Floats:
    return np.stack([np.asarray(column, dtype=float) for column in columns], axis=1)


def _exchanged(layouts: Layouts, setting: Setting, moved: Floats) -> tuple[Floats, Floats, Floats]:
    """Return the seconds in which replicas exchange bytes in a node and across nodes, and over how many they reach.

    Tensor parallelism is innermost: a node holds the replicas that its devices leave room for, one at least.
    """
    machine, tp = setting.machine, layouts.tp
    within = np.minimum(layouts.dp, np.maximum(machine.per_node / tp, 1))
    nodes = np.maximum(layouts.dp / within, 1)
    inside = moved / tp * (within - 1) / within / machine.link
    across = moved / np.maximum(tp, machine.per_node) * (nodes - 1) / nodes / machine.network
    return inside, across, nodes


def _gather(layouts: Layouts, setting: Setting) -> Floats:
    """Return the seconds a layer's parameters take to be gathered where they are sharded, and gradients scattered."""
    times = np.select([layouts.shard == 3, layouts.shard == 2], [3.0, 2.0], 0.0)
    inside, across, _ = _exchanged(layouts, setting, times * 2 * setting.model.layer_params)
    return _columns(inside, across)


def _fullest(layouts: Layouts, setting: Setting) -> Floats:
    """Return the parameters of the fullest stage, embeddings included."""
    params = np.zeros(len(layouts))
    for pp in np.unique(layouts.pp):
        params[layouts.pp == pp] = max(setting.stage_params(int(pp)))
    return params


def _gradients(layouts: Layouts, setting: Setting, layers: Floats) -> Floats:
    """Return what reducing the gradients takes, before anything hides it."""
    reduced = (layouts.shard < 2) * 2 * setting.framework.gradient_bytes * _fullest(layouts, setting)
    inside, across, nodes = _exchanged(layouts, setting, reduced)
    return _columns(inside, across, across * np.log2(nodes), np.log2(nodes) * layers)


def _once(layouts: Layouts, setting: Setting, layers: Floats) -> Floats:
    params = _fullest(layouts, setting)
    sharded = (layouts.shard == 1) & (layouts.dp > 1)
    _, across, nodes = _exchanged(layouts, setting, sharded * 2 * params)
    states = params / layouts.tp / np.where(layouts.shard > 0, layouts.dp, 1)
    return _columns(
        np.ones(len(layouts)),
        across * (1 + np.log2(nodes)),
        (layouts.shard > 0) * (layouts.dp > 1) * layers,
        2 * setting.framework.state_bytes * states / setting.machine.bandwidth,
    )


def _soft_maximum(*parts: Floats) -> Floats:
    """Return the fourth-power mean of what happens at the same time."""
    return np.asarray(np.sqrt(np.sqrt(sum(np.square(np.square(part)) for part in parts))))


def _stage(terms: LayoutTerms, groups: list[Floats], layers: Floats, head: float) -> tuple[Floats, Floats, Floats]:
    """Return the seconds of a micro-batch on a stage, and of them what computing and what collectives take."""
    device, sends, host, latency, host_stage, gather, _, _ = groups
    computed = layers * (terms.layer[:, :COMPUTED] @ device[:COMPUTED]) + head * (terms.head @ device)
    sent = layers * (terms.layer[:, COMPUTED:] @ device[COMPUTED:]) + terms.send @ sends
    launched = (layers + head) * (terms.host @ host) + host_stage[0]
    gathered = layers * (terms.gather @ gather)
    overlapped = _soft_maximum(computed + sent, launched, gathered)
    whole = np.where(terms.overlaps > 0, overlapped, computed + sent + launched + gathered)
    waited = layers * (terms.latency @ latency)
    return whole + waited, computed, sent + waited


def step_parts(theta: Floats, terms: LayoutTerms) -> StepParts:
    """Return the seconds of every layout's step, and where they go."""
    groups = np.split(np.exp(theta), _BORDERS)
    last, last_computed, last_sent = _stage(terms, groups, terms.last, 1.0)
    most, most_computed, most_sent = _stage(terms, groups, terms.most, 0.0)
    mean, _, _ = _stage(terms, groups, terms.mean, 0.0)
    piped = terms.stages > 1
    first_slower = piped & (most > last)
    slowest = np.where(first_slower, most, last)
    computed = np.where(first_slower, most_computed, last_computed)
    sent = np.where(first_slower, most_sent, last_sent)
    bubble = np.where(piped, (terms.stages - 1) * mean + last, last) - slowest
    backward, gradients = terms.hidden * slowest, terms.gradients @ groups[-2]
    once = terms.once @ groups[-1] + _soft_maximum(backward, gradients) - backward
    return StepParts(
        compute=terms.micro_batches * computed,
        collectives=terms.micro_batches * sent,
        waiting=terms.micro_batches * (slowest - computed - sent),
        bubble=bubble,
        once=once,
        total=terms.micro_batches * slowest + bubble + once,
    )


def log_seconds(theta: Floats, terms: LayoutTerms) -> Floats:
    """Return the logarithm of every layout's seconds at logarithms of the coefficients."""
    return np.log(step_parts(theta, terms).total)
