"""`cotune profile`: measure a few short runs within a budget."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Annotated

from cotune import progress
from cotune.cli import options
from cotune.cli.flags import JobFlags, SpaceFlags, records_as_flags, request
from cotune.cli.help import MEASURING, flag, rare_flag
from cotune.cli.output import emit_json, repeated, say, table
from cotune.documents import config_cells, config_columns, head, profile_document, sample_document
from cotune.probe.measure import Limits, least_seconds
from cotune.probe.outcome import ProfileOutcome
from cotune.project.project import Project
from cotune.project.warnings import any_level
from cotune.remedies import goal_words
from cotune.types import Job, Sample
from cotune.units import counted, duration, number


@records_as_flags
def profile(
    *,
    budget: options.Budget = None,
    max_samples: Annotated[int, flag(MEASURING, "--max-samples", help="Most starts.", min=1)] = 16,
    retry_failed: Annotated[bool, flag(MEASURING, "--retry-failed", help="Try failed configs again.")] = False,
    cover: Annotated[
        bool,
        rare_flag(
            MEASURING,
            "--cover/--for-goal",
            help="Measure all over the space, or what decides for the target where there is one.",
        ),
    ] = False,
    no_history: options.NoHistory = False,
    space: SpaceFlags,
    target: options.Target = None,
    deadline: options.Deadline = None,
    max_epochs: options.MaxEpochs = None,
    examples: options.Examples = None,
    pattern: options.Pattern = None,
    timeout: options.Timeout = None,
    job: JobFlags,
    engine: options.Engine = None,
    seed: options.Seed = 0,
    json: options.Json = False,
) -> None:
    """Measure a job with a few short real runs, within a budget.

    cotune profile --budget 5m
    cotune profile -w 1,2 -b 16..64 -- python train.py --batch {batch_size}
    """
    told = {
        "examples": examples,
        "pattern": pattern,
        "target": target,
        "deadline": deadline,
        "max_epochs": max_epochs,
        "timeout": timeout,
        "engine": engine,
        "budget": {"profile": budget} if budget else None,
    }
    with job.project(job.load(told | request(space=space))) as project:
        outcome = project.profile(
            max_samples=max_samples,
            cover=cover,
            retry_failed=retry_failed,
            history=not no_history,
            seed=seed,
        )
        _show(project, outcome, json=json)


def _show(project: Project, outcome: ProfileOutcome, *, json: bool) -> None:
    settings, everything = project.settings, outcome.samples
    if json:
        documents = [sample_document(sample, settings.job) for sample in outcome.new]
        emit_json("profile", {"job": settings.job.name, "samples": documents, "profile": profile_document(everything)})
        return
    if outcome.new:
        _table(settings.job, outcome.new)
    sum_up(outcome.tried, outcome.new, everything, outcome.limits)
    say(f"next: cotune plan{_asked(project, everything).rstrip() or ' --target ... --deadline ...'}")


def _asked(project: Project, samples: Sequence[Sample]) -> str:
    """Return the flags of the plan to ask for: of the goal, and of a target that was left open."""
    job, goal = project.settings.job, project.settings.goal
    left_open = goal.target is None and goal.epochs is None and any(sample.curve for sample in samples)
    return (f" --target {any_level(job)} " if left_open else " ") + shlex.join(goal_words(job, goal))


def sum_up(tried: Sequence[Sample], new: Sequence[Sample], everything: Sequence[Sample], limits: Limits) -> None:
    """Say what a profile measured, or why it measured nothing."""
    usable = [sample for sample in everything if sample.tells_pace]
    if new:
        failed = sum(sample.failed for sample in new)
        good = sum(sample.tells_pace for sample in new)
        others = {"failed": failed, "cut short": len(new) - failed - good}
        spent = sum(sample.device_seconds for sample in new)
        took = f"{duration(sum(sample.seconds for sample in new))} ({spent:.3g} device-seconds)"
        rest = "".join(f", {count} {what}" for what, count in others.items() if count)
        say(f"measured {counted(good, 'new sample')} in {took}{rest}; {len(usable)} usable in all")
    elif limits.seconds < least_seconds(tried):
        say(f"measured nothing: even a start takes {duration(least_seconds(tried))}, more than the budget")
    else:
        say(f"measured nothing, as no probe would be worth its cost; {len(usable)} samples are usable")
    if skipped := len({sample.config for sample in tried if sample.failed} - {sample.config for sample in usable}):
        say(f"{counted(skipped, 'config')} failed before, not tried again; --retry-failed tries them")


def _table(job: Job, samples: Sequence[Sample]) -> None:
    shown = config_columns([sample.config for sample in samples])
    said = repeated([sample.warning for sample in samples if not sample.failed])
    rows = [
        (
            *config_cells(sample.config, shown),
            number(progress.amount(job, sample.config, sample.epochs), 3),
            number(progress.pace(job, sample.config, sample.epoch_seconds), 3) if sample.epoch_seconds else "",
            number(sample.accuracy) if sample.accuracy is not None else "",
            number(sum(sample.terms.known().get(name, 0.0) for name in ("engine", "startup")), 2),
            sample.failure or ("ok" if sample.warning in said else sample.warning) or "ok",
        )
        for sample in samples
    ]
    table((*head(shown), job.counting.unit, f"s/{progress.each(job)}", job.metric, "start-up s", "outcome"), rows)
    for words in said:
        say(f"note      {words}")
