"""What may stand as a name, a variable or a word of a job: it ends up in scripts, comments, tables and terminals.

    name        one line of at most 200 printable characters
    variable    letters, digits and _, as every shell takes it
    word        anything but NUL, which no program can be given

A job file is checked on reading; `require_exportable` does the same for a job that was made in Python.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from cotune.errors import UsageError
from cotune.safety.printable import is_printable, printable
from cotune.types import Job

MOST_LETTERS = 200
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def name(value: str) -> str:
    """Return a name of one printable line, or raise ValueError."""
    if not value.strip() or len(value) > MOST_LETTERS or not is_printable(value):
        raise ValueError(f"a name of 1 to {MOST_LETTERS} letters on one line, without control characters")
    return value


def folder(value: str) -> str:
    """Return a path that stands on one line, or raise ValueError."""
    if not is_printable(value):
        raise ValueError("a path without control characters")
    return value


def variable(value: str) -> str:
    """Return the name of an environment variable, or raise ValueError."""
    if not _VARIABLE.fullmatch(value):
        raise ValueError("the name of a variable: letters, digits and _, not beginning with a digit")
    return value


def word(value: str) -> str:
    """Return what a program can be given as an argument or a variable's value, or raise ValueError."""
    if "\0" in value or any(0xD800 <= ord(char) < 0xDC80 or 0xDCFF < ord(char) < 0xE000 for char in value):
        raise ValueError("text without NUL and without halves of letters")
    return value


def require_exportable(job: Job, axes: Iterable[str] = ()) -> None:
    """Refuse a job whose name, folder, variables or command a script cannot hold; axes reach it as variables."""
    for what, check, values in (
        ("name", name, (job.name,)),
        ("folder", folder, (job.folder,)),
        ("variable", variable, (*(key for key, _ in job.env), *axes)),
        ("value", word, tuple(value for _, value in job.env)),
        ("word of the command", word, job.command),
    ):
        for value in values:
            try:
                check(value)
            except ValueError as error:
                raise UsageError(f"the job's {what} {printable(repr(value))[:80]} cannot be written: {error}") from None
