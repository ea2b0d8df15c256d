"""Text of others on one line, and without power over a terminal or a file: control characters become visible.

    "x\\ntouch P #"  ▶  x\\x0atouch P #         "\\x1b[2J"  ▶  \\x1b[2J

A job's name, a metric or a worker's last words may hold line ends (which end a comment),
escape sequences (which move the cursor), marks that turn the reading direction (which show
another order than there is) and halves of letters (which no encoding can write).
"""

from __future__ import annotations

import unicodedata

_CONTROL = frozenset({"Cc", "Cs", "Zl", "Zp"})
_TURNING = frozenset("\u200e\u200f\u061c\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def printable(text: str, keep: str = "") -> str:
    """Return a text with its control characters, other than those kept, written as escapes."""
    if text.isprintable():
        return text
    return "".join(char if char in keep or not _acts(char) else _escaped(char) for char in text)


def is_printable(text: str) -> bool:
    """Return whether a text stands on one line and shows as it is."""
    return text.isprintable() or not any(map(_acts, text))


def _acts(char: str) -> bool:
    return unicodedata.category(char) in _CONTROL or char in _TURNING


def _escaped(char: str) -> str:
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
