"""A pipeline on some engine: its types as the engine can give them, started, watched to its end.

Here, by the local engine:

type with device cpu            one pinned core for each unit
... and cores: 0.25             an emulated node with that share of a core, and a link if there is one
type with device cuda           one GPU for each unit, or equal slices of one (MPS)
any other device                whatever torch has under that name, such as xpu

On a cluster a unit is a worker of the Ray or Slurm engine, and its type's name is the device asked for.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from cotune.errors import EngineError
from cotune.placement.fits import LayerTiming, MeasuredNetwork, Transfer
from cotune.placement.pipeline.placed import PLACEMENT, Placed
from cotune.placement.profiles import TypeEntry
from cotune.run.engines.local import Local
from cotune.run.launch import Ended, Engine, Launch, Reported, Started
from cotune.types import Config, Failure, Job, Stage

RESULT = "result.json"
TRAIN = (sys.executable, "-m", "cotune.placement.pipeline.train")
_MEASURE = (sys.executable, "-m", "cotune.placement.pipeline.measure")
_TICK = 0.5
_STOP_SECONDS = 600.0  # to come to the next checkpoint

Tell = Callable[[str], None]


PLAIN = TypeEntry(name="cpu", price_per_hour=0.0)


@dataclass(frozen=True, slots=True)
class Staged:
    """Stages as planned, each with the type it runs on, and processes that hold tables, each on a plain core."""

    stages: tuple[Stage, ...]  # whose device is the type's name
    types: Mapping[str, TypeEntry]
    table_servers: int = 0

    @property
    def placed(self) -> Placed:
        """Return the stages as torch knows their devices."""
        return Placed(
            tuple(
                Stage(self.types[stage.device].torch_device, stage.workers, stage.first, stage.last)
                for stage in self.stages
            ),
            self.table_servers,
        )

    @property
    def units(self) -> list[TypeEntry]:
        """Return the type of every rank."""
        own = [self.types[stage.device] for stage in self.stages for _ in range(stage.workers)]
        return [*own, *[PLAIN] * self.table_servers]

    def config(self, stages: tuple[Stage, ...]) -> Config:
        """Return what an engine starts: stages as it knows them, and the table servers as one more."""
        return Config(1, (*stages, Stage("cpu", self.table_servers)) if self.table_servers else stages)


@dataclass
class Engines:
    """A cluster's engine, or local ones for each kind of machine that was asked for; all end with the block."""

    cluster: Engine | None = None
    term_seconds: float = 2.0
    _made: dict[str, Local] = field(default_factory=dict)

    def of(self, units: Sequence[TypeEntry]) -> Engine:
        """Return the engine for so many ranks of such types."""
        if self.cluster is not None:
            return self.cluster
        settings: dict[str, Any] = {}
        if any(unit.cores is not None or unit.link is not None for unit in units):
            settings = {
                "nodes": len(units),
                "cores": [1.0 if unit.cores is None else unit.cores for unit in units],
                "link": [unit.link for unit in units],
            }
        key = json.dumps(settings)
        if key not in self._made:
            self._made[key] = Local(**settings, term_seconds=self.term_seconds)
        return self._made[key]

    def close(self) -> None:
        for engine in (*self._made.values(), *([] if self.cluster is None else [self.cluster])):
            engine.close()


def engines(cluster: Engine | None = None) -> closing[Engines]:
    """Return engines for a block; whatever happens in it, nothing they started stays behind."""
    return closing(Engines(cluster))


def completed(
    there: Engines,
    staged: Staged,
    command: Sequence[str],
    folder: Path,
    heard: Callable[[Reported], None] = lambda _: None,
) -> Any:
    """Run a pipeline to its end and return what it wrote to its result file."""
    ended = started(there, staged, command, folder, heard)
    if ended.outcome != "done":
        raise failed(ended, folder)
    return json.loads((folder / RESULT).read_text())


def failed(ended: Ended, folder: Path) -> EngineError:
    """Return the error of a pipeline that did not come to its end."""
    return EngineError(f"the pipeline failed: {ended.failure}; its logs are in {folder}")


def started(
    there: Engines,
    staged: Staged,
    command: Sequence[str],
    folder: Path,
    heard: Callable[[Reported], None] = lambda _: None,
    *,
    stops: Callable[[], bool] = lambda: False,
    start: int = 1,
) -> Ended:
    """Run one start of a pipeline and return how it ended; it is asked to stop when `stops` says so."""
    placed = staged.placed
    folder.mkdir(parents=True, exist_ok=True)
    words = (*command, "--result", str(folder.absolute() / RESULT))
    (folder / RESULT).unlink(missing_ok=True)
    job = Job("pipeline", words, folder=str(Path.cwd()), env=((PLACEMENT, placed.to_json()),))
    engine = there.of(staged.units)
    config = staged.config(placed.stages if there.cluster is None else staged.stages)
    launch = Launch(f"{folder.name}.{start}", job, config, 1, folder, resume=start > 1)
    engine.start(launch)
    broken: Failure | None = None
    asked = False
    while not isinstance(event := engine.wait(_TICK), Ended):
        if isinstance(event, Reported):
            heard(event)
        if isinstance(event, Started) and event.modelled and any(unit.link is not None for unit in staged.units):
            # Tensors between stages would go as fast as the machine lets them.
            broken = Failure(f"links cannot be emulated here: {event.modelled}")
            engine.stop(launch.id, grace=0.0)
        elif not asked and stops():
            asked = True
            engine.stop(launch.id, grace=_STOP_SECONDS)
    return event if broken is None else replace(event, outcome="failed", failure=broken)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to measure of a network: on which types, with how many units, at which batches."""

    model: str
    layers: Sequence[Mapping[str, Any]]
    types: Sequence[TypeEntry]
    units: Sequence[int]
    batches: Sequence[int]
    seconds: float = 0.5  # for each number

    def counts(self, entry: TypeEntry) -> list[int]:
        """Return the units to try of a type."""
        return [count for count in self.units if entry.limit is None or count <= entry.limit] or [1]

    @property
    def numbers(self) -> int:
        """Return how many numbers will be measured."""
        return sum(
            len(self.batches) * (len(self.counts(entry)) * (len(self.layers) + 1) + len(self.layers) - 1)
            for entry in self.types
        )


def require_devices(types: Sequence[TypeEntry]) -> None:
    """Refuse types whose device torch does not see here, before anything is measured."""
    import torch

    for entry in types:
        device = entry.torch_device
        try:
            there = torch.get_device_module(device).is_available()
        except RuntimeError:
            raise EngineError(f"type {entry.name}: torch knows no device {device!r}; say device=cpu or cuda") from None
        if not there:
            raise EngineError(f"type {entry.name}: torch sees no {device} on this machine; leave it out")


def measured(there: Engines, wanted: Wanted, folder: Path, tell: Tell = lambda _: None) -> MeasuredNetwork:
    """Measure every layer on every type, with real processes."""
    types = {entry.name: entry for entry in wanted.types}
    asked = ("--model", wanted.model, "--batches", ",".join(map(str, wanted.batches)), "--seconds", str(wanted.seconds))
    layers = [dict(layer) for layer in wanted.layers]
    timings: list[LayerTiming] = []
    transfers: list[Transfer] = []
    last = len(wanted.layers) - 1
    for entry in wanted.types:
        for units in wanted.counts(entry):
            tell(f"{units} x {entry.name}: seconds of every layer")
            staged = Staged((Stage(entry.name, units, 0, last),), types)
            found = completed(there, staged, (*_MEASURE, "compute", *asked), folder / f"{entry.name}-{units}")
            timings += [LayerTiming(type=entry.name, **each) for each in found]
        tell(f"{entry.name}: transfers")
        pair = Staged((Stage(entry.name, 1, 0, 0), Stage("", 1, 1, last)), {**types, "": PLAIN})
        found = completed(there, pair, (*_MEASURE, "cuts", *asked), folder / f"{entry.name}-cuts")
        for each in found:
            layers[each["layer"]]["input_bytes"] = float(each["bytes"])  # of the largest batch, which comes last
        # On one core both ways cost arithmetic, one after the other; a link carries them at the same time.
        paid = max if entry.link is not None else sum
        transfers += [
            Transfer(entry.name, each["layer"], each["batch"], paid((each["sending"], each["receiving"])))
            for each in found
        ]
    return MeasuredNetwork(
        name=wanted.model,
        batch=max(wanted.batches),
        types=[entry.model_dump(exclude_none=True) | {"limit": entry.limit} for entry in wanted.types],
        layers=layers,
        timings=timings,
        transfers=transfers,
        overlap=any(entry.link is not None for entry in wanted.types),
    )
