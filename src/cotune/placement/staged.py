"""A pipeline on this machine: its types as the local engine can give them, started, watched to its end.

type with device cpu            one pinned core for each unit
... and cores: 0.25             an emulated node with that share of a core, and a link if there is one
type with device cuda           one GPU for each unit, or equal slices of one (MPS)
any other device                whatever torch has under that name, such as xpu
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cotune.errors import EngineError
from cotune.placement.fits import LayerTiming, MeasuredNetwork, Transfer
from cotune.placement.pipeline.placed import PLACEMENT, Placed
from cotune.placement.profiles import TypeEntry
from cotune.run.engines.local import Local
from cotune.run.launch import Ended, Launch, Reported, Started
from cotune.types import Config, Job, Stage

RESULT = "result.json"
TRAIN = (sys.executable, "-m", "cotune.placement.pipeline.train")
_MEASURE = (sys.executable, "-m", "cotune.placement.pipeline.measure")
_TICK = 0.5

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Staged:
    """Stages as planned, each with the type it runs on."""

    stages: tuple[Stage, ...]  # whose device is the type's name
    types: Mapping[str, TypeEntry]

    @property
    def placed(self) -> Placed:
        """Return the stages as torch knows their devices."""
        return Placed(
            tuple(
                Stage(self.types[stage.device].torch_device, stage.workers, stage.first, stage.last)
                for stage in self.stages
            )
        )

    @property
    def units(self) -> list[TypeEntry]:
        """Return the type of every rank."""
        return [self.types[stage.device] for stage in self.stages for _ in range(stage.workers)]


@dataclass
class Engines:
    """Local engines, one for each kind of machine that was asked for; all end with the block."""

    term_seconds: float = 2.0
    _made: dict[str, Local] = field(default_factory=dict)

    def of(self, units: Sequence[TypeEntry]) -> Local:
        """Return the engine for so many ranks of such types."""
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
        for engine in self._made.values():
            engine.close()


@contextmanager
def engines() -> Iterator[Engines]:
    """Yield engines; whatever happens, nothing they started stays behind."""
    made = Engines()
    try:
        yield made
    finally:
        made.close()


def completed(
    there: Engines,
    staged: Staged,
    command: Sequence[str],
    folder: Path,
    heard: Callable[[Reported], None] = lambda _: None,
) -> Any:
    """Run a pipeline to its end and return what it wrote to its result file."""
    placed = staged.placed
    folder.mkdir(parents=True, exist_ok=True)
    words = (*command, "--result", str(folder.absolute() / RESULT))
    job = Job("pipeline", words, folder=str(Path.cwd()), env=((PLACEMENT, placed.to_json()),))
    engine = there.of(staged.units)
    engine.start(Launch(folder.name, job, Config(1, placed.stages), 1, folder))
    broken: str | None = None
    while not isinstance(event := engine.wait(_TICK), Ended):
        if isinstance(event, Reported):
            heard(event)
        if isinstance(event, Started) and event.modelled and any(unit.link is not None for unit in staged.units):
            # Tensors between stages would go as fast as the machine lets them.
            broken = f"links cannot be emulated here: {event.modelled}"
            engine.stop(folder.name, grace=0.0)
    if broken or event.outcome != "done":
        raise EngineError(f"the pipeline failed: {broken or event.failure}; its logs are in {folder}")
    return json.loads((folder / RESULT).read_text())


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
    plain = TypeEntry(name="cpu", price_per_hour=0.0)
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
        pair = Staged((Stage(entry.name, 1, 0, 0), Stage("", 1, 1, last)), {**types, "": plain})
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
