"""The length of a training as a job file gives it: `20000 steps`, `20000 steps of 64`, `2e9 tokens`, `1.5 epochs`.

Steps are steps of a global batch: the one named, else the file's fixed one, else that of its learning rate. A length is
cut into 64 to 128 parts of a power of two of examples, so that plans are not rounded to epochs and a length that is
changed a little leaves samples comparable. Where no epoch is known the whole training is one.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import cast

from cotune.errors import InvalidFile
from cotune.types import ProgressUnit, Unit

LEAST_PARTS = 64  # of a length: a plan's cap is exact to 1.6 % of it
_WHOLE_EPOCHS = 10  # from which a length in whole epochs is planned in epochs
_LENGTH = re.compile(
    r"([\d_,]*\.?\d+(?:e\+?\d+)?)\s*(k|m|b|)\s*(steps?|tokens?|epochs?)(?:\s+(?:of|at)\s+(\d+))?", re.I
)
_TIMES = {"": 1.0, "k": 1e3, "m": 1e6, "b": 1e9}


@dataclass(frozen=True, slots=True)
class Length:
    """A number of steps (of a global batch), tokens or epochs."""

    count: float
    unit: Unit
    of: int | None = None


def parsed(text: object) -> Length:
    """Return a length as written, or raise ValueError."""
    said = _LENGTH.fullmatch(str(text).strip())
    count = float(said[1].replace(",", "").replace("_", "")) * _TIMES[said[2].lower()] if said else 0.0
    if said is None or not 0 < count < 1e18:
        raise ValueError("a length such as 20000 steps, 20000 steps of 64, 2e9 tokens or 15 epochs")
    unit = said[3].lower().rstrip("s") + "s"
    return Length(count, cast("Unit", unit), int(said[4]) if said[4] else None)


def cut(
    length: Length, *, examples: int | None, sequence: int | None, batch: int | None, source: str
) -> tuple[int | None, int, ProgressUnit]:
    """Return a length in parts: the examples of one, how many there are, and how the job counts.

    Given are the examples of an epoch, the tokens of an example and the batch of its steps.
    """
    whole = examples_of(length, examples, sequence, batch, source)
    if whole is None:  # epochs of unknown size
        each = 1 if length.count >= _WHOLE_EPOCHS else 2 ** math.ceil(math.log2(LEAST_PARTS / length.count))
        return None, math.ceil(length.count * each), ProgressUnit("epochs", float(each), sequence)
    if length.unit == "epochs" and length.count >= _WHOLE_EPOCHS and length.count == int(length.count):
        return examples, int(length.count), ProgressUnit("epochs", 1.0, sequence)
    part = max(1, 2 ** math.floor(math.log2(whole / LEAST_PARTS))) if whole > LEAST_PARTS else 1
    parts = math.ceil(whole / part)
    of_epoch = examples / part if examples else float(parts)
    return part, parts, ProgressUnit(length.unit, of_epoch, sequence, examples is not None)


def examples_of(
    length: Length, examples: int | None, sequence: int | None, batch: int | None, source: str
) -> float | None:
    """Return the examples of a whole training; None for epochs of unknown size."""
    if length.unit == "steps":
        of = length.of or batch
        if of is None:
            steps = f"{length.count:g} steps of {{global batch}}"
            raise InvalidFile(f"{source}: length: steps of which global batch? write `{steps}`, or give `global_batch`")
        return length.count * of
    if length.unit == "tokens":
        if sequence is None:
            raise InvalidFile(f"{source}: length: how many tokens has an example? add `sequence: 1024`")
        return length.count / sequence
    return length.count * examples if examples else None
