"""`cotune profile`: measure a few short runs within a budget."""

from __future__ import annotations

from typing import Annotated

from cotune.cli import options
from cotune.cli.doubts import (
    doubt_axes,
    doubt_configs,
    doubt_examples,
    doubt_goal,
    doubt_open_target,
    doubt_script,
    doubt_seed,
    doubt_target,
)
from cotune.cli.flags import JobFlags, SpaceFlags, records_as_flags
from cotune.cli.help import MEASURING, flag, rare_flag
from cotune.cli.profile_result import show_profile
from cotune.display import note


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
    settings = job.load(told | space.asked())
    for words in settings.notes:
        note(words)
    doubt_configs(settings.job, settings.space.configs())
    doubt_seed(settings.job, seed)
    with job.project(settings) as project:
        doubt_goal(project.settings)
        doubt_open_target(project.settings)
        doubt_script(project.settings.job, project.store.samples(project.settings.job))
        doubt_examples(project.settings.job, project.store)
        outcome = project.profile(
            max_samples=max_samples,
            cover=cover,
            retry_failed=retry_failed,
            history=not no_history,
            seed=seed,
        )
        doubt_target(project.settings, outcome.samples)
        doubt_axes(project.settings.job, outcome.samples)
        show_profile(project, outcome, json=json)
