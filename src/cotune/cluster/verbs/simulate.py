"""`cotune simulate`: a job trace under scheduling policies, compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from cotune import registry
from cotune.cli.help import GOAL, OUTPUT, SPACE, flag, rare_flag
from cotune.cli.options import Json, Seed, numbers
from cotune.cli.output import emit_json, note, writing
from cotune.cluster.policy import Policy
from cotune.cluster.simulate import Outcome
from cotune.cluster.simulate.clusters import parse_cluster, parse_speeds
from cotune.cluster.simulate.failures import Failures
from cotune.cluster.simulate.metrics import metrics
from cotune.cluster.simulate.outcome import SimulationSetting
from cotune.cluster.simulate.tables import common, flips, teams, write_jobs
from cotune.cluster.simulate.why import explain
from cotune.cluster.traces import Trace, fitting, read
from cotune.cluster.traces.shaping import loaded, windowed, with_deadlines, with_targets
from cotune.cluster.traces.speeds import at_speeds, malleable
from cotune.cluster.verbs._comparison import print_comparison, print_why
from cotune.errors import UsageError
from cotune.units import seconds

_LEFT_OUT_SHOWN = 20


def simulate(
    trace: Annotated[Path, typer.Argument(help="Plain CSV, ITP, Philly, Pollux, Tiresias, sacct; or -.")],
    cluster: Annotated[str, flag(SPACE, "--cluster", help="104 (GPUs), 13x8 (nodes) or a YAML file.")],
    policy: Annotated[
        list[str] | None,
        flag(GOAL, "--policy", help="fifo,srtf,las(variant=pollux); given twice adds.", show_default=False),
    ] = None,
    only: Annotated[list[str] | None, rare_flag(SPACE, "--only", help="Only lines with column=value.")] = None,
    window: Annotated[
        str | None, rare_flag(SPACE, "--window", help="Only jobs submitted in 0..7d, or between dates.")
    ] = None,
    load: Annotated[float, flag(SPACE, "--load", help="Jobs come so many times as fast: 1.5.")] = 1.0,
    team_column: Annotated[
        str | None, rare_flag(SPACE, "--team-column", help="The column that holds the team.")
    ] = None,
    speeds: Annotated[
        Path | None,
        rare_flag(SPACE, "--speeds", help="A folder of MODEL.csv or DEVICE-MODEL.csv: such jobs become malleable."),
    ] = None,
    targets: Annotated[
        bool, rare_flag(GOAL, "--targets", help="Jobs with learning curves (Pollux) end at an accuracy, at any batch.")
    ] = False,
    deadlines: Annotated[
        str | None, rare_flag(GOAL, "--deadlines", help="Deadlines where there are none: 0.5,1.5 times the run time.")
    ] = None,
    skip_bad: Annotated[bool, rare_flag(SPACE, "--skip-bad", help="Leave out lines that cannot be jobs.")] = False,
    placement: Annotated[str | None, rare_flag(SPACE, "--placement", help="count, consolidate, spread, ...")] = None,
    restart: Annotated[str, rare_flag(SPACE, "--restart", help="Seconds lost at every start.")] = "0",
    failures: Annotated[
        str | None, rare_flag(SPACE, "--failures", help="Nodes fail: mtbf=30d,repair=4h[,checkpoint=30m].")
    ] = None,
    noise: Annotated[
        str | None, rare_flag(GOAL, "--noise", help="Errors of what policies believe: 0.1,0.3,1.0.")
    ] = None,
    why: Annotated[str | None, flag(GOAL, "--why", help="Explain this job, at the time of --at.")] = None,
    at: Annotated[float | None, flag(GOAL, "--at", help="Seconds on the trace's clock, for --why.")] = None,
    seed: Seed = 0,
    per_team: Annotated[bool, flag(OUTPUT, "--per-team", help="Also a table of teams.")] = False,
    per_job: Annotated[
        Path | None, rare_flag(OUTPUT, "--per-job", help="Write a line for each job to a CSV file.")
    ] = None,
    json: Json = False,
) -> None:
    """Compare scheduling policies on a trace of jobs, on a simulated cluster.

    cotune simulate trace.csv --cluster 8x8 --policy fifo,srtf,las
    cotune simulate trace.csv --cluster 64 --why job7 --at 3600
    """
    if (why is None) != (at is None):
        raise UsageError("--why JOB and --at SECONDS, a time on the trace's clock, go together")
    there = parse_cluster(cluster)
    jobs = _read(trace, only, window, load, team_column, skip_bad=skip_bad)
    jobs = fitting(jobs, there, skip_bad=skip_bad)
    jobs = _extended(jobs, cluster, speeds, deadlines, seed, targets=targets)
    policies = {text: policy_of(text, jobs) for text in policy_names(policy)}
    levels = noise_levels(noise)
    for line in jobs.left_out[:_LEFT_OUT_SHOWN] if why is None else ():
        note(f"left out {line}")
    setting = SimulationSetting(
        jobs.jobs,
        there,
        placement,
        seconds_of(restart),
        None if failures is None else Failures.parse(failures),
        seed,
    )
    if why is not None and at is not None:
        print_why({text: explain(setting, why, at, chosen, levels[-1]) for text, chosen in policies.items()}, json)
        return
    outcomes = {text: setting.play(one) for text, one in policies.items()}
    document = _document(jobs, setting.cluster, outcomes, per_team=per_team)
    if levels != [0.0]:
        document |= _robustness(setting, policies, levels, outcomes)
    if per_job is not None:
        _write_jobs(per_job, outcomes)
    if json:
        emit_json("simulate", document)
    else:
        print_comparison(document, jobs, setting.cluster)


def _read(
    path: Path, only: list[str] | None, window: str | None, load: float, team_column: str | None, *, skip_bad: bool
) -> Trace:
    jobs = read(path, pairs(only), team_column=team_column, skip_bad=skip_bad)
    jobs = windowed(jobs, window) if window is not None else jobs
    return loaded(jobs, load) if load != 1.0 else jobs


def _extended(
    jobs: Trace, cluster: str, speeds: Path | None, deadlines: str | None, seed: int, *, targets: bool
) -> Trace:
    """Return the jobs with the speeds, targets and deadlines that the flags give them."""
    there, own = parse_cluster(cluster), parse_speeds(cluster)
    jobs = malleable(jobs, speeds, there, own) if speeds is not None else jobs
    jobs = at_speeds(jobs, there, own)
    jobs = with_targets(jobs) if targets else jobs
    return with_deadlines(jobs, *limits_of(deadlines), seed) if deadlines is not None else jobs


def _document(trace: Trace, cluster: Any, outcomes: dict[str, Outcome], *, per_team: bool) -> dict[str, Any]:
    return {
        "trace": str(trace.path),
        "format": trace.format,
        "jobs": len(trace.jobs),
        "left_out": len(trace.left_out),
        "left_out_lines": list(trace.left_out[:100]),
        "cluster": {device.name: device.count for device in cluster.devices},
        "results": {
            name: metrics(outcome) | ({"teams": teams(outcome)} if per_team else {})
            for name, outcome in outcomes.items()
        },
    }


def _robustness(
    setting: Any, policies: Mapping[str, Policy], levels: list[float], truth: Mapping[str, Outcome]
) -> dict[str, Any]:
    """Return what errors of forecasts do to each policy, compared over the jobs that ended under all of them."""
    played = {level: {name: setting.play(one, level) for name, one in policies.items()} for level in levels if level}
    same = {level: common(outcomes) for level, outcomes in ({0.0: truth} | played).items()}
    return {
        "noise": {
            f"{level:g}": {name: metrics(outcome) for name, outcome in outcomes.items()}
            for level, outcomes in played.items()
        },
        "common": {f"{level:g}": found for level, found in same.items()},
        "flips": [
            {"noise": level, "better": better, "better_without_noise": was}
            for level, better, was in flips({level: found["jct_mean"] for level, found in same.items()})
        ],
    }


def _write_jobs(path: Path, outcomes: dict[str, Outcome]) -> None:
    with writing(path):
        lines = write_jobs(path, outcomes)
    note(f"{lines} lines are in {path}, one for each job and policy")


def policy_names(policy: list[str] | None) -> list[str]:
    """Return the policies of all flags, 'fifo,srtf' and 'las(variant=pollux)'; fifo where none is named."""
    names = [name for text in policy or ["fifo"] for name in registry.several(text)]
    if not names:
        raise UsageError("--policy: name at least one; `cotune algorithms` lists them")
    return names


def policy_of(text: str, trace: Trace) -> Policy:
    """Return a policy with its settings."""
    try:
        policy: Any = registry.create("policy", text)
    except ValueError as error:
        raise UsageError(f"{text}: {error}") from None
    # Without a history of its own a policy knows how long the jobs of this trace are, but not which is which.
    if hasattr(policy, "history") and not policy.history:
        policy = replace(policy, history=tuple(job.gpus * job.seconds for job in trace.jobs))
    found: Policy = policy
    return found


def pairs(only: list[str] | None) -> dict[str, str]:
    """Return the columns and values of 'cluster=02'."""
    found = [entry.partition("=") for entry in only or []]
    for name, equals, _ in found:
        if not equals:
            raise UsageError(f"cannot read --only {name!r}; write --only cluster=02")
    return {name: value for name, _, value in found}


def limits_of(deadlines: str) -> tuple[float, float]:
    """Return the least and the most of '0.5,1.5'."""
    least, _, most = deadlines.partition(",")
    try:
        limits = float(least), float(most or least)
    except ValueError:
        limits = 0.0, 0.0
    if not 0 < limits[0] <= limits[1] < float("inf"):
        raise UsageError(f"cannot read --deadlines {deadlines!r}; write --deadlines 0.5,1.5, times the run time")
    return limits


def noise_levels(noise: str | None) -> list[float]:
    """Return the levels of '0.1,0.3', from the least up, after none at all."""
    levels = sorted({0.0, *numbers(float, noise or "0", "--noise 0.1,0.3,1.0")})
    if levels[0] < 0 or levels[-1] > 10:
        raise UsageError(f"--noise {noise} must lie between 0 and 10")
    return levels


def seconds_of(text: str) -> float:
    """Return a duration that may be nothing."""
    return 0.0 if text in ("0", "0s") else seconds(text)
