"""A decoder as Llama is one, cut into pipeline stages: RMS norm, rotary positions, grouped heads, SwiGLU.

A stage holds some blocks under their numbers in the whole model, the first also the embedding, the last the norm and
the head: names of parameters agree however the model is cut, which is all that another layout needs to go on from a
checkpoint. Each parameter's first values come from the seed and its name alone, so every layout begins with the same.
"""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.nn.functional import scaled_dot_product_attention, silu
from torch.utils.checkpoint import checkpoint

_ROTARY_BASE = 10_000.0
_FIRST_SPREAD = 0.02  # of a parameter's first values, as GPT-2 and Llama have it


@dataclass(frozen=True)
class Shape:
    """The shape of a decoder, as a Hugging Face `config.json` has it."""

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    ffn: int
    vocab: int

    @classmethod
    def read(cls, file: Path) -> Shape:
        """Return the shape in a config.json; refuse models that the one here is not."""
        config = json.loads(file.read_text())
        odd = [word for word in ("num_local_experts", "tie_word_embeddings") if config.get(word)]
        if odd or "num_key_value_heads" not in config:
            raise ValueError(f"{file}: the decoder here is Llama's, without experts or tied embeddings ({odd})")
        words = ("num_hidden_layers", "hidden_size", "num_attention_heads", "num_key_value_heads", "intermediate_size")
        return cls(*(int(config[word]) for word in (*words, "vocab_size")))


class Attention(nn.Module):
    """Causal attention with rotary positions; how many heads are here follows from the width that q has here."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.size = shape.hidden // shape.heads
        self.q = nn.Linear(shape.hidden, shape.heads * self.size, bias=False)
        self.k = nn.Linear(shape.hidden, shape.kv_heads * self.size, bias=False)
        self.v = nn.Linear(shape.hidden, shape.kv_heads * self.size, bias=False)
        self.o = nn.Linear(shape.heads * self.size, shape.hidden, bias=False)

    def forward(self, hidden: Tensor) -> Tensor:
        rows, length, _ = hidden.shape
        q, k, v = (part(hidden).view(rows, length, -1, self.size).transpose(1, 2) for part in (self.q, self.k, self.v))
        cosine, sine = _rotation(length, self.size, hidden)
        q, k = _turned(q, cosine, sine), _turned(k, cosine, sine)
        mixed = scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=q.shape[1] != k.shape[1])
        return self.o(mixed.transpose(1, 2).reshape(rows, length, -1))


class FeedForward(nn.Module):
    """SwiGLU."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.gate = nn.Linear(shape.hidden, shape.ffn, bias=False)
        self.up = nn.Linear(shape.hidden, shape.ffn, bias=False)
        self.down = nn.Linear(shape.ffn, shape.hidden, bias=False)

    def forward(self, hidden: Tensor) -> Tensor:
        return self.down(silu(self.gate(hidden)) * self.up(hidden))


class Block(nn.Module):
    """Attention and a feed-forward network, each added to what came in; `recompute` stores no activations of it."""

    def __init__(self, shape: Shape, *, recompute: bool) -> None:
        super().__init__()
        self.recompute = recompute
        self.attention_norm, self.attention = _norm(shape), Attention(shape)
        self.ffn_norm, self.ffn = _norm(shape), FeedForward(shape)

    def forward(self, hidden: Tensor) -> Tensor:
        if self.recompute and torch.is_grad_enabled():
            return checkpoint(self._added, hidden, use_reentrant=False)
        return self._added(hidden)

    def _added(self, hidden: Tensor) -> Tensor:
        hidden = hidden + self.attention(self.attention_norm(hidden))
        return hidden + self.ffn(self.ffn_norm(hidden))


class DecoderStage(nn.Module):
    """Some blocks of a decoder; tokens go into the first stage, logits come out of the last."""

    def __init__(self, shape: Shape, blocks: Iterable[int], *, first: bool, last: bool, recompute: bool) -> None:
        super().__init__()
        self.embedding = nn.Embedding(shape.vocab, shape.hidden) if first else None
        self.blocks = nn.ModuleDict({str(number): Block(shape, recompute=recompute) for number in blocks})
        self.norm = _norm(shape) if last else None
        self.head = nn.Linear(shape.hidden, shape.vocab, bias=False) if last else None

    def forward(self, hidden: Tensor) -> Tensor:
        if self.embedding is not None:
            hidden = self.embedding(hidden)
        for block in self.blocks.values():
            hidden = block(hidden)
        if self.norm is not None and self.head is not None:
            hidden = self.head(self.norm(hidden))
        return hidden


def _norm(shape: Shape) -> nn.RMSNorm:
    return nn.RMSNorm(shape.hidden, eps=1e-5)


@torch.no_grad()
def begin(stage: nn.Module, device: torch.device, seed: int) -> None:
    """Give a stage that was built without values its first ones, one parameter at a time, each by seed and name."""
    stage.to_empty(device=device)
    for name, parameter in stage.named_parameters():
        whole = _first_values(name, parameter.shape, seed).to(device)
        if isinstance(parameter, DTensor):
            spread = distribute_tensor(whole, parameter.device_mesh, parameter.placements, src_data_rank=None)
            parameter.to_local().copy_(spread.to_local())
        else:
            parameter.copy_(whole)


def _first_values(name: str, shape: torch.Size, seed: int) -> Tensor:
    if len(shape) == 1:
        return torch.ones(shape)
    generator = torch.Generator().manual_seed(zlib.crc32(f"{seed} {name}".encode()))
    return torch.randn(shape, generator=generator) * _FIRST_SPREAD


def _rotation(length: int, size: int, like: Tensor) -> tuple[Tensor, Tensor]:
    places = torch.arange(0, size, 2, device=like.device, dtype=torch.float32)
    angles = torch.outer(
        torch.arange(length, device=like.device, dtype=torch.float32),
        torch.exp(-math.log(_ROTARY_BASE) / size * places),
    )
    return angles.cos().to(like.dtype), angles.sin().to(like.dtype)


def _turned(heads: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    even, odd = heads.chunk(2, dim=-1)
    return torch.cat([even * cosine - odd * sine, even * sine + odd * cosine], dim=-1)
