"""A character language model on plain text: an ordinary DDP script that knows nothing of cotune.

torchrun --nproc-per-node 2 benchmarks/strangers/lm.py --text TEXT --batch-size 32 --epochs 4
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F  # noqa: N812  # as everybody calls it
from torch.nn.parallel import DistributedDataParallel

LENGTH = 64


class Block(nn.Module):
    """Causal attention and a feed-forward net, each on a residual stream."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.feed = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = self.qkv(self.first(x)).view(batch, length, 3, 4, width // 4).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        fed: torch.Tensor = x + self.feed(self.second(x))
        return fed


class Model(nn.Module):
    """Characters in, logits of the next character out."""

    def __init__(self, vocabulary: int, width: int, depth: int) -> None:
        super().__init__()
        self.embed, self.place = nn.Embedding(vocabulary, width), nn.Embedding(LENGTH, width)
        self.blocks = nn.Sequential(*(Block(width) for _ in range(depth)))
        self.head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, vocabulary))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        places = torch.arange(x.shape[1], device=x.device)
        logits: torch.Tensor = self.head(self.blocks(self.embed(x) + self.place(places)))
        return logits


class Recurrent(nn.Module):
    """The same with gated recurrent units instead of attention."""

    def __init__(self, vocabulary: int, width: int, depth: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.body = nn.GRU(width, width, depth, batch_first=True)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.head(self.body(self.embed(x))[0])
        return logits


class Convolutional(nn.Module):
    """The same with convolutions that look ever further back."""

    def __init__(self, vocabulary: int, width: int, depth: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.cells = nn.ModuleList(nn.Conv1d(width, 2 * width, 3, dilation=2**level) for level in range(depth))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(depth))
        self.head = nn.Linear(width, vocabulary)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.embed(x)
        for level, (cell, norm) in enumerate(zip(self.cells, self.norms, strict=True)):
            before = F.pad(norm(x).transpose(1, 2), (2 * 2**level, 0))
            x = x + F.glu(cell(before), 1).transpose(1, 2)
        logits: torch.Tensor = self.head(x)
        return logits


class Long(nn.Module):
    """The same with long short-term memory and layer norm, and the embedding as its head."""

    def __init__(self, vocabulary: int, width: int, depth: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.body, self.norm = nn.LSTM(width, width, depth, batch_first=True), nn.LayerNorm(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.norm(self.body(self.embed(x))[0])
        logits: torch.Tensor = F.linear(hidden, self.embed.weight) / hidden.shape[-1] ** 0.5
        return logits


NETS: dict[str, type[nn.Module]] = {
    "attention": Model,
    "gru": Recurrent,
    "convolutional": Convolutional,
    "lstm": Long,
}


def arguments() -> argparse.Namespace:
    """Return the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--text", required=True)
    parser.add_argument("--net", default="attention", choices=NETS)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--precision", default="fp32", choices=("fp32", "bf16"))
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--depth", type=int, default=3)
    parser.add_argument("--examples", type=int, default=16384)
    parser.add_argument("--per-epoch", type=int, default=1, help="evaluations in an epoch")
    parser.add_argument("--switch", default=None, help="EPOCH:BATCH:RATE, a change of batch on the way")
    parser.add_argument("--seed", type=int, default=int(os.environ.get("COTUNE_SEED", "0")))
    return parser.parse_args()


def main() -> None:
    """Train, and print the held-out loss after each evaluation."""
    asked = arguments()
    rank, world = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    gpu = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0"))) if gpu else torch.device("cpu")
    if world > 1:
        dist.init_process_group("gloo")
    torch.manual_seed(asked.seed)
    text = Path(asked.text).read_bytes()
    data = torch.tensor(list(text), dtype=torch.long, device=device)
    held_out, data = data[: 256 * LENGTH + 1], data[256 * LENGTH + 1 :]
    model: nn.Module = NETS[asked.net](256, asked.width, asked.depth).to(device)
    model = DistributedDataParallel(model) if world > 1 else model
    optimiser = torch.optim.AdamW(model.parameters(), lr=asked.lr)
    batch, rate = asked.batch_size, asked.lr
    picks = torch.Generator().manual_seed(asked.seed)
    switch = [float(word) for word in asked.switch.split(":")] if asked.switch else None
    for epoch in range(1, asked.epochs + 1):
        if switch and epoch == int(switch[0]) + 1:
            batch, rate = int(switch[1]), switch[2]
            for group in optimiser.param_groups:
                group["lr"] = rate
        starts = torch.randint(0, len(data) - LENGTH - 1, (asked.examples,), generator=picks)[rank::world].to(device)
        steps = max(1, len(starts) // batch)
        evaluate_at = {round(steps * part / asked.per_epoch) for part in range(1, asked.per_epoch + 1)}
        for step in range(1, steps + 1):
            rows = starts[(step - 1) * batch : step * batch, None] + torch.arange(LENGTH + 1, device=device)
            tokens = data[rows]
            with torch.autocast(device.type, torch.bfloat16, enabled=asked.precision == "bf16"):
                logits = model(tokens[:, :-1])
                loss = F.cross_entropy(logits.flatten(0, 1).float(), tokens[:, 1:].flatten())
            optimiser.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            if step in evaluate_at:
                lost = validated(model, held_out)
                if rank == 0:
                    print(f"epoch {epoch - 1 + step / steps:.4g} val_loss {lost:.4f}", flush=True)
    if world > 1:
        dist.destroy_process_group()


@torch.no_grad()
def validated(model: nn.Module, held_out: torch.Tensor) -> float:
    """Return the loss on text that is not trained on."""
    inputs, wanted = held_out[:-1].view(-1, LENGTH), held_out[1:].view(-1, LENGTH)
    inner = model.module if isinstance(model, DistributedDataParallel) else model
    return float(F.cross_entropy(inner(inputs).flatten(0, 1), wanted.flatten()))


if __name__ == "__main__":
    main()
