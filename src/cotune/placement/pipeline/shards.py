"""Input: shards handed out in turn, read and prefetched by the first stage.

    order of an epoch = a permutation of the shards, by seed and epoch
    lane l of n       = every n-th shard of that order, epoch after epoch, rows joined end to end
    batch             = equal parts of every lane, side by side

The coordinator (rank 0) lists the shards once and hands the list out. As the lanes are fixed, the batches are
the same however many units share them; where the units divide the lanes evenly, a shard is read by one process only.
A lane's place (shard and row) is all that is needed to go on where an earlier start ended. A source is any URL
that fsspec opens, with wildcards or a folder (`data/day-*.csv`, `s3://bucket/clicks/`, `hdfs://...`), or a made-up
one such as `zipf`.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Any
from urllib.parse import urlsplit

import torch

from cotune.errors import CotuneError, EngineError, NotFound, missing_extra
from cotune.placement.pipeline.checkpoint import LanePlace
from cotune.placement.pipeline.layers import Flow

Read = Callable[[str], Flow]
_AHEAD = 2  # pieces that wait ready in a lane
_WHOLE = slice(None)
_HDFS = ("hdfs", "webhdfs", "arrow_hdfs")


def listed(url: str, endings: Sequence[str]) -> list[str]:
    """Return the URLs of all shards that a URL names, in order of their names."""
    try:
        from fsspec.core import url_to_fs  # type: ignore[import-untyped]
    except ImportError:
        raise missing_extra("fsspec, which reads input shards,", "pipeline") from None
    scheme = urlsplit(url).scheme
    try:
        system, path = url_to_fs(url)
        names = system.glob(path) if any(letter in path for letter in "*?[") else _below(system, path)
    except (ImportError, ValueError) as error:
        if scheme in _HDFS and isinstance(error, ImportError):
            raise missing_extra(f"what opens {scheme}:// ({error.name or 'pyarrow'})", "hdfs") from None
        raise NotFound(f"cannot open {url}: {error}") from None
    except FileNotFoundError:
        names = []
    except OSError as error:
        hint = "; hdfs:// needs Hadoop's libhdfs here, webhdfs:// does not" if scheme == "hdfs" else ""
        raise NotFound(f"cannot list {url}: {error}{hint}") from None
    found = sorted(str(name) for name in names if str(name).endswith(tuple(endings)))
    if not found:
        raise NotFound(
            f"no shards at {url}; give a file, a folder or a pattern of files ending in {', '.join(endings)}"
        )
    host = urlsplit(url).netloc
    if scheme in _HDFS and host:  # which fsspec takes out of the names
        return [f"{scheme}://{host}{name}" for name in found]
    return [system.unstrip_protocol(name) for name in found]


def _below(system: Any, path: str) -> list[str]:
    return list(system.find(path)) if system.isdir(path) else [path] if system.exists(path) else []


def dealt(shards: Sequence[str], lane: int, lanes: int, seed: int, first: int = 0) -> Iterator[tuple[int, str]]:
    """Yield the shards of a lane without end, from the `first` that was ever handed out on, each with its number.

    The whole list of them comes in a new order every epoch.
    """
    for epoch in count(first // len(shards)):
        generator = torch.Generator().manual_seed(seed * 1_000_003 + epoch)
        for place, shard in enumerate(torch.randperm(len(shards), generator=generator).tolist()):
            number = epoch * len(shards) + place
            if number >= first and number % lanes == lane:
                yield number, shards[shard]


class Lane:
    """The rows of a lane joined end to end, so many at a time; of each piece `keep` alone is given."""

    def __init__(
        self, dealt: Iterator[tuple[int, str]], read: Read, rows: int, place: LanePlace, keep: slice = _WHOLE
    ) -> None:
        self.place = place
        self._dealt, self._read, self._rows, self._keep = dealt, read, rows, keep
        self._rest: Flow | None = None

    def __iter__(self) -> Iterator[Flow]:
        return self

    def __next__(self) -> Flow:
        parts, missing = [], self._rows
        while missing:
            rest = self._next()
            taken = {name: column[:missing] for name, column in rest.items()}
            got = len(next(iter(taken.values())))
            self._rest = {name: column[got:] for name, column in rest.items()}
            self.place = self.place._replace(row=self.place.row + got)
            if got:
                parts.append(taken)
                missing -= got
            if missing:
                self._rest = None
        whole = parts[0] if len(parts) == 1 else joined(parts)
        return {name: column[self._keep] for name, column in whole.items()}

    def _next(self) -> Flow:
        """Return what is left of the present shard, or the next one, less what a lane that goes on has had of it."""
        if self._rest is None:
            number, shard = next(self._dealt)
            had = self.place.row if number == self.place.shard else 0
            self._rest = {name: column[had:] for name, column in self._read(shard).items()}
            self.place = LanePlace(number, had)
        return self._rest


def joined(flows: Sequence[Flow]) -> Flow:
    """Return the rows of several flows, one after another."""
    return {name: torch.cat([flow[name] for flow in flows]) for name in flows[0]}


class Prefetched:
    """Batches of some lanes, read by a thread ahead of time; `places` is where each lane goes on after the last."""

    def __init__(self, lanes: Sequence[Lane]) -> None:
        self.places: tuple[LanePlace, ...] = tuple(lane.place for lane in lanes)
        self._lanes = lanes
        self._ready: queue.Queue[tuple[Flow, tuple[LanePlace, ...]] | Exception] = queue.Queue(_AHEAD)
        threading.Thread(target=self._read, daemon=True).start()

    def take(self) -> Flow:
        """Return the next batch's rows."""
        ready = self._ready.get()
        if isinstance(ready, CotuneError):
            raise ready
        if isinstance(ready, Exception):
            raise EngineError(f"the input cannot be read: {type(ready).__name__}: {ready}") from ready
        flow, self.places = ready
        return flow

    def _read(self) -> None:
        try:
            for flows in zip(*self._lanes, strict=True):
                flow = flows[0] if len(flows) == 1 else joined(flows)
                self._ready.put((flow, tuple(lane.place for lane in self._lanes)))
        except Exception as error:  # raised where the batch is wanted
            self._ready.put(error)
