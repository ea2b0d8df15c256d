"""`cotune report`: the decision and its grounds, in the terminal and as one page."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from cotune import progress
from cotune.cli import options
from cotune.cli.flags import GoalFlags, JobFlags, PredictorFlags, ReplayFlags, SpaceFlags, records_as_flags, request
from cotune.cli.help import OUTPUT, flag
from cotune.cli.output import coloured, emit_json, end_with, note, say, show, table, writing
from cotune.documents import decision_table, goal_words, price_words, time_spread
from cotune.predict.evidence import Evidence, Predictors
from cotune.project.project import Project
from cotune.project.warnings import other_goal
from cotune.reports import Findings, find, sketches
from cotune.reports.document import document
from cotune.reports.findings import replayed_run
from cotune.reports.page import page
from cotune.units import counted, duration, number


@records_as_flags
def report(
    *,
    output: Annotated[
        Path | None, flag(OUTPUT, "--output", "-o", help="Write one self-contained HTML page here.")
    ] = None,
    plots: Annotated[bool | None, flag(OUTPUT, "--plots/--no-plots", help="Small plots in the terminal.")] = None,
    goal: GoalFlags,
    space: SpaceFlags,
    by: PredictorFlags,
    replay: ReplayFlags,
    no_history: options.NoHistory = False,
    job: JobFlags,
    seed: options.Seed = 0,
    json: options.Json = False,
) -> None:
    """Show a plan, its grounds and what came of it; -o writes a page to keep.

    cotune report
    cotune report -o page.html
    """
    predictors, asked = by.with_seed(seed), request(goal, space)
    if replay.recording:
        with job.replayed(replay.recording, asked) as project:
            found = _replayed(project, replay.evidence(project, seed), predictors)
    else:
        with job.project(job.load(asked), reading=True) as project:
            asking = _as_planned(project) if goal == GoalFlags() else project
            found = _stored(asking, asking.evidence(history=not no_history), predictors)
    if output is not None:
        _write(output, found)
    if json:
        emit_json("report", document(found) | {"page": None if output is None else str(output)})
    else:
        _show(found, plots=sys.stdout.isatty() if plots is None else plots)
    if output is not None:
        note(f"the page is {output}")
    end_with(found.refusal, told=json)


def _as_planned(project: Project) -> Project:
    """Return the project with the metric and goal of its latest plan, as `cotune run` takes them, or of a run."""
    settings = options.as_last_planned(project.settings, project.store)
    latest = project.store.latest_plan(settings.job)
    if latest is None:
        return project.with_settings(options.as_last_run(settings, project.store))
    project.warn(other_goal(settings, project.store))
    return project.with_settings(replace(settings, goal=latest.goal))


def _stored(project: Project, known: Evidence, predictors: Predictors) -> Findings:
    """Return the findings of a job of the store."""
    plans = [(made.created, made.plan) for made in project.store.plans(project.settings.job)]
    return find(project.planner(known, predictors), known.samples, plans)


def _replayed(project: Project, known: Evidence, predictors: Predictors) -> Findings:
    """Return the findings on a recording, with a replayed run of the plan to compare with."""
    planner = project.planner(known, predictors)
    found = find(planner, known.samples)
    if found.plan is None or project.replayed is None:
        return found
    run = replayed_run(project.replayed, found.plan, predictors.seed + 1)
    return find(planner, [*known.samples, run], [("", found.plan)])


def _write(output: Path, found: Findings) -> None:
    text = page(found)
    with writing(output):
        output.write_text(text, encoding="utf-8")


def _show(found: Findings, *, plots: bool) -> None:
    if found.plan is not None:
        table(*decision_table(found.job, found.plan.forecast, found.plan.rivals))
        say()
        say(f"goal      {goal_words(found.job, found.goal, found.unit)}")
        say(f"plan      {found.plan.config}, at most {progress.words(found.job, found.plan.config, found.plan.epochs)}")
        say(f"reason    {found.plan.reason}")
    elif found.nearest:
        title = "the nearest that can be had"
        table(*decision_table(found.job, found.nearest[0], found.nearest[1:]), title=title)
    if found.scaling is not None:
        say(f"scaling   {found.scaling.words}")
    for run in found.runs[:3]:
        said = f", {time_spread(run.plan.forecast.seconds)} forecast" if run.plan else ""
        say(f"run       {run.last.config}: {duration(run.seconds)}{said}; {run.words}")
    probes = [sample for sample in found.samples if sample.purpose == "probe"]
    spent = f"{number(found.cost(probes))} {found.unit}"
    good = [probe for probe in probes if not probe.failed]
    configs = len({probe.config for probe in good})
    failed = f" ({len(probes) - len(good)} more failed)" if len(good) < len(probes) else ""
    say(f"measured  {counted(len(good), 'probe')} of {counted(configs, 'config')}{failed} for {spent}")
    for line in found.notes:
        say(f"note      {line}")
    for line in price_words(found.cluster):
        say(f"price     {line}")
    if plots:
        for sketch in (sketches.cost_against_time(found), sketches.curves(found, coloured=coloured())):
            if sketch:
                say()
                show(sketch)  # it has its colours, which take no room
