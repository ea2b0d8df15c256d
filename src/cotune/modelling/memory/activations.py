"""What a batch adds, in hidden states u = 2 s h bytes of one sequence (4 s h in fp32) and in bytes per logit.

With checkpointing L u are kept, and one block lives while it is recomputed and differentiated:

    dense    base + 6 f/h    three kept and three gradients of a gated network (3 f/h of a plain one)
    experts  base + (3 or 4) k f/h + 3 k/E f/h + 2 k      kept for k experts a token, gradients of one
             expert's tokens at a time, inputs and outputs gathered

Frozen linear layers do not keep their inputs, so adapters on a mixture keep 3 k f/h, full training 4 k.
"""

from __future__ import annotations

from cotune.modelling.memory.architecture import Architecture
from cotune.modelling.memory.setup import TrainingSetup

LONGEST_OVER_MEAN = 4.0  # of unpacked instruction texts: the longest batch makes the peak
FP32_EXPERT_STATES = 8.0  # an expert's input in fp32 and its cast, its output and the weighted one, a gradient
EAGER_BYTES = 5.0  # of one attention score: scores, softmax, dropout mask (Korthikanti et al., 5 a s^2 b)


def longest(setup: TrainingSetup) -> float:
    """Return the tokens of the longest sequence of a run."""
    return setup.sequence * (LONGEST_OVER_MEAN if setup.lengths_vary else 1.0)


def hidden_bytes(model: Architecture, setup: TrainingSetup) -> float:
    """Return u: the bytes of one sequence's hidden states in the compute type."""
    return setup.compute_bytes * longest(setup) * model.hidden


def checkpoint_states(setup: TrainingSetup) -> float:
    """Return how many hidden states a layer's checkpoint takes."""
    return 2.0 if setup.fp32_residual else 1.0


def block_states(model: Architecture, setup: TrainingSetup) -> float:
    """Return the hidden states of one block in backward, its checkpoint not among them."""
    base = _base_states(model, setup) * checkpoint_states(setup)
    return base + _network_states(model, setup) + _eager_states(model, setup)


def kept_states(model: Architecture, setup: TrainingSetup) -> float:
    """Return the hidden states that a block keeps from forward to backward without checkpointing.

    The base with the block's input for its two gradients, and the network's values: a gated network keeps four a
    token (three where its last matrix is frozen), a plain one two or one.
    """
    base = _base_kept(model, setup) * checkpoint_states(setup)
    network = _network_kept(model, setup) * model.experts_active * model.ffn / model.hidden
    gathered = _gathered_states(model, setup)
    return base + network + gathered + _eager_states(model, setup)


def logit_bytes(model: Architecture, setup: TrainingSetup) -> tuple[float, float]:
    """Return the bytes held for one logit at the loss, and the hidden states beside them."""
    path, fused = setup.path, int(setup.fused_kernels)
    if setup.fused_loss:
        return 0.0, path.upcast_tail[fused]
    if setup.compute_bytes == 4:  # nothing is cast: the plain path, each value of four bytes
        return 2 * path.plain_logits[fused], path.plain_tail
    if model.upcasts_logits:
        return path.upcast_logits[fused], path.upcast_tail[fused]
    if setup.autocast:
        return path.autocast_logits[fused], path.autocast_tail
    return path.plain_logits[fused], path.plain_tail


def logits_bytes(model: Architecture, setup: TrainingSetup) -> float:
    """Return the bytes of the logits of one sequence, which are the largest tensor of a step where they are held."""
    if setup.fused_loss:
        return 0.0
    return (4.0 if model.upcasts_logits else setup.compute_bytes) * longest(setup) * model.vocab


def _base_states(model: Architecture, setup: TrainingSetup) -> float:
    if not model.gated:
        return setup.path.plain_block[int(setup.adapters)] + _narrow_states(model)
    path = setup.path
    base = path.block + (0.0 if setup.fused_kernels else path.unfused)
    if setup.quantized:
        return base + path.quantized
    if setup.method == "lora":
        return base + path.lora + (0.0 if setup.autocast else path.uncast)
    return base


def _base_kept(model: Architecture, setup: TrainingSetup) -> float:
    path = setup.path
    if not model.gated:
        return path.plain_kept[int(setup.adapters)] + _narrow_states(model)
    norms = 0.0 if setup.fused_kernels else path.unfused_kept - path.unfused
    return _base_states(model, setup) - 1.0 + norms


def _narrow_states(model: Architecture) -> float:
    """Return keys and values in hidden states, by how many heads share them."""
    return 2.0 * model.kv_heads / model.heads


def _network_states(model: Architecture, setup: TrainingSetup) -> float:
    wide = model.ffn / model.hidden
    gradients = 3.0 if model.gated else 2.0
    if model.experts == 1:
        return (2 * gradients if model.gated else 3.0) * wide
    chosen = model.experts_active
    kept = _network_kept(model, setup) * chosen * wide
    return kept + gradients * chosen / model.experts * wide + _gathered_states(model, setup)


def _network_kept(model: Architecture, setup: TrainingSetup) -> float:
    """Return the values of a token that the network keeps, in feed-forward widths."""
    return (3.0 if model.gated else 1.0) + (0.0 if setup.adapters else 1.0)


def _gathered_states(model: Architecture, setup: TrainingSetup) -> float:
    """Return the inputs and outputs gathered for experts; a dense network has none."""
    if model.experts == 1:
        return 0.0
    return (FP32_EXPERT_STATES if setup.fp32_residual else 2.0) * model.experts_active


def _eager_states(model: Architecture, setup: TrainingSetup) -> float:
    """Return the attention scores of a block in hidden states: none with flash attention."""
    return 0.0 if setup.flash else EAGER_BYTES * model.heads * longest(setup) / (2.0 * model.hidden)
