"""Input: shards handed out in turn, read and prefetched by the first stage.

    order of an epoch = a permutation of the shards, by seed and epoch
    lane l of n       = every n-th shard of that order, epoch after epoch, rows joined end to end
    batch             = equal parts of every lane, side by side

The coordinator (rank 0) lists the shards once and hands the list out. A lane belongs to one
unit, so a shard is read by one process only, and as the lanes are fixed the batches are the same however
many units share them. A source is any URL that fsspec opens, with wildcards or a folder
(`data/day-*.csv`, `s3://bucket/clicks/`, `hdfs://...`), or a made-up one such as `zipf`.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Any

import torch

from cotune.errors import CotuneError, EngineError, NotFound, missing_extra
from cotune.placement.pipeline.layers import Flow

Read = Callable[[str], Flow]
_AHEAD = 2  # pieces that wait ready in a lane


def listed(url: str, endings: Sequence[str]) -> list[str]:
    """Return the URLs of all shards that a URL names, in order of their names."""
    try:
        from fsspec.core import url_to_fs  # type: ignore[import-untyped]
    except ImportError:
        raise missing_extra("fsspec, which reads input shards,", "pipeline") from None
    try:
        system, path = url_to_fs(url)
        names = system.glob(path) if any(letter in path for letter in "*?[") else _below(system, path)
    except (ImportError, ValueError) as error:
        raise NotFound(f"cannot open {url}: {error}") from None
    except FileNotFoundError:
        names = []
    except OSError as error:
        raise NotFound(f"cannot list {url}: {error}") from None
    found = sorted(str(name) for name in names if str(name).endswith(tuple(endings)))
    if not found:
        raise NotFound(
            f"no shards at {url}; give a file, a folder or a pattern of files ending in {', '.join(endings)}"
        )
    return [system.unstrip_protocol(name) for name in found]


def _below(system: Any, path: str) -> list[str]:
    return list(system.find(path)) if system.isdir(path) else [path] if system.exists(path) else []


def rows_of_lane(shards: Sequence[str], read: Read, lane: int, lanes: int, seed: int) -> Iterator[Flow]:
    """Yield the shards of a lane without end, the whole list of them in a new order every epoch."""
    handed = 0
    for epoch in count():
        generator = torch.Generator().manual_seed(seed * 1_000_003 + epoch)
        for place in torch.randperm(len(shards), generator=generator).tolist():
            if handed % lanes == lane:
                yield read(shards[place])
            handed += 1


def pieces(flows: Iterator[Flow], sizes: Iterator[int]) -> Iterator[Flow]:
    """Yield the rows of all flows joined end to end, so many at a time."""
    rest = next(flows)
    for size in sizes:
        parts, missing = [], size
        while missing:
            taken = {name: column[:missing] for name, column in rest.items()}
            parts.append(taken)
            got = len(next(iter(taken.values())))
            missing -= got
            rest = {name: column[got:] for name, column in rest.items()} if missing == 0 else next(flows)
        yield parts[0] if len(parts) == 1 else joined(parts)


def joined(flows: Sequence[Flow]) -> Flow:
    """Return the rows of several flows, one after another."""
    return {name: torch.cat([flow[name] for flow in flows]) for name in flows[0]}


class Prefetched:
    """Batches of some lanes, read by a thread ahead of time."""

    def __init__(self, lanes: Sequence[Iterator[Flow]]) -> None:
        self._lanes = lanes
        self._ready: queue.Queue[Flow | Exception] = queue.Queue(_AHEAD)
        threading.Thread(target=self._read, daemon=True).start()

    def take(self) -> Flow:
        """Return the next batch's rows."""
        flow = self._ready.get()
        if isinstance(flow, CotuneError):
            raise flow
        if isinstance(flow, Exception):
            raise EngineError(f"the input cannot be read: {type(flow).__name__}: {flow}") from flow
        return flow

    def _read(self) -> None:
        try:
            for flows in zip(*self._lanes, strict=True):
                self._ready.put(flows[0] if len(flows) == 1 else joined(flows))
        except Exception as error:  # raised where the batch is wanted
            self._ready.put(error)
