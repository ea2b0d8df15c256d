"""What of a job, its goal and its samples may not be meant so: warnings, and targets that are refused.

A library logs them and the command line prints them, each once: both ask `Project.warnings()`.
"""

from __future__ import annotations

import math
import os
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from cotune.documents import goal_words
from cotune.errors import Infeasible
from cotune.jobfile.command import may_take_seed
from cotune.jobfile.metric_names import better, is_share
from cotune.jobfile.pattern import per_cent
from cotune.jobfile.scripts import changed_since, digests
from cotune.jobfile.settings import Settings
from cotune.predict.metric_bounds import asked_in_per_cent, out_of_reach
from cotune.space import Configs
from cotune.store import Store
from cotune.types import Config, Goal, Job, Sample
from cotune.units import counted

_TELLING_GAP = 0.1  # of the range of all evaluations, between two values of an axis
_TELLING = 3  # evaluations: two may differ by luck
_FIRST = 2  # evaluations of a run, when nobody can tell how steeply it learns
_RUN_DEVIATION = 0.08  # of ln epochs between two runs of one recipe, usually
_DEVIATIONS = 3.0  # by which repeats hardly ever lie apart


def of_job(settings: Settings, store: Store, seed: int | None) -> Iterator[str]:
    """Yield what may be meant otherwise before anything is measured: the job file, the goal, the seed of a start."""
    yield from settings.notes
    yield from (
        f"{device.name} is priced at {device.price_source}, as none was given"
        for device in settings.cluster.devices
        if device.price_source
    )
    yield from of_goal(settings)
    if seed:
        yield from of_seed(settings.job, seed)
    yield from changed_script(settings.job, store.samples(settings.job))
    yield from changed_examples(settings.job, store)


def of_goal(settings: Settings) -> Iterator[str]:
    """Yield that a target is taken the other way round than its metric is better, or as per cent without a sign of it.

    Both are said before anything is measured.
    """
    job, target = settings.job, settings.goal.target
    if target is None:
        return
    if better(job.metric) not in (None, job.better):
        usual, taken, meant = ("lower", ">=", "<=") if job.better == "higher" else ("higher", "<=", ">=")
        level = f"at_{'most' if usual == 'lower' else 'least'}: {target:g}"
        yield (
            f"{job.metric} is usually better when {usual}, and the target is taken as {job.metric}{taken}{target:g}; "
            f"if it is not meant so, write {job.metric}{meant}{target:g} ({level})"
        )
    if target > 1 and is_share(job.metric) and per_cent(job) is None:
        yield (
            f"{job.metric} {target:g} is taken as per cent, so the job must report {target:g} and not "
            f"{target / 100:g}; where it reports parts of one, write {job.metric}={target / 100:g}"
        )


def of_seed(job: Job, seed: int) -> Iterator[str]:
    """Yield that a seed does not reach a script that sets its own."""
    if not may_take_seed(job):
        yield (
            f"the command has no {{seed}}, so seed {seed} changes nothing that the script seeds itself; "
            "COTUNE_SEED is set, for scripts that read it"
        )


def changed_script(job: Job, samples: Sequence[Sample]) -> Iterator[str]:
    """Yield that a script is another one than some samples were measured with, which are used all the same."""
    now = digests(job)
    changed = [names for sample in samples if sample.folder and (names := changed_since(now, Path(sample.folder)))]
    if changed:
        which = " and ".join(sorted({name for names in changed for name in names}))
        yield (
            f"{which} changed since {len(changed)} of {counted(len(samples), 'sample')} of {job.name} "
            f"{'was' if len(changed) == 1 else 'were'} measured, all of which still count; "
            "if it trains otherwise now, give the job another `name:` to measure it anew"
        )


def changed_examples(job: Job, store: Store) -> Iterator[str]:
    """Yield that a job is another one since its `examples` changed, and how the samples of the one before are kept."""
    if store.samples(job):
        return
    for known in reversed(store.jobs()):
        then, now = known.definition.examples, job.examples
        before = replace(job, examples=then, counting=known.definition.counting)
        if known.samples and known.name == job.name and before.fingerprint == known.fingerprint:
            back = "leave examples out again" if then is None else f"write examples: {then}"
            yield (
                f"examples is {now or 'not given'} now, and was {then or 'not given'} when "
                f"{counted(known.samples, 'sample')} of {job.name} {'was' if known.samples == 1 else 'were'} measured: "
                f"this makes it another job; to continue with what was measured, {back}"
            )
            return


def open_target(settings: Settings) -> Iterator[str]:
    """Yield that a target is left open, for which a profile measures speed alone."""
    job = settings.job
    if job.command and settings.goal.target is None and settings.goal.epochs is None and job.large is None:
        yield f"no target is given, so this measures speed first; a target {any_level(job)} measures what it takes"


def any_level(job: Job) -> str:
    """Return a target of a job whose level is for the user to fill in."""
    return f"'{job.metric}{'>=' if job.better == 'higher' else '<='}LEVEL'"


def other_goal(settings: Settings, store: Store, config: Config | None = None) -> Iterator[str]:
    """Yield which plan is followed where its goal is not the one that is asked for now.

    A run of another config than the plan's follows none.
    """
    job, wanted, unit = settings.job, settings.goal, settings.cluster.unit
    refused = store.refusal(job.name, (job.fingerprint,))
    if refused is not None:
        yield f"the plan asked for last, {goal_words(job, refused.goal, unit)}, was refused"
    for stored in store.plans(job, last=1):
        goal = stored.plan.goal
        if config in (None, stored.plan.config) and wanted.asked not in (goal.asked, Goal().asked):
            yield (
                f"following plan {stored.id} of {stored.created[:19].replace('T', ' ')} UTC, made for "
                f"{goal_words(job, goal, unit)}; asked now: {goal_words(job, wanted, unit)} (plan again to follow that)"
            )


def of_start(settings: Settings, config: Config) -> Iterator[str]:
    """Yield what of a start's config may not be meant so."""
    yield from of_configs(settings.job, Configs.of([config]))
    cores = len(os.sched_getaffinity(0))
    shared = settings.engine == "local" and "nodes" not in settings.engine_settings
    if shared and config.device == "cpu" and config.workers > cores:
        yield f"{config.workers} workers share {cores} cores: their seconds say little about as many machines"


def of_configs(job: Job, configs: Configs) -> Iterator[str]:
    """Yield which global batches hold more examples than an epoch has, as a loader may make less or nothing of them."""
    batches = sorted(set(configs.global_batch[configs.valid].tolist()))
    of_epoch = (job.examples or 0) * job.counting.parts
    large = [batch for batch in batches if job.examples is not None and batch > of_epoch]
    if large:
        which = f"global batch {large[0]}" + ("" if len(large) == 1 else f" and {len(large) - 1} larger")
        yield f"{which}: more than the {of_epoch:.0f} examples of an epoch, which then has one short step or none"


def of_target(settings: Settings, samples: Sequence[Sample]) -> Iterator[str]:
    """Yield that the worst evaluation meets the target, or that none ever can: it may be in another unit."""
    job, target, shown = settings.job, settings.goal.target, _shown(samples)
    if target is None or not shown:
        return
    if min(job.sign * value for value in shown) >= job.sign * target:
        if better(job.metric) in (None, job.better):  # else the other direction may be meant, which is said
            yield f"every evaluation so far meets {target:g}: {_range(job, shown)}; is the target in the same unit?"
    elif out_of_reach(job, target, samples):
        yield _unreachable(job, target, shown)


def refuse_target(settings: Settings, samples: Sequence[Sample]) -> None:
    """Refuse to train for a target that no evaluation can meet; so many epochs are trained whatever they reach."""
    job, goal = settings.job, settings.goal
    if goal.target is None or goal.epochs is not None or (per_cent(job) and goal.target <= 100):
        return
    if out_of_reach(job, goal.target, samples):
        raise Infeasible(_unreachable(job, goal.target, _shown(samples)), "target")


def refuse_per_cent(settings: Settings, samples: Sequence[Sample]) -> None:
    """Refuse a target in per cent of what the job reports in parts of one: nothing more is measured for it."""
    job, target = settings.job, settings.goal.target
    if target is not None and not per_cent(job) and asked_in_per_cent(job, target, samples):
        raise Infeasible(_unreachable(job, target, _shown(samples)), "target")


def _unreachable(job: Job, target: float, shown: Sequence[float]) -> str:
    """Return that no evaluation can meet a target, and the part of one that a target in per cent may be."""
    share = target / 100
    in_parts = job.sign > 0 and max(shown) <= 1 and min(shown) < share <= 1
    instead = f" ({share:g})" if in_parts else ""
    return f"no evaluation can meet {target:g}: {_range(job, shown)}; is the target in the same unit{instead}?"


def _range(job: Job, shown: Sequence[float]) -> str:
    return f"{job.metric} was {min(shown):.4g} to {max(shown):.4g}"


def _shown(samples: Sequence[Sample]) -> list[float]:
    return [point.accuracy for sample in samples for point in sample.curve]


def of_axes(job: Job, samples: Sequence[Sample]) -> Iterator[str]:
    """Yield the axes that change what is learnt, which would be a recipe and no layout; or that the workers do."""
    for name in sorted({name for sample in samples if sample.curve for name, _ in sample.config.axes}):
        if gap := _gap(samples, name):
            by = f"{job.metric} differs by {gap:.2g} with {name}"
            yield f"{by}, at the same batch and epoch: an axis should change time alone; leave one {name} to search"
    together = [sample for sample in samples if sample.config.waits]
    if not job.workers_matter and (gap := _gap(together, "workers")):
        by = f"{job.metric} differs by {gap:.2g} with the workers, at the same global batch and epoch"
        yield f"{by}: is {{batch_size}} what one worker takes, and is the learning rate that of the global batch?"


def _gap(samples: Sequence[Sample], axis: str) -> float | None:
    """Return by how much evaluations differ with an axis, or the workers, alone; None where luck may be all of it.

    Runs are alike that were told the same length: where the rate falls to their end, others are not.
    """
    shown = _shown(samples)
    span = max(shown, default=0.0) - min(shown, default=0.0)
    alike: dict[tuple[object, ...], dict[object, _Later]] = {}
    for sample in samples:
        axes = dict(sample.config.axes)
        value = sample.config.workers if axis == "workers" else axes.pop(axis, None)
        for later in _later(sample):
            key = (sample.config.global_batch, sample.length, later.epoch, *axes.items())
            alike.setdefault(key, {})[value] = later
    gaps = []
    for same in (list(found.values()) for found in alike.values() if len(found) > 1):
        gap = max(one.accuracy for one in same) - min(one.accuracy for one in same)
        by_luck = _DEVIATIONS * _RUN_DEVIATION * max(one.slope for one in same)
        gaps.append(gap if gap > by_luck else 0.0)  # repeats of one run come early or late too
    return statistics.median(gaps) if len(gaps) >= _TELLING and statistics.median(gaps) > _TELLING_GAP * span else None


class _Later(NamedTuple):
    """An evaluation after the first ones of a run, and how much the metric changed in a whole logarithm of epochs."""

    epoch: float
    accuracy: float
    slope: float


def _later(sample: Sample) -> Iterator[_Later]:
    for before, point in pairwise(sample.curve[_FIRST - 1 :]):
        if 0 < before.epoch < point.epoch:
            change = abs(point.accuracy - before.accuracy)
            yield _Later(point.epoch, point.accuracy, change / math.log(point.epoch / before.epoch))
