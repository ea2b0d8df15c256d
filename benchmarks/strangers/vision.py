"""Small image networks on arrays in a file: an ordinary DDP script that knows nothing of cotune.

    torchrun --nproc-per-node 2 benchmarks/strangers/vision.py --net vit --data fashion.npz --batch-size 32 --epochs 4

The file holds x_train, y_train, x_test and y_test: pictures as bytes (N, H, W) or (N, H, W, 3), and labels.
"""

from __future__ import annotations

import argparse
import os

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F  # noqa: N812  # as everybody calls it
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

NETS = ("vit", "wide-vit", "mixer", "mobile", "plain", "residual", "dense", "separable", "perceptron", "inverted")


class Vit(nn.Module):
    """A small vision transformer on patches of 4 x 4."""

    def __init__(self, channels: int, side: int, width: int = 96, depth: int = 3) -> None:
        super().__init__()
        self.patch = nn.Conv2d(channels, width, 4, 4)
        self.place = nn.Parameter(torch.randn(1, (side // 4) ** 2, width) * 0.02)
        layer = nn.TransformerEncoderLayer(width, 4, 2 * width, 0.0, "gelu", batch_first=True, norm_first=True)
        self.body = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 10))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        tokens = self.patch(x).flatten(2).transpose(1, 2) + self.place
        logits: torch.Tensor = self.head(self.body(tokens).mean(1))
        return logits


def mobile(channels: int) -> nn.Module:
    """Return depthwise-separable convolutions with batch norm, as in MobileNet."""

    def cell(ins: int, outs: int, stride: int) -> list[nn.Module]:
        depthwise = [nn.Conv2d(ins, ins, 3, stride, 1, groups=ins, bias=False), nn.BatchNorm2d(ins), nn.ReLU()]
        return [*depthwise, nn.Conv2d(ins, outs, 1, bias=False), nn.BatchNorm2d(outs), nn.ReLU()]

    first = [nn.Conv2d(channels, 24, 3, 1, 1, bias=False), nn.BatchNorm2d(24), nn.ReLU()]
    cells = [*cell(24, 48, 2), *cell(48, 96, 2), *cell(96, 96, 1), *cell(96, 192, 2)]
    return nn.Sequential(*first, *cells, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(192, 10))


def plain(channels: int) -> nn.Module:
    """Return four convolutions and nothing else."""
    layers: list[nn.Module] = []
    for ins, outs in ((channels, 32), (32, 64), (64, 128), (128, 128)):
        layers += [nn.Conv2d(ins, outs, 3, 1, 1), nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10))


class Mixer(nn.Module):
    """An MLP-mixer on patches of 4 x 4."""

    def __init__(self, channels: int, side: int, width: int = 96, depth: int = 3) -> None:
        super().__init__()
        patches = (side // 4) ** 2
        self.patch = nn.Conv2d(channels, width, 4, 4)
        self.across = nn.ModuleList(
            nn.Sequential(nn.Linear(patches, 2 * patches), nn.GELU(), nn.Linear(2 * patches, patches))
            for _ in range(depth)
        )
        self.along = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))
            for _ in range(depth)
        )
        self.head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 10))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        tokens = self.patch(x).flatten(2).transpose(1, 2)
        for across, along in zip(self.across, self.along, strict=True):
            tokens = tokens + across(tokens.transpose(1, 2)).transpose(1, 2)
            tokens = tokens + along(tokens)
        logits: torch.Tensor = self.head(tokens.mean(1))
        return logits


class Residual(nn.Module):
    """Residual cells of two convolutions with group norm, in three widths."""

    def __init__(self, channels: int, width: int = 64) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, width, 3, 1, 1)
        sizes = ((width, width, 1), (width, 2 * width, 2), (2 * width, 4 * width, 2))
        self.ways = nn.ModuleList(nn.Conv2d(ins, outs, 1, stride) for ins, outs, stride in sizes)
        self.cells = nn.ModuleList(
            nn.Sequential(
                nn.GroupNorm(8, ins), nn.ReLU(), nn.Conv2d(ins, outs, 3, stride, 1),
                nn.GroupNorm(8, outs), nn.ReLU(), nn.Conv2d(outs, outs, 3, 1, 1),
            )
            for ins, outs, stride in sizes
        )  # fmt: skip
        self.head = nn.Linear(4 * width, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        for way, cell in zip(self.ways, self.cells, strict=True):
            x = way(x) + cell(x)
        logits: torch.Tensor = self.head(x.mean((2, 3)))
        return logits


class Dense(nn.Module):
    """Convolutions with batch norm that each see all before them, as in DenseNet."""

    def __init__(self, channels: int, growth: int = 24, depth: int = 4) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, growth, 3, 2, 1)
        widths = [growth * count for count in range(1, depth + 1)]
        self.cells = nn.ModuleList(
            nn.Sequential(nn.BatchNorm2d(width), nn.ReLU(), nn.Conv2d(width, growth, 3, 1, 1)) for width in widths
        )
        self.head = nn.Linear(growth * (depth + 1), 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        for cell in self.cells:
            x = torch.cat((x, cell(x)), 1)
        logits: torch.Tensor = self.head(x.amax((2, 3)))
        return logits


class Separable(nn.Module):
    """Wide depthwise convolutions, each followed by a feed-forward net over the channels, as in ConvNeXt."""

    def __init__(self, channels: int, width: int = 192, depth: int = 5) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, width, 4, 4)
        self.across = nn.ModuleList(nn.Conv2d(width, width, 7, 1, 3, groups=width) for _ in range(depth))
        self.along = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
            for _ in range(depth)
        )
        self.head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 10))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        for across, along in zip(self.across, self.along, strict=True):
            x = x + along(across(x).permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        logits: torch.Tensor = self.head(x.mean((2, 3)))
        return logits


def perceptron(channels: int, side: int) -> nn.Module:
    """Return three wide layers with dropout."""
    layers: list[nn.Module] = [nn.Flatten()]
    for ins, outs in ((channels * side * side, 1024), (1024, 512), (512, 256)):
        layers += [nn.Linear(ins, outs), nn.ReLU(), nn.Dropout(0.2)]
    return nn.Sequential(*layers, nn.Linear(256, 10))


class Inverted(nn.Module):
    """Inverted residuals with squeeze and excitation, as in MobileNet's third version."""

    def __init__(self, channels: int, width: int = 64, depth: int = 4) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(channels, width, 3, 2, 1, bias=False), nn.BatchNorm2d(width), nn.SiLU())
        inner = 4 * width
        self.expand = nn.ModuleList(
            nn.Sequential(
                nn.Conv2d(width, inner, 1, bias=False), nn.BatchNorm2d(inner), nn.SiLU(),
                nn.Conv2d(inner, inner, 3, 1, 1, groups=inner, bias=False), nn.BatchNorm2d(inner), nn.SiLU(),
            )
            for _ in range(depth)
        )  # fmt: skip
        self.gates = nn.ModuleList(
            nn.Sequential(
                nn.AdaptiveAvgPool2d(1), nn.Conv2d(inner, 16, 1), nn.SiLU(), nn.Conv2d(16, inner, 1), nn.Sigmoid()
            )
            for _ in range(depth)
        )
        self.back = nn.ModuleList(nn.Conv2d(inner, width, 1, bias=False) for _ in range(depth))
        self.head = nn.Linear(width, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        for expand, gate, back in zip(self.expand, self.gates, self.back, strict=True):
            wide = expand(x)
            x = x + back(wide * gate(wide))
        logits: torch.Tensor = self.head(x.mean((2, 3)))
        return logits


def made(net: str, channels: int, side: int) -> nn.Module:
    """Return a network by its name."""
    if net == "vit":
        return Vit(channels, side)
    if net == "mixer":
        return Mixer(channels, side)
    if net == "wide-vit":
        return Vit(channels, side, width=256, depth=6)
    if net == "perceptron":
        return perceptron(channels, side)
    return {
        "inverted": Inverted,
        "mobile": mobile,
        "plain": plain,
        "residual": Residual,
        "dense": Dense,
        "separable": Separable,
    }[net](channels)


def loaded(file: str, examples: int | None) -> tuple[torch.Tensor, ...]:
    """Return training and test pictures and labels, pictures normalised and channels first."""
    with np.load(file) as arrays:
        parts = [arrays[name] for name in ("x_train", "y_train", "x_test", "y_test")]
    parts[0], parts[1] = parts[0][:examples], parts[1][:examples]
    pictures = [torch.from_numpy(part).float().div(255).sub(0.5).div(0.25) for part in (parts[0], parts[2])]
    shaped = [part[:, None] if part.ndim == 3 else part.permute(0, 3, 1, 2).contiguous() for part in pictures]
    labels = [torch.from_numpy(part).long().flatten() for part in (parts[1], parts[3])]
    return shaped[0], labels[0], shaped[1], labels[1]


def arguments() -> argparse.Namespace:
    """Return the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--net", default="vit", choices=NETS)
    parser.add_argument("--data", required=True)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--optimiser", default="adamw", choices=("adamw", "sgd"))
    parser.add_argument("--precision", default="fp32", choices=("fp32", "bf16"))
    parser.add_argument("--examples", type=int, default=None)
    parser.add_argument("--loaders", type=int, default=0, help="processes that load; 0 keeps all data on the device")
    parser.add_argument("--switch", default=None, help="EPOCH:BATCH:RATE, a change of batch on the way")
    parser.add_argument("--seed", type=int, default=int(os.environ.get("COTUNE_SEED", "0")))
    return parser.parse_args()


def main() -> None:
    """Train, and print the test accuracy after each epoch."""
    asked = arguments()
    rank, world = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    gpu = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0"))) if gpu else torch.device("cpu")
    if world > 1:
        dist.init_process_group("gloo")
    torch.manual_seed(asked.seed)
    x, y, x_test, y_test = loaded(asked.data, asked.examples)
    model = made(asked.net, x.shape[1], x.shape[2]).to(device)
    model = DistributedDataParallel(model) if world > 1 else model
    kind = torch.optim.AdamW if asked.optimiser == "adamw" else torch.optim.SGD
    more = {} if asked.optimiser == "adamw" else {"momentum": 0.9}
    optimiser = kind(model.parameters(), lr=asked.lr, **more)  # type: ignore[arg-type]
    x_test, y_test = x_test.to(device), y_test.to(device)
    if not asked.loaders:
        x, y = x.to(device), y.to(device)
    batch = asked.batch_size
    order = torch.Generator().manual_seed(asked.seed)
    switch = [float(word) for word in asked.switch.split(":")] if asked.switch else None
    for epoch in range(1, asked.epochs + 1):
        if switch and epoch == int(switch[0]) + 1:
            batch = int(switch[1])
            for group in optimiser.param_groups:
                group["lr"] = switch[2]
        mine = torch.randperm(len(x), generator=order)[rank::world]
        if asked.loaders:
            parts = TensorDataset(x[mine], y[mine])
            steps = iter(DataLoader(parts, batch, num_workers=asked.loaders, drop_last=True, pin_memory=gpu))
        else:
            rows = mine.to(device)
            whole = range(0, max(1, len(rows) - batch + 1), batch)
            steps = ((x[rows[at : at + batch]], y[rows[at : at + batch]]) for at in whole)  # type: ignore[assignment]
        model.train()
        for pictures, labels in steps:
            with torch.autocast(device.type, torch.bfloat16, enabled=asked.precision == "bf16"):
                loss = F.cross_entropy(model(pictures.to(device)), labels.to(device))
            optimiser.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
        if rank == 0:
            print(f"epoch {epoch} accuracy {judged(model, x_test, y_test):.4f}", flush=True)
    if world > 1:
        dist.destroy_process_group()


@torch.no_grad()
def judged(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> float:
    """Return the share of test pictures named rightly."""
    inner = model.module if isinstance(model, DistributedDataParallel) else model
    inner.eval()
    right = sum((inner(x[at : at + 1000]).argmax(1) == y[at : at + 1000]).sum() for at in range(0, len(x), 1000))
    return float(right) / len(x)


if __name__ == "__main__":
    main()
