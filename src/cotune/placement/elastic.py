"""A pipeline that outlives what breaks and changes its size: several starts, one after another, from one checkpoint.

    start ─▶ trains ─▶ done
      ▲         │ a stage's machine is lost or a unit killed: go on from the checkpoint, with the units there still are
      └─────────┤ other units are asked for (`cotune pipeline resize`): stop at the next checkpoint, go on with those
                ▼ its own error, or several starts without a further checkpoint: end with what broke it

A checkpoint holds layers, not units, so any number of them goes on with it, and batches stay the same.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from cotune.checkpoints import CHECKPOINT
from cotune.errors import EngineError, NotFound, UsageError
from cotune.placement.pipeline import checkpoint as checkpoints
from cotune.placement.problems import in_words
from cotune.placement.staged import RESULT, Engines, Staged, Tell, failed, started
from cotune.run.launch import Ended, Reported

RESTARTS = 3
_STAGES = "stages.json"
_RESIZE = "resize"


@runtime_checkable
class HasRoom(Protocol):
    """An engine that knows how many workers of a device its nodes hold, now that some may be lost."""

    def room(self, device: str) -> int:
        """Return how many there can be at most."""
        ...


@dataclass(frozen=True, slots=True)
class TrainedPipeline:
    """What a pipeline wrote at its end, the stages that it ended with, and how often it was started."""

    result: dict[str, Any]
    staged: Staged
    starts: int


def trained(
    there: Engines,
    staged: Staged,
    command: Sequence[str],
    folder: Path,
    heard: Callable[[Reported], None] = lambda _: None,
    *,
    tell: Tell = lambda _: None,
    restarts: int = RESTARTS,
) -> TrainedPipeline:
    """Run a pipeline to its end through several starts if need be."""
    kept, fruitless, reached = folder / CHECKPOINT, 0, 0
    for start in count(1):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / _STAGES).write_text(json.dumps([stage.workers for stage in staged.stages]))
        asked = folder / _RESIZE
        ended = started(there, staged, command, folder, heard, stops=asked.exists, start=start)
        result = json.loads((folder / RESULT).read_text()) if (folder / RESULT).exists() else None
        if result is not None and (ended.outcome == "done" or result.get("batches") == result.get("asked")):
            return TrainedPipeline(result, staged, start)
        before, reached = reached, found.batches if (found := checkpoints.read(kept)) else 0
        if asked.exists() and ended.failure is None:
            staged = with_units(staged, json.loads(asked.read_text()))
            asked.unlink()
            tell(f"{reached} batches are done; going on with {described(staged)}")
            continue
        fruitless = 0 if reached > before else fruitless + 1
        if not reached or fruitless > (restarts if _from_outside(ended) else 0):
            raise failed(ended, folder)
        staged = _what_is_left(there, staged)
        tell(f"{ended.failure}; going on after {reached} batches with {described(staged)}")
    raise AssertionError("starts are counted without end")


def ask_resize(folder: Path, units: Sequence[int]) -> None:
    """Ask the pipeline that runs in a folder to go on with other units at its next checkpoint."""
    try:
        stages = json.loads((folder / _STAGES).read_text())
    except FileNotFoundError:
        raise NotFound(f"no pipeline runs in {folder}; `cotune pipeline run` says where its logs are") from None
    if len(units) != len(stages):
        raise UsageError(f"the pipeline has {len(stages)} stages, now of {stages} units: give a number for each")
    draft = folder / f"{_RESIZE}.draft"
    draft.write_text(json.dumps(list(units)))
    draft.replace(folder / _RESIZE)


def with_units(staged: Staged, units: Sequence[int]) -> Staged:
    """Return the stages with other numbers of units."""
    pairs = zip(staged.stages, units, strict=True)
    return replace(staged, stages=tuple(replace(stage, workers=workers) for stage, workers in pairs))


def described(staged: Staged) -> str:
    """Return the stages in one line."""
    return in_words(staged.stages) + (f" and {staged.table_servers} for tables" if staged.table_servers else "")


def _from_outside(ended: Ended) -> bool:
    return ended.failure is not None and ended.failure.from_outside


def _what_is_left(there: Engines, staged: Staged) -> Staged:
    """Return the stages with no more units of a type than the nodes hold that are left."""
    engine = there.of(staged.units)
    if not isinstance(engine, HasRoom):
        return staged
    units = [stage.workers for stage in staged.stages]
    for kind in dict.fromkeys(stage.device for stage in staged.stages):
        own = [place for place, stage in enumerate(staged.stages) if stage.device == kind]
        room = engine.room(kind)
        if room < len(own):
            raise EngineError(f"{room} units of {kind} are left, and {len(own)} stages need one each: plan anew")
        while sum(units[place] for place in own) > room:
            units[max(own, key=lambda place: units[place])] -= 1
    return with_units(staged, units)
