"""A pattern that was written by hand, on a line that nobody has seen: searched for a second at most.

A pattern such as `(a+)+b` takes twice as long for each letter more; a line of 40 takes days. The
alarm of the system ends the search. Only a program's main thread can be told by it: in others a
line is cut to 200 letters, and searched without a limit.
"""

from __future__ import annotations

import re
import signal
import threading
from types import FrameType

SECONDS = 1.0
_MOST_LETTERS = 10_000
_MOST_UNTIMED = 200


class TooSlow(ValueError):
    """A pattern that takes more than its time on one line."""


def search(pattern: re.Pattern[str], line: str, seconds: float = SECONDS) -> re.Match[str] | None:
    """Return the first match in the first 10,000 letters of a line, or raise `TooSlow`."""
    if threading.current_thread() is not threading.main_thread():
        return pattern.search(line[:_MOST_UNTIMED])

    def stop(number: int, frame: FrameType | None) -> None:  # noqa: ARG001  # the system's own signature
        raise TooSlow(f"the pattern '{pattern.pattern[:80]}' takes more than {seconds:g} s on one line; simplify it")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        return pattern.search(line[:_MOST_LETTERS])
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
