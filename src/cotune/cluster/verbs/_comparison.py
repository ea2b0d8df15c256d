"""What `cotune simulate` prints: policies side by side, and why a job waits."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

from cotune.cli.output import emit_json, say, table
from cotune.cluster.simulate.why import Explanation
from cotune.cluster.traces import Trace
from cotune.types import Cluster
from cotune.units import counted, duration, number

_TEAMS = 30  # shown; a document has all


def print_comparison(document: dict[str, Any], trace: Trace, cluster: Cluster) -> None:
    """Print the results of each policy, what noise does to them, and which rankings flip."""
    gpus = " + ".join(f"{device.count} {device.name}" for device in cluster.devices)
    columns: tuple[str, ...]
    columns = ("policy", "mean", "p50", "p99", "makespan", "waiting", "slowdown", "use", "GPU hours", "stops", "left")
    results = document["results"]
    deadlines = any(found["deadlines"] for found in results.values())
    rows = [
        (
            name,
            *(_known(found[key], 6) for key in ("jct_mean", "jct_p50", "jct_p99", "makespan", "waiting_mean")),
            _known(found["slowdown_mean"], 3),
            f"{found['utilisation']:.0%}",
            number(found["gpu_hours"], 5),
            found["preemptions"],
            found["unfinished"],
            *([f"{found['deadlines']['met_share']:.1%}", found["declined"]] if deadlines else []),
        )
        for name, found in results.items()
    ]
    columns = (*columns, "deadlines met", "declined") if deadlines else columns
    table(columns, rows, title=f"{counted(len(trace.jobs), 'job')} on {gpus}: completion times and waiting in seconds")
    for name, found in results.items():
        if "teams" in found:
            _print_teams(name, found["teams"], deadlines=bool(found["deadlines"]))
    for level, noisy in document.get("noise", {}).items():
        _print_noise(level, noisy, document["common"], results)
    for flip in document.get("flips", []):
        say(f"at noise {flip['noise']:g} {flip['better']} beats {flip['better_without_noise']}, but not without")
    if trace.left_out:
        say(f"{counted(len(trace.left_out), 'line')} left out")


def _print_noise(level: str, noisy: dict[str, Any], common: dict[str, Any], results: dict[str, Any]) -> None:
    """Print the policies with forecasts off by so much: means over the same jobs, deadlines over all of them."""
    same, means = common[level]["jobs"], common[level]["jct_mean"]
    deadlines = any(found["deadlines"] for found in noisy.values())
    rows = []
    for name in sorted(means, key=lambda name: math.inf if means[name] is None else means[name]):
        found, before = noisy[name], results[name]
        row: list[object] = [name, _known(means[name], 6), _change(found["jct_mean"], before["jct_mean"])]
        if deadlines:
            met, was = (one["deadlines"]["met"] for one in (found, before))
            row += [met, f"{met - was:+d}", found["declined"]]
        rows.append(row)
    heads = ("policy", "mean", "its own against 0", *(("met", "against 0", "declined") if deadlines else ()))
    jobs = f"means over the {counted(same, 'job')} that ended under all"
    table(heads, rows, title=f"forecasts off by a factor exp({level} z), best first; {jobs}")


def _print_teams(policy: str, teams: dict[str, Any], *, deadlines: bool) -> None:
    """Print what each team got, who held most first."""
    rows = [
        (
            team or "(none)",
            found["jobs"],
            found["declined"],
            *(_known(found[key], 5) for key in ("jct_mean", "waiting_mean")),
            _known(found["slowdown_mean"], 3),
            number(found["gpu_hours"], 5),
            f"{found['gpu_hours_share']:.1%}",
            *([f"{found['deadlines_met'] or 0} of {found['deadlines_asked']}"] if deadlines else []),
        )
        for team, found in list(teams.items())[:_TEAMS]
    ]
    heads = ("team", "jobs", "declined", "mean", "waiting", "slowdown", "GPU hours", "share")
    more = f", the first {_TEAMS} of {len(teams)}" if len(teams) > _TEAMS else ""
    table((*heads, "met") if deadlines else heads, rows, title=f"teams under {policy}{more}")


def _known(value: float | None, digits: int) -> str:
    """Return a number, or nothing where no job has ended."""
    return "" if value is None else number(value, digits)


def _change(value: float | None, before: float | None) -> str:
    return "" if value is None or not before else f"{value / before - 1:+.1%}"


def print_why(found: dict[str, Explanation], json: bool) -> None:
    """Print where a job stands under each policy, or a document of it."""
    if json:
        emit_json("simulate.why", {"why": {policy: asdict(explanation) for policy, explanation in found.items()}})
        return
    for policy, why in found.items():
        say(f"{policy}: job {why.job} is {why.state} at {why.at:g} s")
        if why.started is not None:
            say(f"  started    at {why.started:g} s")
        if why.stopped is not None:
            say(f"  stopped    at {why.stopped:g} s, others go first")
        if why.blocked_by:
            say(f"  blocked    {why.blocked_by}")
        if why.state != "waiting" or why.start_p50 is None or why.start_p90 is None:
            continue
        first = ", ".join(why.ahead[:5]) + (", ..." if len(why.ahead) > 5 else "")
        say(f"  ahead      {len(why.ahead)} waiting jobs{': ' + first if first else ''}")
        held = ", ".join(f"{name} ({gpus} GPUs, {duration(left)} left)" for name, gpus, left in why.holding[:4])
        say(f"  holding    {held}")
        again = "start  " if why.started is None else "goes on"
        say(
            f"  {again}    in {duration(why.start_p50 - why.at)} (p50), {duration(why.start_p90 - why.at)} (p90), "
            f"if nobody else arrives and run times are off by exp({why.spread:g} z)"
        )
        say(f"  change     {why.change}")
