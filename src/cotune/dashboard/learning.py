"""Outlooks of the jobs in a store, fitted once and kept until something new was measured.

    key = the job, its last sample, how many have ended, its latest plan

What a plan was chosen from is in the store with it. A job without such a plan is looked at
in the range that was measured, on devices without prices. Of a job with very many samples
the newest of each config and global batch are learnt from, which is said.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from cotune.checkpoints import joined
from cotune.errors import NotFound
from cotune.forecast import Outlook
from cotune.predict.evidence import Evidence
from cotune.predict.history import History
from cotune.predict.samples import trusted
from cotune.project.planner import Planner
from cotune.space import Axis, Space
from cotune.store import Store, StoredPlan
from cotune.store.views import JobSummary, SampleLimits, telling_samples
from cotune.types import Cluster, Device, Goal, Job, Sample

# A first fit of 200 samples takes 0.5 s of CPU, and 100,000 of 192 configs open in 1.0 s (benchmarks/dashboard.py).
CHOICE = SampleLimits(per_config=3, per_batch=2, curves=60, most=200)


@dataclass(frozen=True)
class Learnt:
    """A job with its outlook over a space, ready for any question."""

    planner: Planner
    samples: tuple[Sample, ...]
    plans: tuple[StoredPlan, ...]
    assumed: bool  # whether space and cluster had to be read off the samples
    seconds_range: tuple[float, float]
    accuracy_range: tuple[float, float] | None  # of the metric, worst first; None where no target can be judged


class Learner:
    """Learns each job once for what the store holds; safe to ask from several threads.

    When something new was measured, what was learnt before is answered with until the new is
    ready: a question never waits for a fit, except for the first one.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self.revision = 0  # counts what was learnt
        self.fitting: list[threading.Thread] = []
        self._known: dict[str, tuple[object, Learnt]] = {}
        self._locks: dict[str, threading.Lock] = defaultdict(threading.Lock)

    def latest(self, key: str) -> Learnt | None:
        """Return what was learnt last of a job, if anything was."""
        return self._known[key][1] if key in self._known else None

    def __call__(self, key: str, job: JobSummary) -> Learnt:
        """Return what is known of a job, and see to it that it will be up to date."""
        mark = (job.samples, job.growing, job.plans, job.last_started)
        if key not in self._known:
            self._learn(key, job, mark)
        elif self._known[key][0] != mark and not self._locks[key].locked():
            fit = threading.Thread(target=self._learn, args=(key, job, mark), daemon=True)
            self.fitting = [*(thread for thread in self.fitting if thread.is_alive()), fit]
            fit.start()
        return self._known[key][1]

    def _learn(self, key: str, job: JobSummary, mark: object) -> None:
        with self._locks[key]:
            if key in self._known and self._known[key][0] == mark:
                return
            self._known[key] = mark, learn(self.store, job)
            self.revision += 1


def learn(store: Store, job: JobSummary) -> Learnt:
    """Return the outlook of a job from all that is known of it."""
    used, words = _selected(store, job)
    timed = [sample for sample in trusted(used) if sample.tells_pace]
    if not timed:
        raise NotFound(f"nothing was measured of {job.name} yet: cotune profile measures it")
    plans = store.plans(job, last=50)
    chosen = next((plan for plan in plans if plan.space is not None and plan.cluster is not None), None)
    space, cluster = (chosen.space, chosen.cluster) if chosen else (None, None)
    if space is None or cluster is None:
        space, cluster = _measured_space(timed), _measured_cluster(timed)
    goal = plans[0].plan.goal if plans else Goal()
    definition = job.definition
    evidence = Evidence(used, History.of(definition, cluster, store.alike(definition)) or None)
    judged = space.global_batch is None and evidence.tells_accuracy(definition, goal)
    question = _Question(definition, goal if judged else replace(goal, target=None), space, cluster)
    planner = Planner.learn(question, evidence, with_accuracy=judged)
    if words:
        planner = replace(planner, outlook=replace(planner.outlook, notes=(*planner.outlook.notes, words)))
    return Learnt(
        planner=planner,
        samples=used,
        plans=plans,
        assumed=chosen is None,
        seconds_range=_seconds_range(planner.outlook, goal),
        accuracy_range=_accuracy_range(definition, planner.outlook, goal) if judged else None,
    )


@dataclass(frozen=True, slots=True)
class _Question:
    """A job of the store with what was asked of it last."""

    job: Job
    goal: Goal
    space: Space
    cluster: Cluster


def _selected(store: Store, job: JobSummary) -> tuple[tuple[Sample, ...], str]:
    """Return what to learn from, and what to say where that is not everything; very many are not even read."""
    if job.samples <= CHOICE.most:
        return tuple(joined(store.samples(job))), ""
    chosen = joined(telling_samples(store, job, CHOICE))
    curves = 0
    kept: list[Sample] = []
    for sample in reversed(chosen):
        few = curves < CHOICE.curves or sample.purpose == "run"
        kept.append(sample if few or not sample.curve else replace(sample, curve=(), accuracy=None))
        curves += bool(sample.curve)
    return tuple(reversed(kept)), f"learnt from the newest {len(kept)} of {job.samples} samples"


def _measured_space(samples: Sequence[Sample]) -> Space:
    """Return worker counts up to the most measured, and the batch sizes and devices that were."""
    most = max(sample.config.workers for sample in samples)
    workers = tuple(range(1, most + 1)) if most <= 64 else tuple(sorted({sample.config.workers for sample in samples}))
    batches = tuple(sorted({sample.config.batch_size for sample in samples}))
    devices = tuple(sorted({sample.config.device for sample in samples}))
    return Space((Axis("workers", workers), Axis("batch_size", batches), Axis("device", devices)))


def _measured_cluster(samples: Sequence[Sample]) -> Cluster:
    return Cluster(tuple(Device(name) for name in sorted({sample.config.device for sample in samples})))


def _seconds_range(outlook: Outlook, goal: Goal) -> tuple[float, float]:
    """Return the times between which a deadline makes a difference, with the one that was asked for."""
    able = np.isfinite(outlook.epoch_seconds)
    each = outlook.epoch_seconds[able] + outlook.overhead[able]
    if not len(each):
        return 1.0, 3600.0
    begin = float(outlook.startup[able].min())
    low, high = begin + float(each.min()), begin + float(each.max()) * goal.max_epochs * 1.5
    asked = goal.deadline or low
    return min(low, asked), max(high, asked)


def _accuracy_range(job: Job, outlook: Outlook, goal: Goal) -> tuple[float, float] | None:
    learning = outlook.learning
    if learning is None or not learning.shown.size:
        return None
    middle = np.median(learning.best, axis=1)
    worst, best = float(middle.min()), float(middle.max())
    asked = worst if goal.target is None else job.sign * goal.target
    return job.sign * min(worst, asked), job.sign * max(best, asked)
