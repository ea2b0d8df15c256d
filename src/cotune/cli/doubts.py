"""Questions to a user whose goal or search does not go with what was measured."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from cotune.cli.output import note
from cotune.errors import Infeasible
from cotune.jobfile.command import may_take_seed
from cotune.jobfile.metric_names import better, is_share
from cotune.jobfile.pattern import per_cent
from cotune.jobfile.scripts import changed_since, digests
from cotune.jobfile.settings import Settings
from cotune.predict.luck import luck
from cotune.predict.predictors.curve import asked_in_per_cent, out_of_reach
from cotune.project.not_measured import with_other_examples
from cotune.space import Configs
from cotune.store import Store
from cotune.types import Job, Sample
from cotune.units import counted

_TELLING_GAP = 0.1  # of the range of all evaluations, between two values of an axis
_TELLING = 3  # evaluations: two may differ by luck
_FIRST = 2  # evaluations of a run, when nobody can tell how steeply it learns
_DEVIATIONS = 3.0  # by which repeats hardly ever lie apart


def doubt_target(settings: Settings, samples: Sequence[Sample]) -> None:
    """Ask whether the target is in the unit of the metric where the worst evaluation meets it, or none ever can."""
    job, target = settings.job, settings.goal.target
    shown = _shown(samples)
    if target is None or not shown:
        return
    if min(job.sign * value for value in shown) >= job.sign * target:
        if not _is_against_its_name(job):
            note(f"every evaluation so far meets {target:g}: {_range(job, shown)}; is the target in the same unit?")
    elif out_of_reach(job, target, samples):
        note(_unreachable(job, target, shown))


def refuse_target(settings: Settings, samples: Sequence[Sample]) -> None:
    """Refuse to train for a target that no evaluation can meet; so many epochs are trained whatever they reach."""
    job, goal = settings.job, settings.goal
    if goal.target is None or goal.epochs is not None or (per_cent(job) and goal.target <= 100):
        return
    if out_of_reach(job, goal.target, samples):
        raise Infeasible(_unreachable(job, goal.target, _shown(samples)), "target")


def refuse_per_cent(settings: Settings, samples: Sequence[Sample]) -> None:
    """Refuse a target in per cent of what the job tells in parts of one: nothing more is measured for it."""
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


def doubt_goal(settings: Settings) -> None:
    """Ask what of a target may be meant otherwise, before anything is measured for it."""
    doubt_direction(settings)
    doubt_unit(settings)


def doubt_examples(job: Job, store: Store) -> None:
    """Say that a job is another one since its `examples` changed, and how the samples of the one before are kept."""
    before = with_other_examples(job, store)
    if before is None:
        return
    then, now = before.definition.examples, job.examples
    back = "leave examples out again" if then is None else f"write examples: {then}"
    note(
        f"examples is {now or 'not given'} now, and was {then or 'not given'} when {counted(before.samples, 'sample')} "
        f"of {job.name} {'was' if before.samples == 1 else 'were'} measured: this makes it another job; "
        f"to go on with what was measured, {back}"
    )


def doubt_direction(settings: Settings) -> None:
    """Say that a target is taken the other way round than a metric of that name is better."""
    job, target = settings.job, settings.goal.target
    if target is None or not _is_against_its_name(job):
        return
    usual, taken, meant = ("lower", ">=", "<=") if job.better == "higher" else ("higher", "<=", ">=")
    level = f"at_{'most' if usual == 'lower' else 'least'}: {target:g}"
    note(
        f"{job.metric} is usually better when {usual}, and the target is taken as {job.metric}{taken}{target:g}; "
        f"if it is not meant so, write {job.metric}{meant}{target:g} ({level})"
    )


def _is_against_its_name(job: Job) -> bool:
    return better(job.metric) not in (None, job.better)


def doubt_unit(settings: Settings) -> None:
    """Ask, before anything is measured, whether a target above one is in per cent, where nothing shows that."""
    job, target = settings.job, settings.goal.target
    if target is None or target <= 1 or not is_share(job.metric) or per_cent(job) is not None:
        return
    words = f"{job.metric} {target:g} is taken as per cent, so the job must tell {target:g} and not {target / 100:g}"
    note(f"{words}; where it tells parts of one, write {job.metric}={target / 100:g}")


def doubt_open_target(settings: Settings) -> None:
    """Say that a target is left open: speed alone is measured for it."""
    job = settings.job
    if job.command and settings.goal.target is None and settings.goal.epochs is None and job.large is None:
        note(f"no target is given, so this measures speed first; --target {open_target(job)} measures what it takes")


def open_target(job: Job) -> str:
    """Return a target of a job whose level is for the user to fill in."""
    return f"'{job.metric}{'>=' if job.better == 'higher' else '<='}LEVEL'"


def doubt_seed(job: Job, seed: int | None) -> None:
    """Say that a seed other than the usual one does not reach a script that sets its own."""
    if seed and not may_take_seed(job):
        note(
            f"the command has no {{seed}}, so --seed {seed} changes nothing that the script seeds itself; "
            "COTUNE_SEED is set, for scripts that read it"
        )


def doubt_script(job: Job, samples: Sequence[Sample]) -> None:
    """Say that a script is another one than some samples were measured with, which are used all the same."""
    now = digests(job)
    changed = [names for sample in samples if sample.folder and (names := changed_since(now, Path(sample.folder)))]
    if changed:
        which = " and ".join(sorted({name for names in changed for name in names}))
        note(
            f"{which} changed since {len(changed)} of {counted(len(samples), 'sample')} of {job.name} "
            f"{'was' if len(changed) == 1 else 'were'} measured, all of which still count; "
            "if it trains otherwise now, give the job another name (`name:`, or --name) to measure it anew"
        )


def doubt_configs(job: Job, configs: Configs) -> None:
    """Say which global batches hold more examples than an epoch has, as a loader may make less or nothing of them."""
    batches = sorted(set(configs.global_batch[configs.valid].tolist()))
    of_epoch = (job.examples or 0) * job.counting.parts
    large = [batch for batch in batches if job.examples is not None and batch > of_epoch]
    if large:
        which = f"global batch {large[0]}" + ("" if len(large) == 1 else f" and {len(large) - 1} larger")
        note(f"{which}: more than the {of_epoch:.0f} examples of an epoch, which then has one short step or none")


def doubt_axes(job: Job, samples: Sequence[Sample]) -> None:
    """Ask whether an axis changes what is learnt, which would be a recipe and no layout; or the workers do."""
    for name in sorted({name for sample in samples if sample.curve for name, _ in sample.config.axes}):
        if gap := _gap(samples, name):
            by = f"{job.metric} differs by {gap:.2g} with {name}"
            note(f"{by}, at the same batch and epoch: an axis should change time alone; leave one {name} to search")
    together = [sample for sample in samples if sample.config.waits]
    if not job.workers_matter and (gap := _gap(together, "workers")):
        by = f"{job.metric} differs by {gap:.2g} with the workers, at the same global batch and epoch"
        note(f"{by}: is {{batch_size}} what one worker takes, and is the learning rate that of the global batch?")


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
    gaps = [_beyond_luck(list(found.values())) for found in alike.values() if len(found) > 1]
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


def _beyond_luck(found: Sequence[_Later]) -> float:
    """Return how far evaluations lie apart, 0 where repeats of one run might: these come early or late."""
    gap = max(one.accuracy for one in found) - min(one.accuracy for one in found)
    return gap if gap > _DEVIATIONS * luck(()).deviation() * max(one.slope for one in found) else 0.0
