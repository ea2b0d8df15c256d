"""Clicks to learn from: 26 categories, 13 counts and a label in every row, as Criteo's logs have them.

    ids      1 + hash(slot, category) mod 1,000,000      0 where the category is missing
    dense    log(1 + count)                              0 where the count is missing or negative

`zipf` makes them up: category r of a slot is drawn in proportion to r^-1.1, and the label by a
logistic law of hidden weights, so that there is something to learn. `criteo` is the sample in the
folder named by COTUNE_DATA. Anything else is a URL of CSV or npz shards.
"""

from __future__ import annotations

import csv
import io
import os
import re
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from cotune.errors import InvalidFile, NotFound
from cotune.placement.pipeline.layers import Flow
from cotune.placement.pipeline.shards import listed
from cotune.safety import gzipped

COLUMNS = ("ids", "dense", "label")
SLOTS, COUNTS = 26, 13
TABLE_ROWS = 1_000_001
ENDINGS = (".csv", ".csv.gz", ".npz")
_ZIPF = re.compile(r"zipf(?::(\d+)(?:x(\d+))?)?")
_POWER = 1.1
_CATEGORIES = 100_000  # of each slot
_KEPT = 64  # made-up shards that stay in memory

Ids = npt.NDArray[np.int64]


def shards_of(source: str) -> list[str]:
    """Return the shards of `zipf`, `zipf:SHARDSxROWS`, `criteo` or a URL."""
    if asked := _ZIPF.fullmatch(source):
        shards, rows = int(asked[1] or 16), int(asked[2] or 8192)
        return [f"zipf:{rows}:{shard}" for shard in range(shards)]
    return listed(_sample() if source == "criteo" else source, ENDINGS)


def _sample() -> str:
    folder = os.environ.get("COTUNE_DATA")
    named = [Path(folder) / "criteo-sample", Path(folder)] if folder else []
    for path in (path / "criteo_sample.csv" for path in named):
        if path.is_file():
            return str(path)
    raise NotFound("no Criteo sample: set COTUNE_DATA to the folder that holds criteo-sample/criteo_sample.csv")


def read(shard: str) -> Flow:
    """Return the columns of one shard."""
    if shard.startswith("zipf:"):
        _, rows, number = shard.split(":")
        return made_up(int(rows), int(number))
    import fsspec  # type: ignore[import-untyped]

    with fsspec.open(shard, "rb") as file:
        data: bytes = file.read()
    return _npz(data, shard) if shard.endswith(".npz") else _csv(data, shard)


@lru_cache(_KEPT)
def made_up(rows: int, number: int) -> Flow:
    """Return made-up clicks, the same for the same number."""
    rng = np.random.default_rng(number)
    # The inverse of the cumulative sum of r^-p, taken as an integral.
    span = _CATEGORIES ** (1 - _POWER) - 1
    drawn = (1 + rng.random((rows, SLOTS)) * span) ** (1 / (1 - _POWER))
    ids = hashed(drawn.astype(np.int64), np.arange(SLOTS))
    counts = rng.geometric(0.2, (rows, COUNTS)) - 1
    dense = np.log1p(counts).astype(np.float32)
    hidden = (hashed(ids, 99) % 2001 / 1000 - 1)[:, : SLOTS // 2].sum(axis=1) * 0.7
    chance = 1 / (1 + np.exp(-(hidden + dense[:, :4].sum(axis=1) - 6)))
    return _flow(ids, dense, (rng.random(rows) < chance).astype(np.int64))


def hashed(values: Ids, salt: Ids | int) -> Ids:
    """Return ids between 1 and 1,000,000 that look random and are always the same (splitmix64)."""
    salts = np.atleast_1d(np.asarray(salt, dtype=np.uint64)) + np.uint64(1)
    mixed = values.astype(np.uint64) + salts * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed ^= mixed >> np.uint64(31)
    found: Ids = (1 + mixed % np.uint64(TABLE_ROWS - 1)).astype(np.int64)
    return found


def _csv(data: bytes, name: str) -> Flow:
    text = gzipped.decompress(data) if name.endswith(".gz") else data
    lines = list(csv.reader(io.StringIO(text.decode())))
    if lines and lines[0][:1] == ["label"]:
        lines = lines[1:]
    if not lines or any(len(line) != 1 + COUNTS + SLOTS for line in lines):
        raise InvalidFile(f"{name}: every line must have a label, {COUNTS} counts and {SLOTS} categories")
    try:
        label = np.array([int(line[0]) for line in lines])
        counts = np.array([[float(word or 0) for word in line[1 : 1 + COUNTS]] for line in lines])
        words = np.array([[int(word or "0", 16) for word in line[1 + COUNTS :]] for line in lines])
    except ValueError as error:
        raise InvalidFile(f"{name}: {error}") from None
    ids = np.where(words > 0, hashed(words, np.arange(SLOTS)), 0)
    return _flow(ids, np.log1p(np.maximum(counts, 0)).astype(np.float32), label)


def _npz(data: bytes, name: str) -> Flow:
    with np.load(io.BytesIO(data)) as columns:
        if missing := set(COLUMNS) - set(columns.files):
            raise InvalidFile(f"{name}: has no column {', '.join(sorted(missing))}")
        return _flow(columns["ids"], columns["dense"], columns["label"])


def _flow(ids: Ids, dense: npt.NDArray[np.float32], label: Ids) -> Flow:
    return dict(zip(COLUMNS, (torch.from_numpy(column) for column in (ids, dense, label)), strict=True))
