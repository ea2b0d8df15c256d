"""The peak of torch's allocator: the largest of a few phases, each a line in the micro-batch.

    update   weights, optimiser states, gradients, temporaries              no batch in it
    loss     states + b (L u + logits)
    last     states + b (L u + block)     backward of the last layer, all checkpoints kept
    first    states + all gradients + b (block)     backward of the first layer

Under FSDP with frozen weights the gradients of the checkpoints live until backward ends, so the
first layer's phase holds 2 (L - 1) u.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cotune.modelling.memory.activations import (
    block_states,
    checkpoint_states,
    hidden_bytes,
    kept_states,
    logit_bytes,
    longest,
)
from cotune.modelling.memory.architecture import Architecture
from cotune.modelling.memory.setup import TrainingSetup
from cotune.modelling.memory.states import States, states

_GRADIENT_STATES = 3.0  # of hidden states, beside all that is kept, when backward begins without checkpointing


@dataclass(frozen=True, slots=True)
class Phase:
    """One part of a step: bytes whatever the batch, and bytes a sequence."""

    name: str
    fixed: float
    per_sequence: float

    def bytes(self, micro_batch: float) -> float:
        return self.fixed + self.per_sequence * micro_batch


@dataclass(frozen=True)
class CountedMemory:
    """The memory of a setup as counted: its states and the phases of a step."""

    model: Architecture
    setup: TrainingSetup
    states: States
    phases: tuple[Phase, ...]

    def phase(self, micro_batch: float) -> Phase:
        """Return the phase that makes the peak."""
        return max(self.phases, key=lambda one: one.bytes(micro_batch))

    def peak(self, micro_batch: float) -> float:
        return self.phase(micro_batch).bytes(micro_batch)

    def private(self, phase: Phase, micro_batch: float) -> float:
        """Return what a phase has beside the states and the checkpoints, which others share."""
        kept = self.model.layers * checkpoint_states(self.setup) * hidden_bytes(self.model, self.setup)
        shared = min(kept, phase.per_sequence) * micro_batch
        return max(phase.bytes(micro_batch) - standing_bytes(self.setup, self.states) - shared, 0.0)


def count(model: Architecture, setup: TrainingSetup) -> CountedMemory:
    """Return the memory of a model trained that way, counted without any run."""
    held = states(model, setup)
    return CountedMemory(model, setup, held, tuple(_phases(model, setup, held)))


def standing_bytes(setup: TrainingSetup, held: States) -> float:
    """Return what stands there through the whole step: the states, and gradients that are being summed."""
    return held.resident + (held.whole_gradients if setup.accumulates else 0.0)


def _phases(model: Architecture, setup: TrainingSetup, held: States) -> Sequence[Phase]:
    unit = hidden_bytes(model, setup)
    block = block_states(model, setup) * unit
    a_layer = checkpoint_states(setup) if setup.checkpointing else kept_states(model, setup)
    kept = model.layers * a_layer * unit
    per_logit, tail = logit_bytes(model, setup)
    standing = standing_bytes(setup, held)
    computing = standing + held.root + held.layer
    doubled = setup.adapters and setup.sharding == "fsdp" and setup.gpus > 1 and setup.checkpointing
    first = (2 * (model.layers - 1) * unit if doubled else checkpoint_states(setup) * unit) + block
    gradients = block if setup.checkpointing else _GRADIENT_STATES * unit
    return (
        Phase("update", held.resident + held.gradients + held.temporaries, 0.0),
        Phase("loss", standing + held.root, kept + per_logit * longest(setup) * model.vocab + tail * unit),
        Phase("last layer", computing + (0.0 if setup.accumulates else held.early_gradients), kept + gradients),
        Phase("first layer", computing + (0.0 if setup.accumulates else held.gradients), first),
    )
