"""A comparison as one HTML page that needs nothing else: a table, and drawings in which a policy keeps its colour.

Drawings are SVG, made here, so that the page stays small whatever the trace: curves have a few hundred points, and
charts of jobs and nodes a few thousand bars, those that lasted longest.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cotune.cluster.simulate.outcome import Outcome
from cotune.cluster.simulate.pictures import stays, use_over_time
from cotune.reports.markup import Markup, join, table, tag
from cotune.reports.page import whole_page
from cotune.types import Floats
from cotune.units import duration, number

# Eight hues that stay apart for colour-blind readers (Okabe and Ito), then darker ones of the same.
COLOURS = (
    "#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9", "#8c7a00", "#7a5195",
    "#00405f", "#8a5f00", "#005f45", "#803800", "#7a4964", "#2f6d8c", "#544900", "#493158",
)  # fmt: skip
_WIDTH, _HEIGHT, _LEFT, _BOTTOM = 960, 260, 120, 34
_POINTS = 240
_BARS = 2500  # of one chart
_ROWS = 40
_STYLE = """
main { max-width: 1060px; margin: 0 auto; padding: 1.5rem 1rem 3rem; }
section { margin: 1.2rem 0; } svg { width: 100%; height: auto; } svg text { font-size: 12px; fill: var(--muted); }
svg .axis { stroke: var(--line); } svg .row { font-size: 10px; }
table { border-collapse: collapse; width: 100%; } th, td { text-align: right; padding: .25rem .55rem; }
th:first-child, td:first-child { text-align: left; } tr { border-bottom: 1px solid var(--line); }
.scroll { overflow-x: auto; } .swatch { display: inline-block; width: .8em; height: .8em; border-radius: 2px; margin-right: .5em; }
"""  # noqa: E501  # a style sheet


def page(title: str, results: Mapping[str, Mapping[str, Any]], outcomes: Mapping[str, Outcome]) -> str:
    """Return the page of some policies on one trace, with their metrics; outcomes must have kept their spells."""
    colours = {name: COLOURS[place % len(COLOURS)] for place, name in enumerate(outcomes)}
    cards = [
        _card("Policies", _summary(results, colours)),
        _card("Completion times", _completion(outcomes, colours), "Share of the jobs that ended within so long."),
        _card("GPUs held", _use(outcomes, colours), "Share of the cluster's GPUs over the time of the trace."),
    ]
    for name, outcome in outcomes.items():
        cards.append(_card(f"{name}: jobs", _job_bars(outcome, colours[name]), "The jobs served most, when they ran."))
        if any(spell.nodes for spell in outcome.spells):
            cards.append(
                _card(f"{name}: nodes", _node_bars(outcome, colours[name]), "Nodes, while somebody held them.")
            )
    return whole_page(title, _STYLE, tag("main", tag("h1", title), *cards))


def _card(title: str, drawing: Markup, words: str = "") -> Markup:
    caption = tag("p", words, class_="muted small") if words else ""
    return tag("section", tag("h2", title), drawing, caption, class_="card")


def _summary(results: Mapping[str, Mapping[str, Any]], colours: Mapping[str, str]) -> Markup:
    """Return the table: a row for each policy, beginning with its colour."""
    with_deadlines = any(found["deadlines"] for found in results.values())
    head = ["policy", "mean completion", "p50", "p99", "mean wait", "use", "GPU hours", "stops", "left"]
    head += ["deadlines met", "declined"] if with_deadlines else []
    rows = []
    for name, found in results.items():
        swatch = tag("span", class_="swatch", style=f"background:{colours[name]}")
        times = (found[key] for key in ("jct_mean", "jct_p50", "jct_p99", "waiting_mean"))
        row: list[object] = [join([swatch, name]), *("" if one is None else duration(one) for one in times)]
        row += [f"{found['utilisation']:.0%}", number(found["gpu_hours"], 5), found["preemptions"], found["unfinished"]]
        if with_deadlines:
            kept = found["deadlines"]
            row += [f"{kept['met']} of {kept['asked']} ({kept['met_share']:.1%})", found["declined"]]
        rows.append(row)
    return table(head, rows, "Policies on this trace")


def _completion(outcomes: Mapping[str, Outcome], colours: Mapping[str, str]) -> Markup:
    curves: dict[str, tuple[Floats, Floats]] = {}
    for name, outcome in outcomes.items():
        jct = np.sort(np.maximum(outcome.completion, 1.0))
        places = np.unique(np.linspace(0, max(len(jct) - 1, 0), min(len(jct), _POINTS)).astype(int))
        curves[name] = np.log10(jct[places]), (places + 1.0) / max(len(jct), 1)
    powers = range(math.ceil(max((x[-1] for x, _ in curves.values() if len(x)), default=1.0)) + 1)
    return _lines(curves, colours, [(float(power), duration(10.0**power)) for power in powers])


def _use(outcomes: Mapping[str, Outcome], colours: Mapping[str, str]) -> Markup:
    curves = {}
    for name, outcome in outcomes.items():
        edges, held = use_over_time(outcome, _POINTS)
        curves[name] = edges[:-1] - edges[0], held
    longest = max(float(x[-1]) for x, _ in curves.values())
    return _lines(curves, colours, [(part * longest, duration(part * longest)) for part in (0.0, 0.25, 0.5, 0.75, 1.0)])


def _lines(
    curves: Mapping[str, tuple[Floats, Floats]], colours: Mapping[str, str], ticks: Sequence[tuple[float, str]]
) -> Markup:
    """Return curves between 0 and 1, a share, with a legend."""
    low, high = ticks[0][0], max(ticks[-1][0], ticks[0][0] + 1e-9)
    wide, tall = _WIDTH - _LEFT - 20, _HEIGHT - _BOTTOM - 10
    shapes = [_axis(ticks, low, high, tall)]
    for share in (0.0, 0.5, 1.0):
        at = 10 + tall * (1 - share)
        shapes.append(tag("text", f"{share:.0%}", x=_LEFT - 8, y=at + 4, text_anchor="end"))
        shapes.append(tag("line", x1=_LEFT, x2=_LEFT + wide, y1=at, y2=at, class_="axis"))
    for place, (name, (x, y)) in enumerate(curves.items()):
        across = _LEFT + wide * (x - low) / (high - low)
        down = 10 + tall * (1 - np.clip(y, 0, 1))
        points = " ".join(f"{left:.1f},{top:.1f}" for left, top in zip(across, down, strict=True))
        shapes.append(tag("polyline", points=points, fill="none", stroke=colours[name], stroke_width=2))
        shapes.append(tag("rect", x=4, y=10 + 16 * place, width=10, height=10, fill=colours[name]))
        shapes.append(tag("text", name[:12], x=18, y=19 + 16 * place))
    return _drawing(max(_HEIGHT, 16 * len(curves) + 20), shapes)


def _axis(ticks: Sequence[tuple[float, str]], low: float, high: float, tall: float) -> Markup:
    wide = _WIDTH - _LEFT - 20
    return join(
        tag("text", words, x=f"{_LEFT + wide * (at - low) / (high - low):.1f}", y=10 + tall + 18, text_anchor="middle")
        for at, words in ticks
    )


def _job_bars(outcome: Outcome, colour: str) -> Markup:
    served = np.argsort(-outcome.service, kind="stable")[:_ROWS].tolist()
    rows = {job: outcome.jobs[job].name for job in sorted(served) if outcome.service[job] > 0}
    bars = [(spell.number, spell.start, spell.end, f"{spell.gpus:g} GPUs") for spell in outcome.spells]
    return _bars(rows, [bar for bar in bars if bar[0] in rows], colour)


def _node_bars(outcome: Outcome, colour: str) -> Markup:
    listed = stays(outcome)
    rows = {node: " ".join(map(str, node)) for node in list(dict.fromkeys(stay[0] for stay in listed))[:_ROWS]}
    bars = [
        (node, start, end, f"{outcome.jobs[job].name}, {gpus:g} GPUs")
        for node, job, gpus, start, end in listed
        if node in rows
    ]
    return _bars(rows, bars, colour)


def _bars(rows: Mapping[Any, str], bars: Sequence[tuple[Any, float, float, str]], colour: str) -> Markup:
    """Return rows of bars over time, each with words that show when it is pointed at."""
    if not bars:
        return tag("p", "no job ran", class_="muted")
    shown = sorted(bars, key=lambda bar: bar[1] - bar[2])[:_BARS]
    begin, end = min(bar[1] for bar in bars), max(bar[2] for bar in bars)
    wide, step = _WIDTH - _LEFT - 20, 14
    scale = wide / max(end - begin, 1e-9)
    places = {row: place for place, row in enumerate(rows)}
    shapes = [
        tag("text", name[:18], x=_LEFT - 8, y=step * place + 11, text_anchor="end", class_="row")
        for place, name in enumerate(rows.values())
    ]
    shapes += [
        tag(
            "rect",
            tag("title", f"{words}, {duration(stop - start) if stop > start else '0 s'}"),
            x=f"{_LEFT + (start - begin) * scale:.1f}",
            y=step * places[row] + 2,
            width=f"{max((stop - start) * scale, 0.5):.1f}",
            height=step - 4,
            fill=colour,
            fill_opacity=0.65,
        )
        for row, start, stop, words in shown
    ]
    tall = step * len(rows)
    ticks = [(part, duration(part * (end - begin)) if part else "0") for part in (0.0, 0.25, 0.5, 0.75, 1.0)]
    return _drawing(tall + _BOTTOM, [*shapes, _axis(ticks, 0.0, 1.0, tall - 10)])


def _drawing(height: int, shapes: Sequence[Markup]) -> Markup:
    return tag("svg", *shapes, viewBox=f"0 0 {_WIDTH} {height}", role="img", xmlns="http://www.w3.org/2000/svg")
