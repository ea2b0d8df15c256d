"""Seconds that a training loop waits for its data, measured in scripts that nobody has edited.

    for batch in DataLoader(...)        the seconds inside each `next` are waiting

A loader of torch is timed from outside; `cotune.report` then tells the seconds since its last call as the term
`input`, unless the script tells its own. A loader that is ahead of the loop hands a batch over in microseconds, so
what is counted is what the loop really waits.

An emulated node may have a slow disk: every batch that a loader fetches, in whichever of its processes, then takes at
least its bytes over that rate.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from cotune.worker import report

_waited = 0.0


def install(disk: float | None = None, settle: Callable[[], None] = lambda: None) -> None:
    """Time every loader of this process; `disk` is what it may read, in bytes per second, if that is limited.

    `settle` is called when a batch is there: an emulated core must not count waiting as work.
    """
    from torch.utils.data import _utils, dataloader

    loader: Any = dataloader._BaseDataLoaderIter
    begin = loader.__next__

    def timed(self: Any) -> Any:
        global _waited  # noqa: PLW0603  # one loop trains in a process
        began = time.perf_counter()
        try:
            return begin(self)
        finally:
            _waited += time.perf_counter() - began
            settle()

    loader.__next__ = timed
    report.waited = taken
    if disk is not None:
        for fetcher in (_utils.fetch._MapDatasetFetcher, _utils.fetch._IterableDatasetFetcher):
            fetcher.fetch = _slowed(fetcher.fetch, disk)  # type: ignore[method-assign]


def taken() -> float:
    """Return the seconds waited since the last call."""
    global _waited
    seconds, _waited = _waited, 0.0
    return seconds


def _slowed(fetch: Callable[..., Any], disk: float) -> Callable[..., Any]:
    def fetched(self: Any, *args: Any) -> Any:
        began = time.perf_counter()
        batch = fetch(self, *args)
        time.sleep(max(0.0, _bytes(batch) / disk - (time.perf_counter() - began)))
        return batch

    return fetched


def _bytes(batch: Any) -> int:
    """Return the bytes of all tensors and arrays in a batch."""
    if isinstance(size := getattr(batch, "nbytes", None), int):
        return size
    if isinstance(batch, Mapping):
        return sum(map(_bytes, batch.values()))
    return sum(map(_bytes, batch)) if isinstance(batch, Iterable) and not isinstance(batch, str | bytes) else 0
