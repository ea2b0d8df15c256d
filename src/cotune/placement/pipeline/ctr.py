"""The networks of click-through-rate papers, as chains of layers that can be placed anywhere.

    ctrdnn      26 lookups and 13 counts (273) -> 400, 400, 400 -> 2                       width and depth can be set
    two_emb     the same with 400, 400, 50; a second table of 100 rows over 5 slots -> 128; both (178) -> 2 -> 2
    matchnet    12 slots -> 400, 400, 50 against 14 slots and 13 counts -> 400, 400, 50 by cosine, and against
                what the 20 least likely of its 50 outputs look up (200) -> 400, 50; hinge loss, margin 0.8
    nce         25 ids -> mean -> 128, ReLU -> 64 against the 26th id and `noise` made-up ones by dot product

Embeddings are 10 wide in a table of 1,000,001 rows, but for nce, where they are 64; smaller tables (`rows`)
take ids modulo their rows. The shapes of the first three are those of PaddleFleetX's examples; a table lives
where its stage runs, so matchnet's second lookup has a table of its own. nce is ours: noise-contrastive
estimation with uniform noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity, cross_entropy, linear, relu, softplus

from cotune.errors import NotFound, UsageError, suggestion
from cotune.placement.pipeline.clicks import COLUMNS, COUNTS, SLOTS, TABLE_ROWS
from cotune.placement.pipeline.layers import LOSS, PipelineLayer, PipelineNetwork
from cotune.placement.pipeline.tables import EmbeddingTable
from cotune.registry import settings_of

WIDTH = 10
_FEW_ROWS, _FEW_SLOTS = 100, 5
_STEP = 2_654_435_761  # spreads neighbouring numbers over the table
_USER_SLOTS, _MATCHED, _LEAST_LIKELY, _MARGIN = 12, 50, 20, 0.8


def ctrdnn(width: int = 400, depth: int = 3, rows: int = TABLE_ROWS) -> PipelineNetwork:
    """Return CTRDNN with `depth` dense layers of `width`."""
    return PipelineNetwork(
        "ctrdnn",
        (_embedding(rows), *_tower(SLOTS * WIDTH + COUNTS, [width] * depth), _classes(f"fc{depth}", width)),
        COLUMNS,
    )


def two_emb(rows: int = TABLE_ROWS) -> PipelineNetwork:
    """Return 2EMB: a large and a small table."""
    layers = (
        _embedding(rows),
        *_tower(SLOTS * WIDTH + COUNTS, [400, 400, 50]),
        PipelineLayer("embedding2", "embedding", lambda: _Slots(0, _FEW_SLOTS, _FEW_ROWS), ("ids",), ("few",)),
        PipelineLayer("fc4", "fc", lambda: _Dense(_FEW_SLOTS * WIDTH, 128), ("few",), ("fc4",)),
        PipelineLayer("fc5", "fc", lambda: _Dense(50 + 128, 2), ("fc3", "fc4"), ("fc5",)),
        _classes("fc5", 2),
    )
    return PipelineNetwork("two_emb", layers, COLUMNS)


def matchnet(rows: int = TABLE_ROWS) -> PipelineNetwork:
    """Return MATCHNET: a tower for users, one for items, one for what should not match."""
    items = (SLOTS - _USER_SLOTS) * WIDTH + COUNTS
    layers = (
        PipelineLayer("embedding", "embedding", lambda: _Slots(0, _USER_SLOTS, rows), ("ids",), ("user0",)),
        PipelineLayer(
            "embedding2", "embedding", lambda: _Slots(_USER_SLOTS, SLOTS, rows), ("ids", "dense"), ("item0",)
        ),
        *_tower(_USER_SLOTS * WIDTH, [400, 400, _MATCHED], "user"),
        *_tower(items, [400, 400, _MATCHED], "item"),
        PipelineLayer("embedding3", "embedding", _LeastLikely, ("item3",), ("unlike0",)),
        *_tower(_LEAST_LIKELY * WIDTH, [400, _MATCHED], "unlike"),
        PipelineLayer("loss", "loss", _Hinge, ("user3", "item3", "unlike2"), (LOSS,)),
    )
    return PipelineNetwork("matchnet", layers, COLUMNS)


def nce(noise: int = 16, width: int = 64, rows: int = TABLE_ROWS) -> PipelineNetwork:
    """Return a network that tells the 26th id from `noise` made-up ones by the 25 others."""
    layers = (
        PipelineLayer("context", "embedding", lambda: _Mean(width, rows), ("ids",), ("context",)),
        PipelineLayer("fc1", "fc", lambda: _Dense(width, 2 * width), ("context",), ("fc1",)),
        PipelineLayer("fc2", "fc", lambda: nn.Linear(2 * width, width), ("fc1",), ("fc2",)),
        PipelineLayer("candidates", "embedding", lambda: _Candidates(noise, width, rows), ("ids",), ("candidates",)),
        PipelineLayer("loss", "loss", lambda: _Contrast(noise), ("fc2", "candidates"), (LOSS,)),
    )
    return PipelineNetwork("nce", layers, COLUMNS)


NETWORKS: dict[str, Callable[..., PipelineNetwork]] = {
    "ctrdnn": ctrdnn,
    "two_emb": two_emb,
    "matchnet": matchnet,
    "nce": nce,
}


def network(text: str) -> PipelineNetwork:
    """Return the network named by 'ctrdnn', 'ctrdnn(width=2048, groups=[1,1,1,2])' or 'package.module:function'."""
    name, _, rest = text.partition("(")
    settings = dict(settings_of(rest.removesuffix(")")))
    groups = settings.pop("groups", None)
    make = _found(name.strip())
    try:
        made = make(**settings)
    except TypeError as error:
        raise UsageError(f"{text!r}: {error}") from None
    return made if groups is None else made.grouped(groups)


def _found(name: str) -> Callable[..., PipelineNetwork]:
    if name in NETWORKS:
        return NETWORKS[name]
    module, colon, function = name.partition(":")
    if not colon:
        there = ", ".join(NETWORKS)
        raise NotFound(f"no network named {name!r}{suggestion(name, NETWORKS)}; there are {there}, or module:function")
    import importlib

    try:
        made: Callable[..., PipelineNetwork] = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise NotFound(f"no network {name!r}: {error}") from None
    return made


def _embedding(rows: int) -> PipelineLayer:
    return PipelineLayer("embedding", "embedding", lambda: _Slots(0, SLOTS, rows), ("ids", "dense"), ("fc0",))


def _tower(entering: int, widths: Sequence[int], name: str = "fc") -> list[PipelineLayer]:
    return [
        PipelineLayer(
            f"{name}{place}", "fc", partial(_Dense, inner, outer), (f"{name}{place - 1}",), (f"{name}{place}",)
        )
        for place, (inner, outer) in enumerate(pairwise([entering, *widths]), start=1)
    ]


def _classes(entering: str, width: int) -> PipelineLayer:
    return PipelineLayer("loss", "loss", lambda: _Classes(width, 2), (entering, "label"), (LOSS,))


class _Slots(nn.Module):
    """The rows of some slots, and the counts beside them where they are given."""

    def __init__(self, first: int, end: int, rows: int) -> None:
        super().__init__()
        self.first, self.end = first, end
        self.table = EmbeddingTable(rows, WIDTH)

    def forward(self, ids: Tensor, *beside: Tensor) -> Tensor:
        return torch.cat([self.table(ids[:, self.first : self.end]), *beside], dim=1)


class _LeastLikely(nn.Module):
    """The rows of an output's least entries, which lead nowhere back to it."""

    def __init__(self) -> None:
        super().__init__()
        self.table = EmbeddingTable(_MATCHED, WIDTH)

    def forward(self, output: Tensor) -> Tensor:
        found: Tensor = self.table(torch.topk(output.detach(), _LEAST_LIKELY, largest=False).indices)
        return found


class _Dense(nn.Linear):
    """A linear layer over its inputs side by side, and ReLU."""

    def forward(self, *rows: Tensor) -> Tensor:
        return relu(linear(rows[0] if len(rows) == 1 else torch.cat(rows, dim=1), self.weight, self.bias))


class _Classes(nn.Linear):
    """Scores of the classes, and the loss of each row against its label."""

    def forward(self, rows: Tensor, label: Tensor) -> Tensor:  # type: ignore[override]
        return cross_entropy(linear(rows, self.weight, self.bias), label, reduction="none")


class _Hinge(nn.Module):
    """Users should be nearer to their items than to others, by a margin."""

    def forward(self, user: Tensor, item: Tensor, unlike: Tensor) -> Tensor:
        return relu(_MARGIN - cosine_similarity(user, item) + cosine_similarity(user, unlike))


class _Mean(nn.Module):
    """The mean row of all ids but the last."""

    def __init__(self, width: int, rows: int) -> None:
        super().__init__()
        self.table = EmbeddingTable(rows, width)

    def forward(self, ids: Tensor) -> Tensor:
        found: Tensor = self.table(ids[:, :-1])
        return found.view(*ids[:, :-1].shape, -1).mean(dim=1)


class _Candidates(nn.Module):
    """The row of the last id, and rows of ids made up from it: the same ones for the same example."""

    def __init__(self, noise: int, width: int, rows: int) -> None:
        super().__init__()
        self.noise = noise
        self.table = EmbeddingTable(rows, width)

    def forward(self, ids: Tensor) -> Tensor:
        steps = torch.arange(1, self.noise + 1, device=ids.device) * _STEP
        made_up = (ids.sum(dim=1, keepdim=True) * _STEP + steps).remainder(TABLE_ROWS - 1) + 1
        found: Tensor = self.table(torch.cat([ids[:, -1:], made_up], dim=1))
        return found.view(len(ids), 1 + self.noise, -1)


class _Contrast(nn.Module):
    """Noise-contrastive estimation: is a candidate the real one, or noise?

    exp(dot product) / ids is the model's probability of an id and 1 / ids that of uniform noise.
    """

    def __init__(self, noise: int) -> None:
        super().__init__()
        self.offset = math.log(noise)

    def forward(self, context: Tensor, candidates: Tensor) -> Tensor:
        scores = (candidates @ context[:, :, None])[:, :, 0] - self.offset
        return softplus(-scores[:, 0]) + softplus(scores[:, 1:]).sum(dim=1)
