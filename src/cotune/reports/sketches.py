"""Small plots in a terminal, drawn by uniplot in Unicode blocks."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from cotune import progress
from cotune.errors import missing_extra
from cotune.reports.findings import Findings
from cotune.reports.frames import clock

_WIDTH, _HEIGHT = 56, 12


def cost_against_time(found: Findings) -> str:
    """Return all configs that reach the target, and the deadline, as text."""
    judged = found.assessed
    able = np.isfinite(judged.cost) & (found.sure >= found.goal.confidence)
    if not able.any():
        return ""
    size, unit = clock(float(np.median(judged.seconds[able])))
    lines = [found.goal.deadline / size] if found.goal.deadline is not None else []
    return _plot(
        [judged.seconds[able] / size],
        [judged.cost[able]],
        title=f"cost in {found.unit} against time in {unit}" + ("; the line is the deadline" if lines else ""),
        vertical_lines=lines,
    )


def curves(found: Findings, *, coloured: bool) -> str:
    """Return the longest measured learning curves, and the target, as text."""
    longest = sorted((sample for sample in found.samples if len(sample.curve) > 1), key=lambda one: len(one.curve))
    known = list({sample.config.global_batch: sample for sample in longest}.values())[-4:]
    if not known:
        return ""
    target = found.goal.target
    # Ticks have as few digits as keep them apart, so that 0.4 and 0.8 would be 0 and 1.
    parts = all(abs(point.accuracy) <= 1 for sample in known for point in sample.curve)
    size, metric = (100.0, f"{found.job.metric} in %") if parts else (1.0, found.job.metric)
    return _plot(
        [[progress.amount(found.job, sample.config, point.epoch) for point in sample.curve] for sample in known],
        [[size * point.accuracy for point in sample.curve] for sample in known],
        title=f"{metric} over {found.job.counting.unit}, measured"
        + ("; the line is the target" if target is not None else ""),
        horizontal_lines=[] if target is None else [size * target],
        lines=True,
        legend_labels=[f"global batch {sample.config.global_batch}" for sample in known],
        color=coloured,
    )


def _plot(xs: list[Any], ys: list[Any], *, vertical_lines: Any = (), horizontal_lines: Any = (), **options: Any) -> str:
    try:
        uniplot = import_module("uniplot")
    except ImportError:
        raise missing_extra("uniplot", "plots") from None
    more = {"x_gridlines": list(vertical_lines), "y_gridlines": list(horizontal_lines)}
    drawn: str = uniplot.plot_to_string(xs=xs, ys=ys, width=_WIDTH, height=_HEIGHT, **more, **options)
    return drawn
