"""What a worker took of memory at most, and what it could have had: each rank leaves both beside its record.

    CPU    peak resident set, less what was          of  (machine or cgroup, less that) / processes
           inherited: workers share those pages          that share it
           peak address space, where it is limited   of  that limit (ulimit -v), if it is the smaller one
    GPU    most that torch's allocator has reserved  of  the device x the share that is this process's

It is read once, as the process ends: by itself; by its parent, from what the system counted, where it
was killed or had become another program. A GPU's memory is known to the process alone.
"""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cotune.run.local.messages import write_whole

_CGROUPS = Path("/sys/fs/cgroup")
_WHOLE = 100  # per cent of a GPU
_LEAST = 1 << 20  # bytes that any process has of its own


@dataclass(frozen=True, slots=True)
class Memory:
    """The most bytes that a worker took, of those it could have had."""

    peak_bytes: int
    limit_bytes: int

    def write(self, folder: str | Path, rank: int) -> None:
        write_whole(_path(folder, rank), json.dumps(asdict(self)))

    @classmethod
    def read(cls, folder: str | Path, rank: int) -> Memory | None:
        """Return what a rank has left, or None."""
        path = _path(folder, rank)
        return cls(**json.loads(path.read_text())) if path.exists() else None


def most(folder: str | Path, ranks: int) -> Memory | None:
    """Return the memory of the rank that took the most, as far as any has told."""
    known = [found for rank in range(ranks) if (found := Memory.read(folder, rank)) is not None]
    return max(known, key=lambda memory: memory.peak_bytes, default=None)


def of_this_process(sharing: int, inherited: int = 0) -> Memory:
    """Return the memory of this process, which shares its machine with so many, itself included.

    The bytes it inherited from its parent are there once for all of them.
    """
    torch = sys.modules.get("torch")
    on_gpu = _on_gpu(torch) if torch is not None and torch.cuda.is_initialized() else None
    if on_gpu is not None:
        return on_gpu
    resident = as_counted(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, sharing, inherited)
    addresses, _ = resource.getrlimit(resource.RLIMIT_AS)
    if addresses == resource.RLIM_INFINITY or addresses > resident.limit_bytes:
        return resident
    return Memory(_status_bytes("VmPeak"), addresses)


def leave_behind(folder: str, rank: int, env: Mapping[str, str], counted: Memory) -> None:
    """Write what the system counted of a process that left no word of its memory; it knows nothing of a GPU's."""
    if not env.get("CUDA_VISIBLE_DEVICES") and not _path(folder, rank).exists():
        counted.write(folder, rank)


def as_counted(peak_bytes: int, sharing: int, inherited: int = 0) -> Memory:
    """Return the memory of another process whose peak the system has counted."""
    return Memory(max(peak_bytes - inherited, _LEAST), (machine_bytes() - inherited) // sharing)


def resident_bytes() -> int:
    """Return what of this process is in memory now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def tell_before_sigterm(folder: str, rank: int, sharing: int) -> None:
    """Let this process leave word of its memory when it is asked to end, unless the script does otherwise."""
    own = os.getpid()

    def leave(number: int, _: object) -> None:
        torch = sys.modules.get("torch")
        if os.getpid() == own and torch is not None and torch.cuda.is_initialized():  # not in a child of the script
            of_this_process(sharing).write(folder, rank)
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    signal.signal(signal.SIGTERM, leave)


def machine_bytes() -> int:
    """Return the memory of this machine, or what the control groups around this process leave of it."""
    return min(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), *_cgroup_limits())


def _on_gpu(torch: Any) -> Memory | None:
    """Return what torch's allocator took of the GPU it used most, or None where it used none."""
    cuda = torch.cuda
    device = max(range(cuda.device_count()), key=cuda.max_memory_reserved)
    peak = cuda.max_memory_reserved(device)
    if peak == 0:
        return None
    slice_ = int(os.environ.get("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", _WHOLE)) / _WHOLE
    share = min(slice_, cuda.get_per_process_memory_fraction(device))
    return Memory(peak, int(cuda.get_device_properties(device).total_memory * share))


def _cgroup_limits() -> Iterator[int]:
    """Yield the limits of this process's control groups and of those above them; both versions."""
    yield sys.maxsize
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, kinds, own = line.split(":", 2)
        if kinds and "memory" not in kinds.split(","):
            continue
        top, name = (_CGROUPS / "memory", "memory.limit_in_bytes") if kinds else (_CGROUPS, "memory.max")
        inner = Path(own.lstrip("/"))
        for group in (inner, *inner.parents):
            try:
                said = (top / group / name).read_text().strip()
            except OSError:  # a container sees its own group as the top
                continue
            if said.isdigit():
                yield int(said)


def _status_bytes(name: str) -> int:
    found = re.search(rf"^{name}:\s+(\d+) kB$", Path("/proc/self/status").read_text(), re.MULTILINE)
    assert found is not None, f"the system does not tell {name}"
    return int(found[1]) * 1024


def _path(folder: str | Path, rank: int) -> Path:
    return Path(folder) / f"rank-{rank}.memory.json"
