"""Checkpoints of a pipeline: parts by every process, and one record that makes them count.

    batch-00000040/layer-0.rows-1-of-2.pt ...     written by each unit and table server for itself
    checkpoint.json                               written last and in one step by rank 0: which of them counts

It is taken when no batch is in flight, so it holds the weights after so many whole batches, and where each lane of
the input goes on: what follows sees every later example once. A kill at any moment leaves the last record and all that
it names.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from cotune.errors import EngineError, InvalidFile
from cotune.run.local.messages import write_whole

_RECORD = "checkpoint.json"


class LanePlace(NamedTuple):
    """Where a lane of the input goes on: the number of its shard, and how many rows of that are taken."""

    shard: int = 0
    row: int = 0


@dataclass(frozen=True, slots=True)
class PipelineCheckpoint:
    """How far a training is: whole batches, where each lane goes on, the losses so far, and what is trained."""

    batches: int
    lanes: tuple[LanePlace, ...]
    losses: tuple[float, ...]
    training: Mapping[str, Any]

    def weights(self, folder: Path) -> Path:
        """Return where its weights are."""
        return weights_after(folder, self.batches)

    def require(self, training: Mapping[str, Any]) -> None:
        """Refuse to go on with a training of something else."""
        for name, value in training.items():
            if self.training.get(name) != value:
                raise InvalidFile(
                    f"the checkpoint is of a training with {name.replace('_', ' ')} {self.training.get(name)}, "
                    f"not {value}: go on as it began, or train in another folder"
                )


def weights_after(folder: Path, batches: int) -> Path:
    """Return the folder of the weights after so many batches."""
    return folder / f"batch-{batches:08d}"


def read(folder: Path) -> PipelineCheckpoint | None:
    """Return the checkpoint that counts in a folder, if there is one."""
    try:
        told = json.loads((folder / _RECORD).read_text())
    except FileNotFoundError:
        return None
    lanes = tuple(LanePlace(*place) for place in told["lanes"])
    return PipelineCheckpoint(told["batches"], lanes, tuple(told["losses"]), told["training"])


def commit(folder: Path, checkpoint: PipelineCheckpoint, names: Sequence[str]) -> None:
    """Let a checkpoint count whose files all processes have written, and remove those before it."""
    there = checkpoint.weights(folder)
    if unseen := [name for name in names if not (there / name).exists()]:
        raise EngineError(
            f"rank 0 does not see {there / unseen[0]}: the checkpoint's folder must be on a disk that all nodes share"
        )
    told = {
        "batches": checkpoint.batches,
        "lanes": checkpoint.lanes,
        "losses": checkpoint.losses,
        "training": dict(checkpoint.training),
    }
    write_whole(folder / _RECORD, json.dumps(told))
    for earlier in folder.glob("batch-*"):
        if earlier != there:
            shutil.rmtree(earlier, ignore_errors=True)


def spans(first: int, batches: int, every: int | None) -> Iterator[tuple[int, int]]:
    """Yield the first batch and the end of each stretch between two checkpoints."""
    while first < batches:
        end = min(batches, (first // every + 1) * every) if every else batches
        yield first, end
        first = end
