"""Sharing a cluster over time so that deadlines are met: earliest deadline first, the least that suffices.

Time until the last deadline is cut at every deadline. Going by deadline, each job gets the
smallest share k with which it ends in time, taking in each stretch the largest of its
configs within k and within what earlier deadlines left free. A job that no share saves
gets what is left, as soon as possible (ElasticFlow's progressive filling).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from cotune.schedule import Active
from cotune.types import Config, Floats, Ints

Needs = Callable[[Active, Config], float]  # believed seconds to the end in a config


@dataclass(frozen=True)
class Share:
    """What a job gets now under a plan that meets its deadline, or does not."""

    active: Active
    config: Config | None
    met: bool


def choices(active: Active) -> tuple[Config, ...]:
    """Return the configs of a job, by units."""
    if active.belief is None:
        return (active.job.config,)
    return active.belief.configs


def seconds_left(active: Active, config: Config) -> float:
    """Return the believed time to the end in a config; a job past its forecast is taken to be near its end."""
    if active.belief is None:
        return max(active.left, 0.02 * active.total)
    whole = active.belief.seconds(0.0, config)
    return max(active.belief.seconds(active.done, config), 0.02 * whole)


def cautious(active: Active, config: Config, z: float) -> float:
    """Return the time to the end that is not exceeded with the probability of z standard deviations."""
    left = seconds_left(active, config)
    return left if not active.spread else left + (math.exp(z * active.spread) - 1.0) * (left + _passed(active, config))


def _passed(active: Active, config: Config) -> float:
    """Return the believed time that what is done would have taken in a config."""
    if active.belief is None:
        return max(active.done, 0.0)
    return max(active.belief.seconds(0.0, config) - active.belief.seconds(active.done, config), 0.0)


def fill(active: Sequence[Active], gpus: int, needs: Needs = seconds_left, *, eager: bool = False) -> list[Share]:
    """Return the shares of jobs with deadlines, in order of their deadlines; eager ones are as large as possible."""
    urgent = sorted(
        (job for job in active if math.isfinite(job.deadline_left)), key=lambda job: (job.deadline_left, job.number)
    )
    ends = np.unique(np.maximum([job.deadline_left for job in urgent], 0.0)) if urgent else np.zeros(0)
    stretch = np.diff(ends, prepend=0.0)
    free = np.full(len(ends), gpus, dtype=np.int64)
    return [_share(job, ends, stretch, free, (needs, eager)) for job in urgent]


def _share(job: Active, ends: Floats, stretch: Floats, free: Ints, how: tuple[Needs, bool]) -> Share:
    """Return a job's share, and take it from what is free."""
    needs, eager = how
    configs = sorted(choices(job), key=lambda config: (config.workers + config.servers, needs(job, config)))
    units = np.array([config.workers + config.servers for config in configs], dtype=np.int64)
    speed = np.array([1.0 / max(needs(job, config), 1e-9) for config in configs])
    best = _fastest_within(speed)
    last = int(np.searchsorted(ends, job.deadline_left - 1e-9)) + 1 if job.deadline_left > 0 else 0
    for most in np.unique(units)[:: -1 if eager else 1]:
        chosen = best[np.searchsorted(units, np.minimum(free[:last], most), side="right")]
        pace = np.where(chosen >= 0, speed[chosen], 0.0)
        done = np.cumsum(pace * stretch[:last])
        if len(done) and done[-1] >= 1.0 - 1e-9:
            until = int(np.searchsorted(done, 1.0 - 1e-9)) + 1
            taken = np.where(chosen[:until] >= 0, units[chosen[:until]], 0)
            free[:until] -= taken
            return Share(job, configs[chosen[0]] if chosen[0] >= 0 else None, met=True)
    if not len(free):
        return Share(job, None, met=False)
    chosen = best[np.searchsorted(units, free, side="right")]
    done = np.cumsum(np.where(chosen >= 0, speed[chosen], 0.0) * stretch)
    until = int(np.searchsorted(done, 1.0)) + 1
    free[:until] -= np.where(chosen[:until] >= 0, units[chosen[:until]], 0)
    return Share(job, configs[chosen[0]] if chosen[0] >= 0 else None, met=False)


def _fastest_within(speed: Floats) -> Ints:
    """Return, for each number of configs from none to all, which of the first so many is the fastest; -1 for none."""
    best = [-1]
    for place, value in enumerate(speed):
        best.append(place if best[-1] < 0 or value > speed[best[-1]] else best[-1])
    return np.array(best, dtype=np.int64)
