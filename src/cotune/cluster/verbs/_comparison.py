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
    for level, noisy in document.get("noise", {}).items():
        means = {name: found["jct_mean"] for name, found in noisy.items()}
        table(
            ("policy", "mean", "against 0"),
            [
                (name, _known(mean, 6), _change(mean, results[name]["jct_mean"]))
                for name, mean in sorted(means.items(), key=lambda item: math.inf if item[1] is None else item[1])
            ],
            title=f"forecasts off by a factor exp({level} z), best first",
        )
    for flip in document.get("flips", []):
        say(f"at noise {flip['noise']:g} {flip['better']} beats {flip['better_without_noise']}, but not without")
    if trace.left_out:
        say(f"{counted(len(trace.left_out), 'line')} left out")


def _known(value: float | None, digits: int) -> str:
    """Return a number, or nothing where no job has ended."""
    return "" if value is None else number(value, digits)


def _change(value: float | None, before: float | None) -> str:
    return "" if value is None or not before else f"{value / before - 1:+.1%}"


def tell_why(found: dict[str, Explanation], json: bool) -> None:
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
