"""What a forked worker has from its parent, put right."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

THREADS = """
import os, torch
from cotune.run.local.worker import set_threads

set_threads(torch, 5, openmp_alone={alone})
print(torch.get_num_threads(), len(os.listdir("/proc/self/task")))
"""


def threads(*, alone: bool) -> tuple[int, int]:
    """Return on how many threads operators run, and how many there are before any has run."""
    text = THREADS.format(alone=alone)
    told = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True).stdout.split()
    return int(told[0]), int(told[1])


def test_telling_openmp_alone_sets_the_threads_of_operators_and_makes_no_pool() -> None:
    count, made = threads(alone=True)
    by_torch, in_pool = threads(alone=False)
    assert count == by_torch == 5
    assert made < in_pool


TWO_LIBRARIES = """
import ctypes, shutil, sys, torch
from pathlib import Path
from cotune.run.local.worker import _OPENMP, set_threads

own = _OPENMP.search(Path("/proc/self/maps").read_text())[1]
ctypes.CDLL(shutil.copy(own, sys.argv[1]))
assert _OPENMP.search(Path("/proc/self/maps").read_text())[1] != own, "torch's is still the first"
set_threads(torch, 5, openmp_alone=True)
print(torch.get_num_threads())
"""


def test_threads_are_set_beside_the_openmp_of_another_library(tmp_path: Path) -> None:
    command = [sys.executable, "-c", TWO_LIBRARIES, str(tmp_path / "libgomp-other.so")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == "5\n", done.stderr


COLLAPSE = """
import mmap
from pathlib import Path
from cotune.run.local.worker import collapse_pages

def huge():
    rows = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return next(int(row.split()[1]) for row in rows if row.startswith("AnonHugePages"))

memory = mmap.mmap(-1, 16 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
memory.madvise(mmap.MADV_NOHUGEPAGE)
memory.write(b"1" * (16 << 20))
memory.madvise(mmap.MADV_HUGEPAGE)
before = huge()
collapse_pages()
print(huge() - before, memory[-1])
"""


LINUX = tuple(map(int, platform.release().split(".")[:2]))
HAS_HUGE_PAGES = LINUX >= (6, 1) and Path("/sys/kernel/mm/transparent_hugepage").exists()


@pytest.mark.skipif(not HAS_HUGE_PAGES, reason="needs Linux 6.1 with huge pages")
def test_small_pages_are_gathered_into_huge_ones() -> None:
    done = subprocess.run([sys.executable, "-c", COLLAPSE], capture_output=True, text=True, check=True, env=os.environ)
    gathered, last = done.stdout.split()
    assert int(gathered) >= 12 << 10  # kB: all but what is not aligned
    assert int(last) == ord("1")
