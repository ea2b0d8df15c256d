"""Goals for traces that have none: an accuracy at which a job ends, and the time by which it should.

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
from functools import cached_property

import numpy as np

from cotune.cluster.policy import COUNTED, Nodes, Submission
from cotune.cluster.traces import Trace
from cotune.cluster.traces._application import Application
from cotune.cluster.traces._pollux import Epochs
from cotune.cluster.work import ConstantSpeed
from cotune.errors import UsageError
from cotune.types import Config


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
