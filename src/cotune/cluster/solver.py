"""Solvers that keep to themselves: HiGHS writes debug lines of its own to the process's standard output.

They would stand in the middle of a JSON document, so while a solver runs, the file behind standard output is another.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Iterator

_ONE_AT_A_TIME = threading.Lock()
_STDOUT = 1


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    """Let nothing that a library's native code prints reach standard output."""
    with _ONE_AT_A_TIME:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
        before, nothing = os.dup(_STDOUT), os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, _STDOUT)
        try:
            yield
        finally:
            os.dup2(before, _STDOUT)
            os.close(before)
            os.close(nothing)
