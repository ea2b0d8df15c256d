"""A trace under other circumstances: only a stretch of it, or the same jobs coming faster.

Load       every gap between two submissions is divided by it; run times stay, and a deadline keeps its distance
           from the submission. A load of 1.5 is one and a half times as much work in the same time.
Window     the jobs submitted from one time to before another: seconds or durations on the trace's clock, or dates
           where the trace has dates (sacct). What ran before it began is not there.
"""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, datetime

from cotune.cluster.traces import Trace
from cotune.errors import InvalidFile, UsageError
from cotune.units import seconds

_EXAMPLE = "write --window 0..7d, --window 86400..172800, or dates such as 2020-03-01..2020-03-08"


def loaded(trace: Trace, load: float) -> Trace:
    """Return the trace with its jobs coming so many times as fast."""
    if not 0 < load < math.inf:
        raise UsageError(f"--load {load:g} must be positive: 1.5 is half as much again")
    first = min(job.submit for job in trace.jobs)
    jobs = []
    for job in trace.jobs:
        submit = first + (job.submit - first) / load
        deadline = None if job.deadline is None else submit + (job.deadline - job.submit)
        jobs.append(replace(job, submit=submit, deadline=deadline))
    return replace(trace, jobs=tuple(jobs))


def windowed(trace: Trace, window: str) -> Trace:
    """Return the jobs that are submitted in a stretch of time, written begin..end; either may be left open."""
    begin_text, dots, end_text = window.partition("..")
    if not dots:
        begin_text, dots, end_text = window.partition(":")
    if not dots or not (begin_text.strip() or end_text.strip()):
        raise UsageError(f"cannot read --window {window!r}; {_EXAMPLE}")
    begin = _moment(begin_text.strip(), trace, -math.inf)
    end = _moment(end_text.strip(), trace, math.inf)
    if not begin < end:
        raise UsageError(f"--window {window} ends before it begins")
    jobs = tuple(job for job in trace.jobs if begin <= job.submit < end)
    if not jobs:
        first, last = (pick(job.submit for job in trace.jobs) for pick in (min, max))
        raise InvalidFile(f"{trace.path} has no job in --window {window}; its jobs come from {first:g} to {last:g} s")
    return replace(trace, jobs=jobs)


def _moment(text: str, trace: Trace, otherwise: float) -> float:
    """Return seconds on the trace's clock."""
    if not text:
        return otherwise
    date = _date(text)
    if date is None:
        return 0.0 if text in ("0", "0s") else seconds(text)
    if trace.zero is None:
        raise UsageError(f"{trace.path} has no dates, only seconds since its start; {_EXAMPLE}")
    return (date - trace.zero).total_seconds()


def _date(text: str) -> datetime | None:
    if text.isdigit():
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)
