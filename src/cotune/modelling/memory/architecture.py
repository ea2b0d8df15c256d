"""The shape of a transformer, as far as memory needs it, and its parameters counted from the shape.

    layer = 2 h a d + 2 h g d + E (3 or 2) h f + h E     attention (a heads, g key-value heads of size d), experts
    model = L layer + V h (1 or 2)                       embeddings, once where they are tied

A gated feed-forward network (SwiGLU) has three matrices, a plain one (GELU) two.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

_USUAL_VOCABULARY = 50_000


@dataclass(frozen=True, slots=True)
class Architecture:
    """The shape of a decoder; `known` is false where it was guessed from the number of parameters."""

    name: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    ffn: int
    vocab: int
    tied: bool = False
    experts: int = 1
    experts_active: int = 1
    gated: bool = True
    head_size: int = 0  # 0: hidden / heads
    positions: int = 0  # learnt positions
    upcasts_logits: bool = True  # the model itself makes its logits fp32, as Llama and its kin do
    params: float = 0.0  # 0: counted from the shape
    known: bool = True

    @property
    def attention_params(self) -> int:
        size = self.head_size or self.hidden // self.heads
        return 2 * self.hidden * size * (self.heads + self.kv_heads)

    @property
    def matrix_params(self) -> int:
        """Return the parameters of one feed-forward matrix of one expert."""
        return self.hidden * self.ffn

    @property
    def expert_params(self) -> int:
        """Return the parameters of all experts of all layers; a dense network has one expert."""
        return self.layers * self.experts * (3 if self.gated else 2) * self.matrix_params

    @property
    def linear_params(self) -> int:
        """Return the parameters of the linear layers: what quantization makes smaller."""
        return self.layers * self.attention_params + self.expert_params

    @property
    def layer_params(self) -> float:
        return self.linear_params / self.layers

    @property
    def head_params(self) -> int:
        return self.vocab * self.hidden

    @property
    def root_params(self) -> int:
        """Return the parameters outside the layers: embeddings, positions and head."""
        return (1 if self.tied else 2) * self.head_params + self.positions * self.hidden

    @property
    def counted(self) -> int:
        router = self.hidden * self.experts if self.experts > 1 else 0
        return self.linear_params + self.layers * (2 * self.hidden + router) + self.root_params + self.hidden

    @property
    def total_params(self) -> float:
        return self.params or float(self.counted)

    def adapter_params(self, rank: int) -> int:
        """Return the parameters of LoRA matrices on the query, key, value and output projections."""
        size = self.head_size or self.hidden // self.heads
        inner, narrow = self.heads * size, self.kv_heads * size
        return self.layers * rank * (2 * (self.hidden + inner) + 2 * (self.hidden + narrow))


def matched(shape: Architecture, params: float) -> Architecture:
    """Return the shape gated or plain, whichever counts nearer to `params`, and with that many parameters.

    A plain network is taken for one of GPT's kin, which leave their logits in the compute type.
    """
    plain = replace(shape, gated=False, upcasts_logits=False)
    nearest = min((replace(shape, gated=True), plain), key=lambda one: abs(one.counted - params))
    return replace(nearest, params=params)


def guessed(name: str, params: float, active: float | None = None) -> Architecture:
    """Return a likely shape for a number of parameters: h = 128 L, 12.5 h^2 parameters in a layer, as Llama's.

    `active` parameters are those one token uses; the rest then lies in experts of which 8 are active.
    """
    used = active if active is not None and active < params else params
    layers = max(round((used / (12.5 * 128**2)) ** (1 / 3)), 2)
    hidden = 128 * layers
    experts, chosen = (1, 1) if used == params else (max(round(8 * params / used), 9), 8)
    inside = params - 2 * _USUAL_VOCABULARY * hidden
    ffn = max(round((inside / layers - 2.5 * hidden**2) / (3 * experts * hidden)), 64)
    return Architecture(
        name=name, layers=layers, hidden=hidden, heads=layers, kv_heads=max(layers // 4, 1), ffn=ffn,
        vocab=_USUAL_VOCABULARY, experts=experts, experts_active=chosen, params=params, known=False,
    )  # fmt: skip
