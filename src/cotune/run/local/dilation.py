"""A slower core: after its arithmetic a worker sleeps until it has taken as long as a share of a core would.

    wall time of a stretch of arithmetic = CPU time of the main thread / share

Arithmetic is settled before anything is sent, so that no message leaves too early or hides
in the sleep, and time spent waiting for others never pays for it. Settled are: gradients in
DistributedDataParallel (by a communication hook, around the job's own if it has one), every
collective and point-to-point call, every optimiser step, `cotune.report`, and
`torch.cpu.synchronize`, which a script may call to time itself as it would on a GPU.

The first steps, which build what later ones use, and all before them run at full speed. The
CPU time of messages, of other threads and of data-loader processes is not stretched.
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable
from typing import Any

WARM_UP_STEPS = 2
_COLLECTIVES = (
    *("all_reduce", "reduce", "broadcast", "barrier", "gather", "scatter", "send", "recv", "isend", "irecv"),
    *("all_gather", "all_gather_into_tensor", "reduce_scatter", "reduce_scatter_tensor", "all_to_all"),
    *("all_to_all_single", "all_gather_object", "broadcast_object_list", "monitored_barrier"),
)


class Dilation:
    """The clock of a worker on a share of a core; a link that is only modelled has `rate` bits per second."""

    def __init__(self, share: float, workers: int, rate: float | None = None) -> None:
        self.share = share
        self.steps = 0
        self._ring_seconds = 0.0 if rate is None else 2 * (workers - 1) / workers * 8 / rate  # per byte
        self._thread = threading.get_ident()
        self._finishing = False
        self._begin()

    def settle(self) -> None:
        """Sleep until the arithmetic so far has taken as long as it should."""
        if self.steps < WARM_UP_STEPS or threading.get_ident() != self._thread:
            return
        due = self._wall + (time.thread_time() - self._cpu) / self.share
        late = time.perf_counter() - due
        if late < 0:
            time.sleep(-late)
            late = min(time.perf_counter() - due, 0.001)  # what a sleep takes too long is made good later
            self._begin(late)
        else:
            self._begin()

    def waited(self, seconds: float) -> None:
        """Take out time spent waiting for others."""
        if threading.get_ident() == self._thread:
            self._wall += seconds

    def skip(self) -> None:
        """Begin anew: what came since the last stretch was waiting for data, at whatever speed it came."""
        if threading.get_ident() == self._thread:
            self._begin()

    def transfer(self, size: int) -> None:
        """Sleep as long as a ring of limited links would need for an all-reduce of so many bytes."""
        if self._ring_seconds and self.steps >= WARM_UP_STEPS:
            time.sleep(self._ring_seconds * size)

    def step(self) -> None:
        """Count an optimiser step, and settle it."""
        self.settle()
        self.steps += 1
        if self.steps <= WARM_UP_STEPS:
            self._begin()

    def send(self, bucket: Any, send: Callable[[], Any]) -> Any:
        """Settle, then send a bucket of gradients in the background; return its future."""
        self.settle()
        self.transfer(bucket.buffer().numel() * bucket.buffer().element_size())
        self._finishing = bool(bucket.is_last())
        return send().then(self._arrived)

    def _arrived(self, future: Any) -> Any:
        # After the last bucket a worker only waits: that time must not pay for its next arithmetic.
        if self._finishing:
            self._wall = time.perf_counter()
        return future.value()

    def _begin(self, late: float = 0.0) -> None:
        self._wall, self._cpu = time.perf_counter() - late, time.thread_time()


def install(dilation: Dilation) -> None:
    """Let torch, as this process sees it, settle wherever arithmetic ends."""
    import torch
    import torch.distributed as dist
    from torch.distributed import distributed_c10d
    from torch.optim import optimizer

    import cotune

    for name in _COLLECTIVES:
        if hasattr(distributed_c10d, name):
            # one function under both names: pipelines ask whether what they are given is `isend`
            settled = _settled(dilation, getattr(distributed_c10d, name))
            for module in (dist, distributed_c10d):
                setattr(module, name, settled)
    dist.Work.wait = _timed(dilation, dist.Work.wait)  # type: ignore[method-assign]
    torch.cpu.synchronize = _settled(dilation, torch.cpu.synchronize)
    cotune.report = _settled(dilation, cotune.report)
    optimizer.register_optimizer_step_pre_hook(lambda *_: dilation.settle())
    optimizer.register_optimizer_step_post_hook(lambda *_: dilation.step())
    _hook_ddp(dilation)


def _settled(dilation: Dilation, function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def settled(*args: Any, **kwargs: Any) -> Any:
        dilation.settle()
        return function(*args, **kwargs)

    return settled


def _timed(dilation: Dilation, wait: Callable[..., bool]) -> Callable[..., bool]:
    @functools.wraps(wait)
    def timed(*args: Any, **kwargs: Any) -> bool:
        began = time.perf_counter()
        try:
            return wait(*args, **kwargs)
        finally:
            dilation.waited(time.perf_counter() - began)

    return timed


def _hook_ddp(dilation: Dilation) -> None:
    """Register a communication hook in every DDP that is made; a hook of the job's own runs inside it."""
    from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
    from torch.nn.parallel import DistributedDataParallel as Parallel

    make, register = Parallel.__init__, Parallel.register_comm_hook

    @functools.wraps(make)
    def made(self: Any, *args: Any, **kwargs: Any) -> None:
        make(self, *args, **kwargs)
        self._cotune_hook = (self.process_group, allreduce_hook)
        register(self, self, hook)

    def hook(parallel: Any, bucket: Any) -> Any:
        state, inner = parallel._cotune_hook
        return dilation.send(bucket, lambda: inner(state, bucket))

    hook.__annotations__.clear()  # DDP reads them, and refuses words it does not know

    def registered(self: Any, state: Any, hook: Callable[..., Any]) -> None:
        self._check_comm_hook(hook)
        self._cotune_hook = (state, hook)

    Parallel.__init__ = made  # type: ignore[method-assign]
    Parallel.register_comm_hook = registered  # type: ignore[method-assign]
