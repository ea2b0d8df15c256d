"""What all ranks of a training do together: end it, and keep a checkpoint.

Each rank hears for itself that it should stop, some a step later than others, and one that went on alone would wait for
ever. So they vote: at every evaluation, and between steps as often as `_VOTE_SECONDS` allow, which they agree on too.

A checkpoint is kept when the training is told to stop, and after an evaluation where that costs little:

    seconds since the last >= max(30, 20 x what the last one took)
"""

from __future__ import annotations

import importlib
import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_VOTE_SECONDS = 0.5  # a vote is an all-reduce of a few numbers
_LEAST_SECONDS = 30.0  # between two checkpoints that nobody has asked for
_TIMES = 20.0  # what a checkpoint took: 5 % of the time goes into them at most


@dataclass
class Ballot:
    """Votes of all ranks; a rank alone decides by itself. `device` is where its tensors live."""

    device: Any = "cpu"
    _next: int = 0
    _began: tuple[int, float] = field(default_factory=lambda: (0, time.monotonic()))
    _stop: bool = False

    def stops(self, step: int, said: bool) -> bool:
        """Say whether any rank has heard that it should stop, once they have voted on it."""
        self._stop |= said
        if not _several():
            return self._stop
        if step < self._next:
            return False
        first, began = self._began
        now = time.monotonic()
        pace = (now - began) / max(1, step - first)
        stop, interval = self.most(float(self._stop), min(1e6, _VOTE_SECONDS / max(pace, 1e-6)))
        self._next, self._began = step + max(1, math.ceil(interval)), (step, now)
        return stop > 0

    def most(self, *values: float) -> tuple[float, ...]:
        """Return the largest of what all ranks say, for each value."""
        if not _several():
            return values
        torch = importlib.import_module("torch")
        votes = torch.tensor(values, dtype=torch.float32, device=self.device)
        torch.distributed.all_reduce(votes, op=torch.distributed.ReduceOp.MAX)
        return tuple(votes.tolist())


def _several() -> bool:
    distributed = importlib.import_module("torch").distributed
    return bool(distributed.is_available() and distributed.is_initialized() and distributed.get_world_size() > 1)


@dataclass
class Keeper:
    """Where checkpoints of this start go, and when one was last kept."""

    _last: float = field(default_factory=time.monotonic)
    _took: float = 0.0

    @property
    def due(self) -> bool:
        """Say whether it is time for one that nobody has asked for."""
        return folder() is not None and time.monotonic() - self._last >= max(_LEAST_SECONDS, _TIMES * self._took)

    def keep(self, save: Callable[[Path], None]) -> float:
        """Save into the folder for checkpoints; return the seconds it took, none where there is no folder."""
        into = folder()
        if into is None:
            return 0.0
        began = time.monotonic()
        save(into)
        self._last = time.monotonic()
        self._took = self._last - began
        return self._took


def folder() -> Path | None:
    """Return where cotune wants checkpoints."""
    told = os.environ.get("COTUNE_CHECKPOINT")
    return Path(told) if told else None


def resumes() -> Path | None:
    """Return the folder that this start goes on from, if it is to go on."""
    return folder() if "COTUNE_RESUME" in os.environ else None
