"""How large a cluster has to be: the smallest of a range on which a condition holds.

    met >= 0.95 and waiting_p99 < 2h

More GPUs usually help, so the range is halved again and again. Usually is not always (a larger cluster may admit a job
that then crowds out two), so two more sizes are tried, one on either side of the answer; where a smaller one holds or a
larger one does not, that is said, and the answer is the smallest size from which on all that were tried hold.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from cotune.cluster.policies.orders import Fifo
from cotune.cluster.policy import Submission
from cotune.cluster.simulate.metrics import metrics
from cotune.cluster.simulate.outcome import simulate
from cotune.errors import UsageError, suggestion
from cotune.types import Cluster, Device
from cotune.units import seconds

_COMPARISON = re.compile(r"([a-z_.0-9]+)\s*(>=|<=|>|<|==)\s*(\S+)")
_OPERATORS: Mapping[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
    "==": operator.eq,
}
_SHORT = {"met": "deadlines.met_share", "use": "utilisation", "left": "unfinished"}
_EXAMPLE = "write --find 'met >= 0.95', or 'met >= 95% and waiting_p99 < 2h'"


@dataclass(frozen=True)
class Condition:
    """What is asked of a schedule: numbers of its metrics compared with limits, all of which must hold."""

    text: str
    parts: tuple[tuple[str, str, float], ...]  # metric, operator, limit

    @classmethod
    def parse(cls, text: str) -> Condition:
        """Return a condition as it is written."""
        return cls(text, tuple(_part(part.strip(), text) for part in re.split(r"\band\b|,", text)))

    def holds(self, values: Mapping[str, float | None]) -> bool:
        """Return whether the metrics of a schedule meet it; one that nobody has (no job ended) does not."""
        found = ((values.get(name), compare, limit) for name, compare, limit in self.parts)
        return all(value is not None and _OPERATORS[compare](value, limit) for value, compare, limit in found)

    @property
    def on_deadlines(self) -> bool:
        """Return whether it looks at what only jobs with deadlines have."""
        return any(name.startswith("deadlines.") for name in self.names)

    @property
    def names(self) -> tuple[str, ...]:
        """Return the metrics that it looks at."""
        return tuple(dict.fromkeys(name for name, *_ in self.parts))


def _part(part: str, whole: str) -> tuple[str, str, float]:
    found = _COMPARISON.fullmatch(part)
    if found is None:
        raise UsageError(f"cannot read --find {whole!r}; {_EXAMPLE}")
    name = _SHORT.get(found[1], found[1])
    if name not in known_metrics():
        near = suggestion(found[1], [*_SHORT, *known_metrics()])
        raise UsageError(f"no metric {found[1]!r} to find by{near}; docs/scheduling.md lists them, and met, use, left")
    return name, found[2], _limit(found[3], whole)


def _limit(text: str, whole: str) -> float:
    try:
        return float(text[:-1]) / 100.0 if text.endswith("%") else float(text)
    except ValueError:
        pass
    try:
        return seconds(text)
    except UsageError:
        raise UsageError(f"cannot read {text!r} in --find {whole!r}; {_EXAMPLE}") from None


@cache
def known_metrics() -> tuple[str, ...]:
    """Return the names of all metrics that are numbers, those within others after a dot."""
    job = Submission("job", 0.0, 1, 1.0, deadline=2.0)
    return tuple(flat(metrics(simulate([job], Cluster((Device("gpu", 1),)), Fifo()))))


def flat(values: Mapping[str, Any], before: str = "") -> dict[str, float | None]:
    """Return the numbers of a document by name, those within others after a dot."""
    found: dict[str, float | None] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            found |= flat(value, f"{before}{name}.")
        elif value is None or isinstance(value, int | float):
            found[before + name] = value
    return found


@dataclass(frozen=True)
class Trial:
    """One size that was tried, and what came out."""

    place: int
    size: str
    holds: bool
    values: Mapping[str, float | None] = field(repr=False)


@dataclass(frozen=True)
class SmallestSize:
    """The smallest size that is enough, None where none is, and all that was tried, in order of size."""

    smallest: Trial | None
    tried: tuple[Trial, ...]
    monotone: bool  # whether nothing smaller that was tried holds, and everything larger does


def smallest(
    sizes: Sequence[str], condition: Condition, play: Callable[[str], Mapping[str, float | None]]
) -> SmallestSize:
    """Return the smallest of some sizes, in order, on which a condition holds."""
    tried: dict[int, Trial] = {}

    def holds(place: int) -> bool:
        if place not in tried:
            values = play(sizes[place])
            tried[place] = Trial(place, sizes[place], condition.holds(values), values)
        return tried[place].holds

    low, high = -1, len(sizes) - 1
    if not holds(high):
        return SmallestSize(None, tuple(tried.values()), monotone=True)
    if holds(0):
        high = 0
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    for place in {high // 2, (high + len(sizes)) // 2} - {len(sizes)}:
        holds(place)
    ordered = tuple(tried[place] for place in sorted(tried))
    failing = [trial.place for trial in ordered if not trial.holds]
    enough = next(trial for trial in ordered if trial.place > max(failing, default=-1))
    return SmallestSize(enough, ordered, monotone=not any(one.holds and one.place < enough.place for one in ordered))
