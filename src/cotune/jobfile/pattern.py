"""A job's pattern on its output: a regular expression whose named groups say which number is which.

    epoch (?P<epoch>\\d+) loss (?P<loss>\\S+) accuracy (?P<accuracy>\\S+)

`epoch` and the metric of the target must be named. A pattern whose only metric is `accuracy`
may stand for one of another name that rises too (`f1`), not for one that is nearly the same
word, which is a slip, and not for one that falls.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from cotune.errors import UsageError, suggestion
from cotune.types import Job
from cotune.worker.report import TERMS

_EPOCH = re.compile(r"(?P<word>\b(?:epoch|pass|round|ep)s?\b[^\w.\n]{0,4})(?P<number>\d+(?:\.\d+)?)", re.IGNORECASE)
_VALUE = r"(?P<word>(?:(?:val|test|eval|dev)\w* )?[\w/]*{stem}[\w/]*[^\w.\n]{{1,4}})(?P<number>\d*\.?\d+)"
_STEM = 3  # letters by which a metric is known: acc, f1, los
_HELD_OUT = re.compile("val|test|eval|dev", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class SuggestedPattern:
    """A pattern that reads a line."""

    line: str
    pattern: str


def suggested(lines: Iterable[str], metric: str) -> SuggestedPattern | None:
    """Return a pattern for the first line that seems to tell an epoch and the metric, what was held out preferred."""
    value = re.compile(_VALUE.format(stem=re.escape(metric[:_STEM])), re.IGNORECASE)
    group = metric if metric.isidentifier() else "accuracy"
    for line in lines:
        epoch, values = _EPOCH.search(line), list(value.finditer(line))
        if epoch is None or not values:
            continue
        told = next((one for one in values if _HELD_OUT.search(one["word"])), values[0])
        count = r"[\d.]+" if "." in epoch["number"] else r"\d+"
        parts = {
            epoch.start(): f"{_literal(epoch['word'])}(?P<epoch>{count})",
            told.start(): rf"{_literal(told['word'])}(?P<{group}>[\d.]+)",
        }
        pattern = ".*".join(parts[place] for place in sorted(parts))
        found = re.search(pattern, line)
        if found and (found["epoch"], found[group]) == (epoch["number"], told["number"]):
            return SuggestedPattern(line.strip()[:80], pattern)
    return None


def _literal(text: str) -> str:
    """Return an expression for a text: any number of blanks for blanks, and no quotes, which shells and YAML read."""
    return re.sub("['\"]", ".", re.sub(r"(\\\s)+", r"\\s+", re.escape(text)))


def pattern_of(job: Job) -> re.Pattern[str] | None:
    """Return the pattern on a job's output, if it has one, checked for the groups it must name."""
    if not job.pattern:
        return None
    try:
        found = re.compile(job.pattern)
    except re.error as error:
        raise UsageError(f"the pattern '{job.pattern}' is not a regular expression: {error}") from None
    _require_metric(job, found.groupindex.keys() - {"epoch", *TERMS})
    if "epoch" not in found.groupindex:
        raise UsageError(_lacks(job.pattern, "epoch"))
    return found


def _require_metric(job: Job, named: set[str]) -> None:
    """Refuse a pattern that does not tell the job's metric."""
    metric = job.metric
    if metric in named:
        return
    if named == {"accuracy"}:
        near = "" if "accuracy" in metric else suggestion(metric, named)
        if near or job.better == "lower":
            group = f"; name the group of {metric} (?P<{metric}>...)" if metric.isidentifier() else ""
            raise UsageError(f"the pattern names accuracy, not {metric}{near or group}")
    elif named and metric != "accuracy":
        raise UsageError(f"the pattern names {', '.join(sorted(named))}, not {metric}{suggestion(metric, named)}")
    else:
        raise UsageError(_lacks(str(job.pattern), metric))


def _lacks(pattern: str, name: str) -> str:
    return f"the pattern '{pattern}' must name (?P<{name}>...), so that cotune knows which number is which"
