"""Python of others, read by one thread at a time, and within what its parser bears.

CPython 3.11 counts how deep a tree is in one place for all threads: two that parse at once may end each other with a
SystemError.
"""

from __future__ import annotations

import ast
import threading

from cotune.errors import InvalidFile

_ALONE = threading.Lock()


def parse(text: str, name: str) -> ast.Module:
    """Return the tree of a program; one that is nested too deeply to be read is its own fault, by its name."""
    try:
        with _ALONE:
            return ast.parse(text)
    except (RecursionError, MemoryError):
        raise InvalidFile(f"{name} is nested too deeply for Python to read") from None
