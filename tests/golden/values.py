"""Where two documents say something different."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from golden.normal import type_of

_WITHIN = 1e-6  # of a number: what other versions of numpy and scipy may change
# For people: its words may be bettered.
_PROSE = frozenset(
    (
        *("message", "reason", "notes", "words", "summary", "warning", "blocked_by", "change", "missed"),
        *("known_from", "left_out", "left_out_lines"),
    )
)


def differences(golden: Any, value: Any, place: str) -> Iterator[tuple[str, str]]:
    """Yield where a value is not the golden one; keys that are new do not count."""
    if type_of(golden) != type_of(value):
        yield place, f"{value!r}, not {golden!r}"
    elif isinstance(golden, dict):
        for key in golden:
            if key not in value:
                yield f"{place}.{key}", "gone"
            elif key not in _PROSE or isinstance(golden[key], int | float):
                yield from differences(golden[key], value[key], f"{place}.{key}")
    elif isinstance(golden, list):
        if len(golden) != len(value):
            yield place, f"{len(value)} entries, not {len(golden)}"
        for number, (one, other) in enumerate(zip(golden, value, strict=False)):
            yield from differences(one, other, f"{place}[{number}]")
    elif not (golden == value or (isinstance(golden, float) and math.isclose(golden, value, rel_tol=_WITHIN))):
        yield place, f"{value!r}, not {golden!r}"
