"""Counted memory against torch's own tracker, on Llama- and GPT-like networks of fake tensors: no batch is computed."""

from __future__ import annotations

from typing import Any

import pytest

from cotune.modelling.memory import Architecture, TrainingSetup, count

torch = pytest.importorskip("torch")
nn, functional = torch.nn, torch.nn.functional
LAYERS, HIDDEN, HEADS, FFN, SEQUENCE = 6, 256, 4, 896, 512


class Norm(nn.Module):  # type: ignore[misc, name-defined]
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(HIDDEN))

    def forward(self, x: Any) -> Any:
        y = x.to(torch.float32)
        return self.weight * (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-5)).to(x.dtype)


class Block(nn.Module):  # type: ignore[misc, name-defined]
    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(HIDDEN, HIDDEN, bias=False) for _ in range(4))
        self.gate, self.up = (nn.Linear(HIDDEN, FFN, bias=False) for _ in range(2))
        self.down = nn.Linear(FFN, HIDDEN, bias=False)
        self.first, self.second = Norm(), Norm()

    def forward(self, x: Any) -> Any:
        y = self.first(x)
        q, k, v = (one(y).view(*y.shape[:2], HEADS, -1).transpose(1, 2) for one in (self.q, self.k, self.v))
        seen = functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(y.shape)
        x = x + self.o(seen)
        y = self.second(x)
        return x + self.down(functional.silu(self.gate(y)) * self.up(y))


class PlainBlock(nn.Module):  # type: ignore[misc, name-defined]
    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.o = nn.Linear(HIDDEN, 3 * HIDDEN), nn.Linear(HIDDEN, HIDDEN)
        self.up, self.down = nn.Linear(HIDDEN, FFN), nn.Linear(FFN, HIDDEN)
        self.first, self.second = nn.LayerNorm(HIDDEN), nn.LayerNorm(HIDDEN)

    def forward(self, x: Any) -> Any:
        cut = self.qkv(self.first(x)).chunk(3, -1)
        q, k, v = (one.view(*x.shape[:2], HEADS, -1).transpose(1, 2) for one in cut)
        seen = functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(x.shape)
        x = x + functional.dropout(self.o(seen), 0.1)
        return x + functional.dropout(self.down(functional.gelu(self.up(self.second(x)), approximate="tanh")), 0.1)


class Decoder(nn.Module):  # type: ignore[misc, name-defined]
    def __init__(self, vocab: int, kind: type, *, checkpointing: bool) -> None:
        super().__init__()
        self.table, self.head = nn.Embedding(vocab, HIDDEN), nn.Linear(HIDDEN, vocab, bias=False)
        self.blocks = nn.ModuleList(kind() for _ in range(LAYERS))
        self.norm, self.checkpointing = Norm(), checkpointing

    def forward(self, tokens: Any) -> Any:
        from torch.utils.checkpoint import checkpoint

        x = self.table(tokens)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.checkpointing else block(x)
        return self.head(self.norm(x))


def tracked_peak(vocab: int, batch: int, kind: type, *, checkpointing: bool) -> float:
    """Return the peak of the second step, whose optimiser has its states."""
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.distributed._tools.mem_tracker import MemTracker

    usual = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    try:
        with FakeTensorMode():
            model = Decoder(vocab, kind, checkpointing=checkpointing)
            optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
            tokens = torch.randint(0, vocab, (batch, SEQUENCE))

            def step() -> None:
                loss = functional.cross_entropy(model(tokens).float().view(-1, vocab), tokens.view(-1))
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()

            step()  # untracked, which is quicker
            tracker = MemTracker()
            tracker.track_external(model, optimizer, tokens)
            with tracker:
                step()
            return float(sum(device["Total"] for device in tracker.get_tracker_snapshot("peak").values()))
    finally:
        torch.set_default_dtype(usual)


@pytest.mark.parametrize("kind", [Block, PlainBlock])
@pytest.mark.parametrize(("vocab", "checkpointing"), [(256, True), (256, False), (16_000, True)])
def test_a_batch_adds_what_torch_tracks(vocab: int, checkpointing: bool, kind: type) -> None:
    small, large = (tracked_peak(vocab, batch, kind, checkpointing=checkpointing) for batch in (16, 32))
    shape = Architecture("decoder", LAYERS, HIDDEN, HEADS, HEADS, FFN, vocab, gated=kind is Block)
    memory = count(shape, TrainingSetup(sequence=SEQUENCE, checkpointing=checkpointing))
    assert memory.peak(32) - memory.peak(16) == pytest.approx(large - small, rel=0.05)
    # The tracker sees tensors alone: no workspace of a GPU's libraries.
    assert memory.peak(32) - memory.states.workspace == pytest.approx(large, rel=0.05)
