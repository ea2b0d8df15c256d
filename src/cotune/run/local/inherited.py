"""Settings that a worker inherits from the fork server, put right: a Python of its own would have others.

A program reads the settings of `malloc` and of OpenMP when it starts, and its memory is in as few pages as the kernel
sees fit. A fork has what its parent has: so a worker is told its settings and gathers its pages before its script runs.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

from cotune.run.processes import libc

_MALLOPT = {"MALLOC_TRIM_THRESHOLD_": -1, "MALLOC_MMAP_THRESHOLD_": -3}
_MADV_COLLAPSE = 25  # since Linux 6.1
_HUGE_PAGE = 2 << 20
_OPENMP = re.compile(r"(/.*/lib(?:gomp|iomp5|omp)[-.].*)")


def set_malloc(env: Mapping[str, str]) -> None:
    """Do what the variables of glibc's malloc say."""
    for name in _MALLOPT.keys() & env.keys():
        libc.mallopt(_MALLOPT[name], int(env[name]))


def set_threads(torch: ModuleType, count: int, *, openmp_alone: bool) -> None:
    """Let operators run on so many threads.

    `torch.set_num_threads` also makes a pool of its own, which every forked process of a `DataLoader` then makes anew:
    some 10 ms each. Telling OpenMP alone is enough for the main thread; operators of other threads keep the machine's
    number. A process may have several OpenMP libraries: where another one than torch's was told, torch is told itself.
    """
    if count == torch.get_num_threads():  # which torch settles when it is first asked
        return
    openmp = _OPENMP.search(Path("/proc/self/maps").read_text()) if openmp_alone else None
    if openmp is not None:
        ctypes.CDLL(openmp[1]).omp_set_num_threads(count)
    if torch.get_num_threads() != count:
        torch.set_num_threads(count)


def collapse_pages() -> None:
    """Gather small pages into huge ones, so that what this process forks has less to copy.

    It is advice, which older kernels do not take.
    """
    for line in Path("/proc/self/maps").read_text().splitlines():
        addresses, access, _, _, inode, *_ = line.split(maxsplit=5)
        begin, end = (int(address, 16) for address in addresses.split("-"))
        if access == "rw-p" and inode == "0" and end - begin >= _HUGE_PAGE:
            libc.madvise(ctypes.c_void_p(begin), ctypes.c_size_t(end - begin), _MADV_COLLAPSE)
