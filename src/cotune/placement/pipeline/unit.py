"""What one process of a pipeline computes: its rows of every batch, forward and backward.

    forward     rows from the stage before ─▶ layers ─▶ rows to the stage after
    backward    gradients from the stage after ─▶ layers ─▶ gradients to the stage before
    step        dense gradients summed over the units of the stage, tables' rows pushed to their owners

Losses are divided by the examples of the whole batch, so sums over rows, units and micro-batches are
its gradient. Asynchronous units step after every batch while later ones are in flight: a unit then keeps the
dense weights that each forward saw until its backward (weight stashing), so gradients are those of one set of
weights, a few steps old. The last stage goes backward at once and keeps nothing.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.func import functional_call
from torch.optim import SGD, Adagrad, Adam, Optimizer, SparseAdam

from cotune.errors import UsageError
from cotune.placement.pipeline.channels import Told, Wire
from cotune.placement.pipeline.layers import LOSS, Flow, PipelineNetwork, Segment
from cotune.placement.pipeline.placed import BatchShare
from cotune.placement.pipeline.table_servers import ServedRows, tables_of, tell_pause, tell_step
from cotune.types import Stage

OPTIMISERS = ("sgd", "adagrad", "adam")
_READ_AT_ONCE = 16


@dataclass(frozen=True, slots=True)
class PipelineRank:
    """Where a unit sits: its stage, its number there, the stage's group, its device; who holds tables if not it."""

    stage: int
    unit: int
    units: int
    device: torch.device
    group: Any = None
    table_servers: int = 0


@dataclass(frozen=True, slots=True)
class StageNeighbour:
    """A channel to a unit of a neighbouring stage, and which of my rows are its too."""

    channel: Wire
    share: BatchShare


@dataclass(slots=True)
class _Passing:
    """A batch between its forward and its backward."""

    entered: Flow
    left: Flow
    weights: dict[str, Tensor]


class Spent:
    """Seconds by what they were spent on, in all and for every batch."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(("compute", "sync", "waiting", "input", "sending", "receiving"), 0.0)
        self._since = time.perf_counter()
        self._before = dict(self.seconds)
        self._batches: list[dict[str, float]] = []

    def on(self, name: str) -> None:
        """Count the time since the last call."""
        now = time.perf_counter()
        self.seconds[name] += now - self._since
        self._since = now

    def move(self, seconds: float, wrong: str, right: str) -> None:
        """Count seconds under another name."""
        self.seconds[wrong] -= seconds
        self.seconds[right] += seconds

    def batch(self, lines: Sequence[StageNeighbour]) -> None:
        """End a batch; what its lines took in the background is taken in too."""
        self.seconds["sending"] = sum(line.channel.sending for line in lines)
        self.seconds["receiving"] = sum(line.channel.receiving for line in lines)
        self._batches.append({name: now - self._before[name] for name, now in self.seconds.items()})
        self._before = dict(self.seconds)

    def typical(self) -> dict[str, float]:
        """Return the median over the batches, the first ones, which also warm up, left out."""
        warm = self._batches[len(self._batches) // 4 :]
        return {name: median(batch[name] for batch in warm) for name in self.seconds}


class Unit:
    """The layers of one stage on one unit, with their optimisers and lines."""

    def __init__(
        self, network: PipelineNetwork, stage: Stage, position: PipelineRank, *, seed: int, optimiser: str, lr: float
    ) -> None:
        self.position, self.stage = position, stage
        self.segment = Segment(network, stage.first, stage.last, seed)
        self.tables = {
            (place, name): table
            for place, part in enumerate(self.segment.parts, start=stage.first)
            for name, table in tables_of(part).items()
        }
        self.servers: list[Wire] = []  # lines to those who hold the tables, where it is not the stage
        for key, table in self.tables.items():
            if position.table_servers:
                table.leave_to(ServedRows(key, self.servers))
            elif position.units > 1:
                table.share(position.unit, position.units, position.group)
        self.segment.to(position.device)
        self.is_first, self.is_last = stage.first == 0, stage.last == network.depth - 1
        self.columns = set(network.columns)
        self.before: Sequence[StageNeighbour] = ()
        self.after: Sequence[StageNeighbour] = ()
        self.spent = Spent()
        self.told: Told = []  # what is known of finished batches, and not yet passed on
        rows = [table.weight for table in self.tables.values()]
        self._owned = {id(weights) for weights in rows}
        self.dense = [weights for weights in self.segment.parameters() if id(weights) not in self._owned]
        self.optimisers = list(optimisers(optimiser, lr, self.dense, [] if position.table_servers else rows))
        self._passing: dict[int, _Passing] = {}
        self._losses: dict[int, Tensor] = {}
        self._pending: list[tuple[int, Tensor]] = []

    def forward(self, number: int, flow: Flow, examples: int, *, stash: bool) -> None:
        """Take a batch through the layers and send it on; `flow` has its columns where this is the first stage.

        `stash` keeps the weights, for a step may come before the batch's backward.
        """
        if not self.is_first:
            flow = self._from(self.before)
            self._settle()
            self.spent.on("waiting")
        entered = {name: self._leaf(name, tensor) for name, tensor in flow.items()}
        weights = self._stashed() if stash else {}
        left: Flow = functional_call(self.segment, weights, (entered,)) if stash else self.segment(entered)
        if self.is_last:
            left = {LOSS: left[LOSS].sum() / examples}
            self._losses[number] = left[LOSS].detach()
        self._settle()
        for line in self.after:
            line.channel.send(_cut(left, line.share))
        self._passing[number] = _Passing(entered, left, weights)
        self.spent.on("compute")

    def backward(self, number: int) -> None:
        """Take the gradients of a batch back through the layers and send them on."""
        passing = self._passing.pop(number)
        made = {name: tensor for name, tensor in passing.left.items() if tensor.requires_grad}
        gradients: Flow = {}
        if not self.is_last:
            gradients = self._from(self.after)
            self._settle()
            self.spent.on("waiting")
        torch.autograd.backward(list(made.values()), [gradients[name] for name in made] if gradients else None)
        self._settle()
        if self.before:
            asked = {
                name: tensor.grad if tensor.grad is not None else torch.zeros_like(tensor)
                for name, tensor in passing.entered.items()
                if tensor.requires_grad
            }
            told = self.news()
            for line in self.before:
                line.channel.send(_cut(asked, line.share), told)
        for name, weights in self.segment.named_parameters() if passing.weights else ():
            weights.grad = passing.weights[name].grad
        self.spent.on("compute")

    def step(self, number: int) -> None:
        """Change the weights by the gradients of the batches since the last step, of which `number` is the last."""
        losses = [self._losses.pop(known) for known in sorted(self._losses) if known <= number]
        loss = torch.stack(losses).sum().reshape(1) if losses else None
        if self.position.units > 1:
            self.spent.on("compute")
            loss = self._summed(loss)
            self.spent.on("sync")
        self.spent.move(sum(table.waited() for table in self.tables.values()), "compute", "sync")
        tell_step(self.servers)
        if loss is not None:
            self._pending.append((number, loss))
        for optimiser in self.optimisers:
            optimiser.step()
            optimiser.zero_grad()
        self._settle()
        self.spent.on("compute")
        self.spent.batch((*self.before, *self.after))

    def pause(self) -> Told:
        """Tell the stage before what it does not know yet, hear the same from the stage after, and return all of it."""
        for line in self.after:
            self._hear(line.channel.receive().told)
        told = self.news(last=True)
        for line in self.before:
            line.channel.send({}, told)
        tell_pause(self.servers)
        return told

    def close(self) -> None:
        """Close the lines; everything has been said."""
        for line in (*self.before, *self.after):
            line.channel.close()
        for server in self.servers:
            server.close()

    def news(self, *, last: bool = False) -> Told:
        """Return what became known of finished batches since the last call."""
        # To read a number off an accelerator is to wait for it: seldom, so that it never runs dry.
        if last or self.position.device.type == "cpu" or len(self._pending) >= _READ_AT_ONCE:
            self.told += [[number, float(loss)] for number, loss in self._pending]
            self._pending.clear()
        known, self.told = self.told, []
        return known

    def _from(self, lines: Sequence[StageNeighbour]) -> Flow:
        """Return my rows, put together from what the units of a neighbouring stage send."""
        messages = [line.channel.receive() for line in lines]
        self._hear(messages[0].told)
        flows = [message.flow for message in messages]
        if len(flows) == 1:
            return flows[0]
        return {name: torch.cat([flow[name] for flow in flows]) for name in flows[0]}

    def _stashed(self) -> dict[str, Tensor]:
        """Return the weights of this moment; a table's gradient needs no copy of the table."""
        return {
            name: (weights.data if id(weights) in self._owned else weights.detach().clone()).requires_grad_()
            for name, weights in self.segment.named_parameters()
        }

    def _hear(self, told: Told) -> None:
        known = {entry[0] for entry in self.told}
        self.told += [entry for entry in told if entry[0] not in known]

    def _leaf(self, name: str, tensor: Tensor) -> Tensor:
        mine = tensor.to(self.position.device).detach()
        return mine.requires_grad_() if name not in self.columns and mine.is_floating_point() else mine

    def _summed(self, loss: Tensor | None) -> Tensor | None:
        """Sum the dense gradients, and the loss, over the units of the stage."""
        gradients = [weights.grad if weights.grad is not None else torch.zeros_like(weights) for weights in self.dense]
        parts = [*gradients, *([] if loss is None else [loss])]
        if not parts:
            return None
        flat = torch.cat([part.reshape(-1) for part in parts]).cpu()
        dist.all_reduce(flat, group=self.position.group)
        summed = torch.split(flat.to(self.position.device), [part.numel() for part in parts])
        for weights, values in zip(self.dense, summed, strict=False):
            weights.grad = values.view_as(weights)
        return None if loss is None else summed[-1]

    def _settle(self) -> None:
        """Let an emulated core take the time of its arithmetic, and no more for having waited."""
        if self.position.device.type == "cpu":
            torch.cpu.synchronize()


def together(units: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the seconds of a stage from those of its units.

    A unit that computes faster only waits longer for the others: synchronising is what the whole takes beyond
    the longest computing. Of everything else it is the mean.
    """
    means = {name: fmean(unit[name] for unit in units) for name in units[0]}
    compute = max(unit["compute"] for unit in units)
    sync = max(unit["compute"] + unit["sync"] for unit in units) - compute
    return means | {"compute": compute, "sync": sync}


def _cut(flow: Flow, share: BatchShare) -> Flow:
    return {name: tensor[share.begin : share.end] for name, tensor in flow.items()}


def optimisers(
    name: str, lr: float, dense: Sequence[nn.Parameter], tables: Sequence[nn.Parameter]
) -> Iterator[Optimizer]:
    """Yield the optimiser of dense weights and that of tables, which gets its sparse form."""
    if name not in OPTIMISERS:
        raise UsageError(f"no optimiser {name!r}; there are {', '.join(OPTIMISERS)}")
    if dense:
        yield {"sgd": SGD, "adagrad": Adagrad, "adam": Adam}[name](dense, lr=lr)
    if tables:
        yield {"sgd": SGD, "adagrad": Adagrad, "adam": SparseAdam}[name](tables, lr=lr)
