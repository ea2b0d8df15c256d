"""Pictures of schedules: jobs and nodes as Gantt charts, completion times as a CDF, use over time.

In a terminal they are drawn with block characters; a page needs plotly.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from cotune.cluster.policy import capacity
from cotune.cluster.simulate import node_gantt
from cotune.cluster.simulate.outcome import Outcome
from cotune.errors import UsageError, missing_extra, suggestion
from cotune.types import Floats
from cotune.units import duration

_BLOCKS = " ▁▂▃▄▅▆▇█"
_WIDTH = 72
_ROWS = 16
_BARS = 20_000
_COLOURS = 17


def text(kind: str, outcomes: Mapping[str, Outcome]) -> str:
    """Return a picture for a terminal."""
    drawers = {"gantt": _gantt, "nodes": node_gantt.text, "cdf": _cdf, "use": _use}
    if kind not in drawers:
        raise UsageError(f"no picture named {kind!r}; there are {', '.join(drawers)}{suggestion(kind, drawers)}")
    return "\n\n".join(f"{name}\n{drawers[kind](outcome)}" for name, outcome in outcomes.items())


def use_over_time(outcome: Outcome, points: int = _WIDTH) -> tuple[Floats, Floats]:
    """Return the edges of equal stretches of time, and the part of the GPUs held in each."""
    begin = min(job.submit for job in outcome.jobs)
    end = max((spell.end for spell in outcome.spells), default=begin + 1.0)
    edges = np.linspace(begin, end, points + 1)
    if not outcome.spells:
        return edges, np.zeros(points)
    spells = np.array([(spell.start, spell.end, spell.gpus) for spell in outcome.spells]).reshape(-1, 3)
    held = np.concatenate([spells[:, 2], -spells[:, 2]])
    times = np.concatenate([spells[:, 0], spells[:, 1]])
    order = np.argsort(times, kind="stable")
    area = np.concatenate([[0.0], np.cumsum(np.cumsum(held[order])[:-1] * np.diff(times[order]))])
    until = np.interp(edges, times[order], area)
    total = sum(capacity(outcome.cluster).values())
    return edges, np.diff(until) / np.maximum(np.diff(edges), 1e-9) / total


def _use(outcome: Outcome) -> str:
    edges, held = use_over_time(outcome)
    bars = "".join(_BLOCKS[round(min(part, 1.0) * (len(_BLOCKS) - 1))] for part in held)
    return f"|{bars}|\n GPUs held over {duration(edges[-1] - edges[0])}, {held.mean():.0%} on average"


def _cdf(outcome: Outcome) -> str:
    submit = np.array([job.submit for job in outcome.jobs])
    jct = np.sort((outcome.end - submit)[outcome.finished])
    if len(jct) == 0:
        return "no job ended"
    lines = []
    for part in (0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1.0):
        value = jct[min(int(part * len(jct)), len(jct) - 1)]
        filled = round(np.log1p(value) / max(np.log1p(jct[-1]), 1e-9) * 48)
        lines.append(f"{part:5.0%} |{'█' * filled:<48}| {duration(float(value))}")
    return "\n".join(lines)


def _gantt(outcome: Outcome) -> str:
    """Return the longest-served jobs as rows of time."""
    begin = min(job.submit for job in outcome.jobs)
    end = max((spell.end for spell in outcome.spells), default=begin + 1.0)
    served = np.argsort(-outcome.service, kind="stable")[:_ROWS]
    scale = _WIDTH / max(end - begin, 1e-9)
    lines = []
    for number in sorted(served.tolist()):
        job = outcome.jobs[number]
        row = [" "] * _WIDTH
        left = outcome.end[number] if outcome.finished[number] else end
        for cell in range(int((job.submit - begin) * scale), min(int((left - begin) * scale) + 1, _WIDTH)):
            row[cell] = "·"
        for spell in outcome.spells:
            if spell.number == number:
                for cell in range(
                    int((spell.start - begin) * scale), min(int((spell.end - begin) * scale) + 1, _WIDTH)
                ):
                    row[cell] = "█"
        lines.append(f"{job.name[:14]:>14} {job.gpus:>4} |{''.join(row)}|")
    return "\n".join(lines) + f"\n{'job, GPUs':>19}  █ runs, · waits, over {duration(end - begin)}"


def write_page(path: Path, outcomes: Mapping[str, Outcome]) -> None:
    """Write a page with all pictures of all outcomes."""
    try:
        go = import_module("plotly.graph_objects")
        make_subplots = import_module("plotly.subplots").make_subplots
    except ImportError:
        raise missing_extra("plotly", "plots") from None
    charts = {f"{name}: jobs": _job_bars(outcome) for name, outcome in outcomes.items()}
    on_nodes = {name: outcome for name, outcome in outcomes.items() if any(spell.nodes for spell in outcome.spells)}
    charts |= {f"{name}: nodes": _node_bars(outcome) for name, outcome in on_nodes.items()}
    figure = make_subplots(rows=len(charts) + 2, cols=1, subplot_titles=["completion times", "GPUs held", *charts])
    for name, outcome in outcomes.items():
        submit = np.array([job.submit for job in outcome.jobs])
        jct = np.sort((outcome.end - submit)[outcome.finished])
        parts = (np.arange(len(jct)) + 1) / max(len(jct), 1)
        figure.add_trace(go.Scatter(x=jct, y=parts, name=name, legendgroup=name), row=1, col=1)
        edges, held = use_over_time(outcome, 400)
        shown = go.Scatter(x=edges[:-1], y=held, name=name, legendgroup=name, showlegend=False)
        figure.add_trace(shown, row=2, col=1)
    for place, bars in enumerate(charts.values()):
        figure.add_trace(go.Bar(orientation="h", showlegend=False, **bars), row=place + 3, col=1)
    figure.update_xaxes(type="log", title_text="seconds", row=1, col=1)
    figure.update_layout(height=420 * (len(charts) + 2), barmode="overlay")
    figure.write_html(path, include_plotlyjs=True)


def _job_bars(outcome: Outcome) -> dict[str, Any]:
    """Return bars of when each job ran."""
    spells = outcome.spells[:_BARS]
    return {
        "base": [spell.start for spell in spells],
        "x": [spell.end - spell.start for spell in spells],
        "y": [outcome.jobs[spell.number].name for spell in spells],
        "text": [f"{spell.gpus} GPUs" for spell in spells],
    }


def _node_bars(outcome: Outcome) -> dict[str, Any]:
    """Return bars of who was on each node, a colour for each job."""
    stays = node_gantt.stays(outcome)[:_BARS]
    return {
        "base": [start for _, _, _, start, _ in stays],
        "x": [end - start for _, _, _, start, end in stays],
        "y": [f"{device} {number}" for (device, number), *_ in stays],
        "text": [f"{outcome.jobs[job].name}, {gpus} GPUs" for _, job, gpus, _, _ in stays],
        "marker": {"color": [job % _COLOURS for _, job, *_ in stays], "colorscale": "Turbo", "opacity": 0.7},
    }
