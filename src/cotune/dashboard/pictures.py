"""Figures of kept simulations and placements, in the format of the report's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cotune.reports.frames import SERIES, Figure, clock, layout, logarithmic, words

_ROWS = 25  # jobs in a Gantt chart


def distribution(policies: Mapping[str, Any], what: str, title: str) -> Figure:
    """Return a cumulative distribution of seconds, one line for each policy."""
    longest = max((found[what]["seconds"][-1] for found in policies.values() if found[what]["seconds"]), default=1.0)
    size, unit = clock(float(longest) / 4)
    traces: list[dict[str, Any]] = [
        {
            "type": "scatter", "mode": "lines", "name": words(name), "line": {"color": f"@{colour}", "width": 2},
            "x": [seconds / size for seconds in found[what]["seconds"]], "y": found[what]["share"],
            "hovertemplate": "%{y:.0%} within %{x:.3~g} " + unit + "<extra>" + words(name) + "</extra>",
        }
        for (name, found), colour in _coloured(policies)
    ]  # fmt: skip
    times = [x for trace in traces for x in trace["x"]]
    axis = logarithmic(times) if times and min(times) > 0 else {"rangemode": "tozero"}
    shares = {"tickformat": ".0%", "range": [0, 1.02]}
    return {"data": traces, "layout": layout(f"{title} ({unit})", "share of jobs", xaxis=axis, yaxis=shares)}


def use(policies: Mapping[str, Any]) -> Figure:
    """Return the part of the cluster that was held over time."""
    longest = max((found["use"]["seconds"][-1] for found in policies.values()), default=1.0)
    size, unit = clock(float(longest) / 4)
    traces = [
        {
            "type": "scatter", "mode": "lines", "name": words(name),
            "line": {"color": f"@{colour}", "width": 1.5, "shape": "hv"},
            "x": [seconds / size for seconds in found["use"]["seconds"]], "y": found["use"]["share"],
            "hovertemplate": "%{y:.0%} held at %{x:.3~g} " + unit + "<extra>" + words(name) + "</extra>",
        }
        for (name, found), colour in _coloured(policies)
    ]  # fmt: skip
    axis = {"tickformat": ".0%", "range": [0, 1.05]}
    return {"data": traces, "layout": layout(f"time ({unit})", "GPUs held", yaxis=axis)}


def gantt(jobs: Sequence[Mapping[str, Any]], most: int = _ROWS) -> Figure:
    """Return the jobs that waited longest as rows of time: waiting pale, running full."""
    ranked = sorted(jobs, key=lambda job: -job["waited"])[:most]
    shown = sorted(ranked, key=lambda job: -job["submit"])
    ends = [spell[1] for job in shown for spell in job["spells"]] or [1.0]
    begin = min((job["submit"] for job in shown), default=0.0)
    size, unit = clock((max(ends) - begin) / 4)
    rows = [words(f"{job['name']} ({job['gpus']})") for job in shown]
    waits: dict[str, list[Any]] = {"y": [], "base": [], "x": [], "customdata": []}
    runs: dict[str, list[Any]] = {"y": [], "base": [], "x": [], "customdata": []}
    for row, job in zip(rows, shown, strict=True):
        at = job["submit"]
        for start, end, gpus in job["spells"]:
            if start > at:
                _bar(waits, row, ((at - begin) / size, (start - at) / size), job["reason"])
            _bar(runs, row, ((start - begin) / size, (end - start) / size), f"{gpus} GPUs")
            at = end
        if not job["spells"]:
            _bar(waits, row, ((at - begin) / size, (max(ends) - at) / size), job["reason"])
    bar = {"type": "bar", "orientation": "h", "width": 0.72}
    hover = "%{y}<br>%{customdata}<extra>"
    return {
        "data": [
            bar | waits | {"name": "waits", "marker": {"color": "@s2/0.35"}, "hovertemplate": hover + "waits</extra>"},
            bar | runs | {"name": "runs", "marker": {"color": "@s1/0.9"}, "hovertemplate": hover + "runs</extra>"},
        ],
        "layout": layout(
            f"time since the first of them was submitted ({unit})",
            "",
            barmode="overlay",
            height=max(220, 90 + 22 * len(shown)),
            yaxis={"type": "category", "automargin": True, "tickfont": {"size": 11}, "ticks": ""},
        ),
    }


def _bar(into: dict[str, list[Any]], row: str, span: tuple[float, float], text: str) -> None:
    into["y"].append(row)
    into["base"].append(span[0])
    into["x"].append(span[1])
    into["customdata"].append(words(text))


def stages(plan: Mapping[str, Any]) -> Figure:
    """Return the seconds of each stage for one batch; the slowest sets the pace of all."""
    found = plan["stages"]
    names = [words(f"{place + 1}: {stage['units']} {stage['type']}") for place, stage in enumerate(found)]
    colours = ["@accent" if place == plan["bottleneck"] else "@s1/0.75" for place in range(len(found))]
    bars = {
        "type": "bar", "orientation": "h", "x": [stage["seconds"] for stage in found], "y": names,
        "marker": {"color": colours}, "name": "seconds",
        "customdata": [words(stage["limited_by"] or "") for stage in found],
        "hovertemplate": "%{y}: %{x:.4~g} s per batch, limited by %{customdata}<extra></extra>",
    }  # fmt: skip
    axis = {"type": "category", "autorange": "reversed", "automargin": True, "ticks": ""}
    height = 110 + 34 * len(found)
    return {"data": [bars], "layout": layout("seconds for one batch", "", yaxis=axis, height=height)}


def _coloured(policies: Mapping[str, Any]) -> list[tuple[tuple[str, Any], str]]:
    return [(entry, SERIES[place % len(SERIES)]) for place, entry in enumerate(policies.items())]
