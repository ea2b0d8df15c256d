"""What can go wrong for a user, each kind with the exit code that scripts rely on.

    1 unexpected   2 usage       3 not found    4 invalid file or store
    5 infeasible   6 missed      7 engine       8 over budget   130 interrupted

The message says what was asked, what is nearest and what to do; `facts` carries what a caller would
otherwise have to parse out of the words. `remedy` names what helps, for whoever knows how that is done
where the error is read: the command line adds the flag (`remedies.py`).
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class CotuneError(Exception):
    """Something a user can act on."""

    exit_code = 1

    def __init__(self, message: str = "", *, remedy: str = "", **facts: object) -> None:
        super().__init__(message)
        self.remedy = remedy
        self.facts = facts


class UsageError(CotuneError):
    """A value that cannot be used: of a flag, a setting, or an argument of a function."""

    exit_code = 2


class NotFound(CotuneError):
    """A file, job, sample or algorithm that is not there."""

    exit_code = 3


class InvalidFile(CotuneError):
    """A file, recording or store that cannot be read as what it should be."""

    exit_code = 4


class Infeasible(CotuneError):
    """A goal that no config can meet: what binds, `by` how much of its unit, and the closest plans."""

    exit_code = 5

    def __init__(
        self,
        message: str,
        constraint: str = "",
        nearest: Iterable[object] = (),
        by: float | None = None,
        unit: str = "",
        *,
        remedy: str = "",
        **facts: object,
    ) -> None:
        super().__init__(message, remedy=remedy, **facts)
        self.constraint = constraint
        self.nearest = tuple(nearest)
        self.by = by
        self.unit = unit

    def document(self, nearest: Iterable[object]) -> dict[str, object]:
        """Return the facts, with the closest plans as documents."""
        by = None if self.by is None else {"value": self.by, "unit": self.unit}
        return {"constraint": self.constraint, "by": by, "nearest": list(nearest)}


class Missed(CotuneError):
    """A run that finished without meeting its target or deadline."""

    exit_code = 6


class EngineError(CotuneError):
    """A worker or the engine itself failed."""

    exit_code = 7


class OverBudget(CotuneError):
    """Measuring would cost more than was allowed, and nothing could be learnt."""

    exit_code = 8


class Interrupted(CotuneError):
    """Somebody pressed Ctrl-C."""

    exit_code = 130


def missing_extra(what: str, extra: str) -> NotFound:
    """Return the error that names the extra to install."""
    return NotFound(f"{what} is not installed: pip install 'cotune[{extra}]'")


def suggestion(word: str, known: Iterable[str]) -> str:
    """Return "; did you mean 'x'?" for the nearest known word, or nothing."""
    words = list(known)
    begun = sorted((other for other in words if len(word) > 2 and other.startswith(word)), key=len)
    near = begun or difflib.get_close_matches(word, words, n=1)
    return f"; did you mean {near[0]!r}?" if near else ""
