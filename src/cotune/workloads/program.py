"""What the programs that workers run have in common: whole numbers on the command line, one line for an error."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

from cotune.errors import CotuneError


def positive(text: str) -> int:
    """Return the whole number in a word, for argparse."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is not at least 1")
    return number


def exit_code(name: str, work: Callable[[], None]) -> int:
    """Do the work and return the exit code; an error that a user can act on is said in one line."""
    try:
        work()
    except CotuneError as error:
        print(f"{name}: {error}", file=sys.stderr, flush=True)
        return error.exit_code
    return 0
