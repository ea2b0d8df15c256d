"""A job's pattern on its output: a regular expression whose named groups say which number is which.

    epoch (?P<epoch>\\d+) loss (?P<loss>\\S+) accuracy (?P<accuracy>\\S+)

`epoch` and the metric of the target must be named. A pattern whose only metric is `accuracy`
may stand for one of another name that rises too (`f1`), not for one that is nearly the same
word, which is a slip, and not for one that falls.
"""

from __future__ import annotations

import re

from cotune.errors import UsageError, suggestion
from cotune.reporting import TERMS
from cotune.types import Job


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
