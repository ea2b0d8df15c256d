"""What all figures share: colours, axes with round numbers on them, units of time, lines across.

A colour is written "@name" or "@name/opacity": the page puts its theme's in, so that one
figure serves light, dark and print. Every text that comes from a user goes through `words`,
because plotly reads tags in its labels.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any

import numpy as np

from cotune.units import number

Figure = dict[str, Any]
Trace = dict[str, Any]

SERIES = ("s1", "s2", "s3", "s4", "s5", "s6")
_UNITS = (
    (3 * 86400.0, 86400.0, "days"),
    (3 * 3600.0, 3600.0, "hours"),
    (180.0, 60.0, "minutes"),
    (0.0, 1.0, "seconds"),
)


def words(text: object) -> str:
    """Return a text as plotly shows it literally."""
    return html.escape(str(text), quote=False)


def clock(longest: float) -> tuple[float, str]:
    """Return the unit in which times up to so many seconds are best read: its seconds and its name."""
    return next((size, name) for least, size, name in _UNITS if longest >= least)


def layout(x: str, y: str, **more: Any) -> dict[str, Any]:
    """Return the part of a layout that all figures share."""
    axis: dict[str, Any] = {
        "gridcolor": "@grid",
        "linecolor": "@line",
        "zeroline": False,
        "ticks": "outside",
        "tickcolor": "@line",
    }
    axis["automargin"] = True
    base: dict[str, Any] = {
        "margin": {"l": 64, "r": 16, "t": 12, "b": 48},
        "font": {"family": "inherit", "size": 13, "color": "@muted"},
        "paper_bgcolor": "@clear",
        "plot_bgcolor": "@clear",
        "hovermode": "closest",
        "hoverlabel": {"bgcolor": "@card", "bordercolor": "@line", "font": {"color": "@ink"}},
        "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom", "font": {"color": "@ink"}},
        "xaxis": axis | {"title": {"text": x, "standoff": 8}} | more.pop("xaxis", {}),
        "yaxis": axis | {"title": {"text": y, "standoff": 8}} | more.pop("yaxis", {}),
    }
    return base | more


def logarithmic(values: Sequence[float]) -> dict[str, Any]:
    """Return a logarithmic axis with round numbers on it, some of them among the values however close these are."""
    known = [value for value in values if value > 0 and np.isfinite(value)]
    if not known:
        return {"type": "log"}
    low, high = min(known), max(known)
    decades = range(int(np.floor(np.log10(low))), int(np.ceil(np.log10(high))) + 1)
    if high >= 8 * low:
        leads = (1, 2, 5) if len(decades) <= 4 else (1,)
        ticks = [lead * 10.0**power for power in decades for lead in leads]
        return {"type": "log", "tickvals": ticks, "ticktext": [number(tick) for tick in ticks]}
    step = _round_step(high - low if high > 1.001 * low else low)
    ticks = [step * place for place in range(max(int(low / step), 1), int(high / step) + 2)]
    decimals = max(0, -int(np.floor(np.log10(step))))
    return {"type": "log", "tickvals": ticks, "ticktext": [f"{tick:,.{decimals}f}" for tick in ticks]}


def counted(values: Sequence[float]) -> dict[str, Any]:
    """Return an axis from zero for what is counted: only whole numbers stand on it."""
    return {"rangemode": "tozero", "tick0": 0, "dtick": max(1, int(_round_step(max(values, default=1.0))))}


def _round_step(span: float, most: int = 8) -> float:
    """Return the least of 1, 2 and 5 times a power of ten that divides a span into so many parts at most."""
    power = 10.0 ** np.floor(np.log10(span / most))
    return float(next(lead * power for lead in (1, 2, 5, 10) if span <= most * lead * power))


def line_at(axis: str, at: float, text: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a dashed line across the figure at a value of one axis, and its label."""
    other = "y" if axis == "x" else "x"
    dashed = {"color": "@warn", "width": 1.5, "dash": "dash"}
    shape = {"type": "line", f"{axis}0": at, f"{axis}1": at, f"{other}0": 0, f"{other}1": 1}
    shape |= {f"{other}ref": "paper", f"{axis}ref": axis, "line": dashed, "layer": "above"}
    place = {"x": {"y": 1, "yanchor": "top", "xanchor": "left", "textangle": 0}, "y": {"x": 0.99, "xanchor": "right"}}
    place["y"]["yanchor"] = "bottom"
    label: dict[str, Any] = {"text": words(text), "showarrow": False, "font": {"color": "@warn", "size": 12}}
    return shape, label | {f"{axis}ref": axis, f"{other}ref": "paper", axis: at} | place[axis]
