"""A trace under other circumstances: only a stretch of it, the same jobs coming faster, or with goals that it lacks.

Load       every gap between two submissions is divided by it; run times stay, and a deadline keeps its distance
           from the submission. A load of 1.5 is one and a half times as much work in the same time.
Window     the jobs submitted from one time to before another: seconds or durations on the trace's clock, or dates
           where the trace has dates (sacct). What ran before it began is not there.
Target      of an application: the best accuracy of the batch that learnt least, so that every recorded
            batch gets there. A job ends at the first recorded evaluation that meets it. It has the same
            part of the way behind it whatever the batch, so that the batch may change on the way:

                part done per second = 1 / (steps to the target at this batch * seconds of a step)

Deadline    submission + run time as asked for * a factor drawn evenly between two limits, which is
            the rule of ElasticFlow's authors for ITP's jobs (0.5 and 1.5).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property

import numpy as np

from cotune.cluster.policy import COUNTED, Nodes, Submission
from cotune.cluster.traces import Trace
from cotune.cluster.traces._application import Application
from cotune.cluster.traces._pollux import Epochs
from cotune.cluster.work import ConstantSpeed
from cotune.errors import InvalidFile, UsageError
from cotune.types import Config
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


@dataclass(frozen=True)
class ToTarget(ConstantSpeed):
    """A job of some application that ends at an accuracy."""

    application: Application
    batch: int
    target: float

    @property
    def total(self) -> float:
        return 1.0

    @cached_property
    def configs(self) -> tuple[Config, ...]:
        return self.application.layouts(self.batch)

    @cached_property
    def recipes(self) -> tuple[Config, ...]:
        """Return, for each number of GPUs, the batch that gets to the target soonest on them."""
        quickest: dict[int, Config] = {}
        for config in (config for batch in self.application.curves for config in self.application.layouts(batch)):
            best = quickest.setdefault(config.workers, config)
            if self.rate(config) > self.rate(best):
                quickest[config.workers] = config
        return tuple(quickest.values())

    def rate(self, config: Config, nodes: Nodes = COUNTED, done: float = 0.0) -> float:  # noqa: ARG002  # as `Work` asks
        steps = self.application.steps_to(self.target, config.global_batch)
        return 1.0 / (steps * self.application.seconds(config, nodes))


def with_targets(trace: Trace) -> Trace:
    """Return the trace with a target for every job whose learning curves are known."""
    jobs = tuple(_to_target(job, job.work) if isinstance(job.work, Epochs) else job for job in trace.jobs)
    if jobs == trace.jobs:
        raise UsageError(f"no job of {trace.path} has learning curves to take a target from; Pollux's workloads have")
    return replace(trace, jobs=jobs)


def _to_target(job: Submission, epochs: Epochs) -> Submission:
    work = ToTarget(epochs.application, epochs.batch, epochs.application.common_target)
    return replace(job, work=work, seconds=work.seconds(0.0, job.config))


def with_deadlines(trace: Trace, least: float, most: float, seed: int = 0) -> Trace:
    """Return the trace with a deadline for every job that has none and would end."""
    factors = np.random.default_rng(seed).uniform(least, most, len(trace.jobs)).tolist()
    return replace(
        trace,
        jobs=tuple(
            replace(job, deadline=job.submit + factor * job.seconds)
            if job.deadline is None and job.seconds < math.inf
            else job
            for job, factor in zip(trace.jobs, factors, strict=True)
        ),
    )
