"""Embedding tables in processes of their own: parameter servers that hold rows and nothing else.

    unit    pull: ids ─▶ server ─▶ rows         push: ids and gradients ─▶ server          step ─▶ server
    server  adds the pushes of all units of a stage, in their order, and steps once when all have said step

Server s of n has the ids with id mod n = s. A unit that is a step ahead waits for its rows until the others have
stepped too, so training is the same as with tables inside the stage, and the same in every run.
"""

from __future__ import annotations

import queue
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from cotune.errors import EngineError
from cotune.placement.pipeline.channels import Wire
from cotune.placement.pipeline.layers import PipelineNetwork
from cotune.placement.pipeline.placed import Placed
from cotune.placement.pipeline.tables import EmbeddingTable

_PULL, _PUSH, _STEP, _PAUSE = range(4)
_IDS = " ids"

TableKey = tuple[int, str]  # the layer's place, and the name of the table's weight in it


class ServedRows:
    """A table's rows as a unit sees them: at the servers at the other end of some lines."""

    def __init__(self, key: TableKey, lines: Sequence[Wire]) -> None:
        self._name, self._lines = f"{key[0]} {key[1]}", lines
        self.seconds = 0.0

    def pull(self, ids: Tensor, weight: Tensor) -> tuple[Tensor, Any]:
        """Return the rows of distinct ids, each from the server that has it."""
        began = time.perf_counter()
        owner = ids % len(self._lines)
        asked = [(ids[owner == server], torch.nonzero(owner == server).flatten()) for server in range(len(self._lines))]
        for line, (mine, _) in zip(self._lines, asked, strict=True):
            line.send({self._name: mine}, [[_PULL]])
        rows = weight.new_empty((len(ids), weight.shape[1]))
        for line, (_, places) in zip(self._lines, asked, strict=True):
            rows[places] = line.receive().flow[self._name]
        self.seconds += time.perf_counter() - began
        return rows, asked

    def push(self, pulled: Any, gradients: Tensor, _: Tensor) -> Tensor | None:
        """Send every gradient to the server of its id; none stays here."""
        for line, (ids, places) in zip(self._lines, pulled, strict=True):
            line.send({self._name: gradients[places], self._name + _IDS: ids}, [[_PUSH]])
        return None


def tell_step(lines: Sequence[Wire]) -> None:
    """Say that all gradients of a step are sent."""
    for line in lines:
        line.send({}, [[_STEP]])


def tell_pause(lines: Sequence[Wire]) -> None:
    """Say that nothing will be asked until all processes have agreed on what comes next."""
    for line in lines:
        line.send({}, [[_PAUSE]])


@dataclass(slots=True)
class _ServedStage:
    """The tables of one stage: who asks for them, and what was pushed for steps to come, by step and unit."""

    weights: Mapping[TableKey, nn.Parameter]
    optimisers: Sequence[Optimizer]
    lines: Sequence[Wire] = ()
    pushed: dict[tuple[int, int], list[tuple[TableKey, Tensor, Tensor]]] = field(default_factory=dict)
    said: Counter[int] = field(default_factory=Counter)  # how many units have come to a step
    steps: int = 0  # taken

    def step(self) -> None:
        """Change the rows by all that was pushed for the next step, in the order of the units."""
        entries = [entry for unit in range(len(self.lines)) for entry in self.pushed.pop((self.steps, unit), ())]
        for key, weight in self.weights.items():
            own = [entry[1:] for entry in entries if entry[0] == key]
            if own:
                ids, rows = (torch.cat(parts) for parts in zip(*own, strict=True))
                weight.grad = torch.sparse_coo_tensor(ids[None], rows, weight.shape, check_invariants=False)
        for optimiser in self.optimisers:
            optimiser.step()
            optimiser.zero_grad()
        self.steps += 1


class TableServer:
    """One of several servers, with its rows of all tables of a network."""

    def __init__(self, network: PipelineNetwork, placed: Placed, server: int, *, seed: int, optimisers: Any) -> None:
        """Take rows of the tables as they are at first; `optimisers` makes those of a list of weights."""
        self.server, self.servers = server, placed.table_servers
        self.stages: list[_ServedStage] = []
        for stage in placed.stages:
            weights = {
                (place, name): nn.Parameter(table.weight.detach()[server :: self.servers].clone())
                for place in range(stage.first, stage.last + 1)
                for name, table in tables_of(network.layers[place].build(seed, place)).items()
            }
            self.stages.append(_ServedStage(weights, list(optimisers(list(weights.values())))))
        self._changed = threading.Condition()

    def serve(self) -> None:
        """Answer every unit until all have said that they pause."""
        ends: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()
        asking = [(stage, unit) for stage in self.stages for unit in range(len(stage.lines))]

        def answer(stage: _ServedStage, unit: int) -> None:
            try:
                self._answer(stage, unit)
                ends.put(None)
            except BaseException as error:  # raised where all are waited for
                ends.put(error)

        for stage, unit in asking:
            threading.Thread(target=answer, args=(stage, unit), daemon=True).start()
        for _ in asking:
            if (error := ends.get()) is not None:
                raise error

    def close(self) -> None:
        """Close the lines; the units have said all they had to say."""
        for stage in self.stages:
            for line in stage.lines:
                line.close()

    def _answer(self, stage: _ServedStage, unit: int) -> None:
        line, said = stage.lines[unit], stage.steps
        while True:
            message = line.receive()
            (word,) = (int(entry[0]) for entry in message.told)
            if word == _PAUSE:
                return
            with self._changed:
                if word == _PULL:
                    self._changed.wait_for(lambda: stage.steps >= said)  # noqa: B023
                    ((name, ids),) = message.flow.items()
                    line.send({name: stage.weights[_key(name)].detach()[ids // self.servers]})
                elif word == _PUSH:
                    name = next(name for name in message.flow if not name.endswith(_IDS))
                    entry = (_key(name), message.flow[name + _IDS] // self.servers, message.flow[name])
                    stage.pushed.setdefault((said, unit), []).append(entry)
                elif word == _STEP:
                    stage.said[said] += 1
                    said += 1
                    if stage.said[stage.steps] == len(stage.lines):
                        stage.step()
                        self._changed.notify_all()
                else:
                    raise EngineError(f"a unit asked a table server for {word}, which it does not know")


def tables_of(part: nn.Module) -> dict[str, EmbeddingTable]:
    """Return the tables in a layer by the names of their weights."""
    named = part.named_modules()
    return {f"{name}.weight".lstrip("."): table for name, table in named if isinstance(table, EmbeddingTable)}


def _key(name: str) -> TableKey:
    place, _, weight = name.partition(" ")
    return int(place), weight
