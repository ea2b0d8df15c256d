"""The figures of a report, as plain dictionaries in plotly's format (`frames` has what they share)."""

from __future__ import annotations

from typing import Any

import numpy as np

from cotune import progress
from cotune.reports.findings import Findings
from cotune.reports.frames import SERIES, Figure, Trace, clock, counted, layout, line_at, logarithmic, words
from cotune.types import Z90, Floats, Ints
from cotune.units import duration, number

_POINTS = 1500  # configs drawn at most; those in the frontier's neighbourhood are kept
_CURVES = 12
_MARKED = 30  # points of a curve that are marked one by one


def cost_time(found: Findings) -> Figure:
    """Return cost against time of all configs, with frontier, plan, deadline and budget."""
    judged = found.assessed
    known = judged.seconds[np.isfinite(judged.seconds)]
    size, unit = clock(float(np.median(known)) if len(known) else 0.0)
    able, reaches = judged.feasible, found.sure >= found.goal.confidence
    kinds = (
        ("may miss the target", ~able & ~reaches, {"color": "@muted/0.55", "size": 5, "symbol": "circle-open"}),
        ("may be too late or too dear", ~able & reaches, {"color": "@s2/0.75", "size": 7, "symbol": "diamond"}),
        ("meets the goal", able, {"color": "@s1/0.8", "size": 8, "symbol": "circle"}),
    )
    drawn = _thinned(found)
    traces = [
        _cloud(found, np.flatnonzero(which & drawn), size, name, marker)
        for name, which, marker in kinds
        if (which & drawn).any()
    ]
    front = found.frontier
    traces.append(
        {
            "type": "scatter", "mode": "lines", "name": "frontier", "hoverinfo": "skip",
            "x": _list(judged.seconds[front] / size), "y": _list(judged.cost[front]),
            "line": {"color": "@s1", "width": 1.5, "shape": "hv"},
        }
    )  # fmt: skip
    if found.plan is not None:
        traces.append(_chosen(found, size))
    shapes, notes = _limits(found, size)
    return {
        "data": traces,
        "layout": layout(
            f"time to the goal ({unit})",
            f"cost ({words(found.unit)})",
            xaxis=logarithmic((judged.seconds[drawn] / size).tolist()),
            yaxis=logarithmic(judged.cost[drawn].tolist()),
            shapes=shapes,
            annotations=notes,
        ),
    }


def _chosen(found: Findings, size: float) -> Trace:
    assert found.plan is not None
    plan = found.plan.forecast
    seconds, cost = plan.seconds, plan.cost
    return {
        "type": "scatter", "mode": "markers", "name": "plan",
        "x": [seconds.mid / size], "y": [cost.mid],
        "error_x": {"type": "data", "symmetric": False, "array": [(seconds.high - seconds.mid) / size],
                    "arrayminus": [(seconds.mid - seconds.low) / size], "color": "@accent", "thickness": 1.5},
        "marker": {"symbol": "star", "size": 17, "color": "@accent", "line": {"color": "@card", "width": 1.5}},
        "hovertemplate": f"<b>plan</b><br>{words(plan.config)}<br>{duration(seconds.mid)}, {number(cost.mid)} "
                         f"{words(cost.unit)}<extra></extra>",
    }  # fmt: skip


def _limits(found: Findings, size: float) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    goal, lines = found.goal, []
    if goal.deadline is not None:
        lines.append(line_at("x", goal.deadline / size, f" deadline {duration(goal.deadline)}"))
    if goal.max_cost is not None:
        lines.append(line_at("y", goal.max_cost, f"at most {number(goal.max_cost)} {found.unit}"))
    for _, label in lines:
        for axis in ("x", "y"):  # on a logarithmic axis plotly places labels by the logarithm
            if label[f"{axis}ref"] == axis:
                label[axis] = float(np.log10(label[axis]))
    return [shape for shape, _ in lines], [label for _, label in lines]


def _thinned(found: Findings) -> Any:
    """Return which configs to draw: all, or those nearest to the frontier and an even choice of the rest."""
    judged = found.assessed
    able = np.isfinite(judged.cost) & np.isfinite(judged.seconds)
    rows = np.flatnonzero(able)
    if len(rows) <= _POINTS:
        return able
    score = np.log(judged.seconds[rows]) + np.log(np.maximum(judged.cost[rows], 1e-12))
    near = rows[np.argsort(score)[: _POINTS // 2]]
    drawn = np.zeros(len(able), dtype=bool)
    drawn[near] = drawn[found.frontier] = True
    drawn[rows[np.linspace(0, len(rows) - 1, _POINTS // 2).astype(int)]] = True
    return drawn


def _cloud(found: Findings, rows: Ints, size: float, name: str, marker: dict[str, Any]) -> Trace:
    judged, configs = found.assessed, found.assessed.outlook.configs
    told = zip(judged.seconds[rows].tolist(), judged.probability[rows].tolist(), strict=True)
    return {
        "type": "scatter", "mode": "markers", "name": f"{name} ({len(rows)})",
        "x": _list(judged.seconds[rows] / size), "y": _list(judged.cost[rows]),
        "text": [words(configs[int(row)]) for row in rows],
        "customdata": [[duration(seconds), round(probability, 2)] for seconds, probability in told],
        "hovertemplate": "%{text}<br>%{customdata[0]}, %{y:.4~g} " + words(found.unit)
                         + "<br>P(met) %{customdata[1]}<extra></extra>",
        "marker": marker,
    }  # fmt: skip


def epoch_times(found: Findings, most: int = len(SERIES)) -> Figure:
    """Return seconds per epoch (or step, or token) over workers, a line with its interval for each batch size."""
    outlook, each = found.assessed.outlook, progress.each(found.job)
    configs = outlook.configs
    chosen = found.plan.config if found.plan else configs[int(np.argmin(found.assessed.seconds))]
    alike = (configs.device == chosen.device) & (configs.servers == chosen.servers)
    alike &= (configs.accumulate == chosen.accumulate) & np.isfinite(outlook.epoch_seconds)
    for name, value in chosen.axes:
        alike &= configs.columns[name] == value if name in configs.columns else True
    traces: list[Trace] = []
    for colour, batch in zip(SERIES, _batches(found, configs.batch_size[alike], chosen.batch_size, most), strict=False):
        rows = np.flatnonzero(alike & (configs.batch_size == batch))
        rows = rows[np.argsort(configs.workers[rows], kind="stable")]
        x = _list(configs.workers[rows])
        middle = np.array([progress.pace(found.job, configs[int(row)], outlook.epoch_seconds[row]) for row in rows])
        width = np.exp(Z90 * outlook.spread[rows])
        label = f"batch {batch}"
        traces += _band(x, middle / width, middle * width, colour, label)
        line: Trace = {"type": "scatter", "mode": "lines", "name": label, "legendgroup": label, "x": x}
        line |= {"y": _list(middle), "line": {"color": f"@{colour}", "width": 2}}
        line["hovertemplate"] = f"%{{x}} workers: %{{y:.3~g}} s per {each}<extra>{label}, forecast</extra>"
        traces += [line, *_measured_times(found, batch, chosen.device, colour, label)]
    return {
        "data": traces,
        "layout": layout(
            "workers",
            f"seconds per {each}",
            yaxis=logarithmic([y for trace in traces for y in trace["y"] if y is not None]),
            xaxis=counted([x for trace in traces for x in trace["x"]]),
        ),
    }


def _batches(found: Findings, there: Ints, chosen: int, most: int) -> list[int]:
    """Return which batch sizes to draw: the plan's, then those measured most often, then an even choice."""
    known = [int(batch) for batch in np.unique(there)]
    counts = dict.fromkeys(known, 0)
    for sample in found.samples:
        if sample.epoch_seconds is not None and sample.config.batch_size in counts:
            counts[sample.config.batch_size] += 1
    even = (
        [known[place] for place in np.linspace(0, len(known) - 1, min(most, len(known))).astype(int)] if known else []
    )
    ranked = sorted((batch for batch in known if counts[batch]), key=lambda batch: -counts[batch])
    return sorted(list(dict.fromkeys([chosen, *ranked[: most - 2], *even, *ranked]))[:most])


def _measured_times(found: Findings, batch: int, device: str, colour: str, label: str) -> list[Trace]:
    points = [
        (sample.config.workers, progress.pace(found.job, sample.config, sample.epoch_seconds))
        for sample in found.samples
        if sample.epoch_seconds is not None and sample.config.batch_size == batch and sample.config.device == device
    ]
    if not points:
        return []
    each = progress.each(found.job)
    marker = {"color": f"@{colour}", "size": 8, "line": {"color": "@card", "width": 1.5}}
    return [
        {
            "type": "scatter", "mode": "markers", "legendgroup": label, "showlegend": False, "name": label,
            "x": [workers for workers, _ in points], "y": [seconds for _, seconds in points], "marker": marker,
            "hovertemplate": f"%{{x}} workers: %{{y:.3~g}} s per {each}<extra>{label}, measured</extra>",
        }
    ]  # fmt: skip


def _band(x: list[Any], low: Floats, high: Floats, colour: str, group: str) -> list[Trace]:
    edge: Trace = {"type": "scatter", "mode": "lines", "line": {"width": 0}, "hoverinfo": "skip"}
    edge |= {"showlegend": False, "legendgroup": group, "x": x}
    return [edge | {"y": _list(high)}, edge | {"y": _list(low), "fill": "tonexty", "fillcolor": f"@{colour}/0.14"}]


def learning_curves(found: Findings) -> Figure | None:
    """Return the metric over epochs, steps or tokens as measured, and the forecast of the plan with its interval."""
    traces: list[Trace] = []
    measured = sorted((sample for sample in found.samples if sample.curve), key=lambda one: -len(one.curve))[:_CURVES]
    batches = sorted({sample.config.global_batch for sample in measured})
    for sample in measured:
        label = f"global batch {sample.config.global_batch}"
        colour = SERIES[batches.index(sample.config.global_batch) % len(SERIES)]
        first = all(trace["legendgroup"] != label for trace in traces)
        traces.append(
            {
                "type": "scatter", "mode": "lines+markers" if len(sample.curve) <= _MARKED else "lines",
                "name": label, "legendgroup": label, "showlegend": first,
                "x": [progress.amount(found.job, sample.config, point.epoch) for point in sample.curve],
                "y": [_known(point.accuracy) for point in sample.curve],
                "line": {"color": f"@{colour}", "width": 1.5}, "marker": {"size": 5},
                "hovertemplate": f"{progress.each(found.job)} %{{x:.5~g}}: %{{y:.4~g}}<extra>{label}, measured</extra>",
            }
        )  # fmt: skip
    traces += _forecast_curve(found)
    if not traces:
        return None
    lines = [] if found.goal.target is None else [line_at("y", found.goal.target, f"target {found.goal.target:g}")]
    return {
        "data": traces,
        "layout": layout(
            found.job.counting.unit,
            words(found.job.metric),
            xaxis={"rangemode": "tozero"},
            shapes=[shape for shape, _ in lines],
            annotations=[label for _, label in lines],
        ),
    }


def _forecast_curve(found: Findings) -> list[Trace]:
    outlook = found.assessed.outlook
    if (learning := outlook.learning) is None:
        return []
    row = _row(found)
    recipe, sign = learning.recipe[row], found.job.sign
    config = outlook.configs[row]
    count = max(int(learning.evaluated(recipe, found.assessed.goal.max_epochs)), 1)
    low, middle, high = np.quantile(learning.shown[recipe, :, :count], (0.1, 0.5, 0.9), axis=0)
    ends = [low * sign, high * sign]
    step = float(learning.steps[recipe])
    x = [progress.amount(found.job, config, step * place) for place in range(1, len(middle) + 1)]
    label = f"forecast, global batch {int(outlook.configs.global_batch[row])}"
    line: Trace = {"type": "scatter", "mode": "lines", "name": label, "legendgroup": label, "x": x}
    line |= {"y": _list(middle * sign), "line": {"color": "@accent", "width": 2.5, "dash": "dot"}}
    line["hovertemplate"] = f"{progress.each(found.job)} %{{x:.5~g}}: %{{y:.4~g}}<extra>forecast</extra>"
    return [*_band(x, min(ends, key=np.sum), max(ends, key=np.sum), "accent", label), line]


def _row(found: Findings) -> int:
    """Return the row of the plan, or of the likeliest config where there is none."""
    configs = found.assessed.outlook.configs
    if found.plan is None:
        return int(np.argmax(found.assessed.probability))
    return int(configs.same(found.plan.config).argmax())


def scaling_figure(found: Findings) -> Figure | None:
    """Return the speed-up over workers beside perfect scaling, and where it stops paying."""
    scaling = found.scaling
    if scaling is None or len(scaling.steps) < 2:
        return None
    workers = [step.workers for step in scaling.steps]
    fewest, paying = workers[0], scaling.last_paying
    perfect = {
        "type": "scatter", "mode": "lines", "name": "perfect scaling", "x": [fewest, workers[-1]],
        "y": [1, workers[-1] / fewest], "line": {"color": "@muted", "width": 1.2, "dash": "dot"}, "hoverinfo": "skip",
    }  # fmt: skip
    real = {
        "type": "scatter", "mode": "lines+markers", "name": "speed-up to the goal", "x": workers,
        "y": [step.speed_up for step in scaling.steps],
        "customdata": [[duration(step.seconds), f"{step.efficiency:.0%}"] for step in scaling.steps],
        "line": {"color": "@s1", "width": 2.5}, "marker": {"size": 8},
        "hovertemplate": "%{x} workers: %{y:.2f} times as fast, %{customdata[0]}<br>efficiency %{customdata[1]}"
                         "<extra></extra>",
    }  # fmt: skip
    shapes, notes = [], []
    if paying.workers != workers[-1]:
        shape, note = line_at("x", paying.workers, f" pays up to {paying.workers}")
        shapes, notes = [shape], [note]
    axes = {"xaxis": counted(workers), "yaxis": {"rangemode": "tozero"}}
    return {
        "data": [perfect, real],
        "layout": layout("workers", "times as fast", shapes=shapes, annotations=notes, **axes),
    }


def cost_over_workers(found: Findings) -> Figure | None:
    """Return what the quickest way to the goal costs over workers."""
    scaling = found.scaling
    if scaling is None or len(scaling.steps) < 2:
        return None
    costs = [found.assessed.forecast(step.row).cost for step in scaling.steps]
    bars = {
        "type": "bar", "name": "cost", "x": [str(step.workers) for step in scaling.steps],
        "y": [cost.mid for cost in costs], "marker": {"color": "@s1/0.75"},
        "error_y": {"type": "data", "symmetric": False, "array": [cost.high - cost.mid for cost in costs],
                    "arrayminus": [cost.mid - cost.low for cost in costs], "color": "@ink", "thickness": 1},
        "hovertemplate": "%{x} workers: %{y:.4~g} " + words(found.unit) + "<extra></extra>",
    }  # fmt: skip
    return {
        "data": [bars],
        "layout": layout(
            "workers", f"cost ({words(found.unit)})", xaxis={"type": "category"}, yaxis={"rangemode": "tozero"}
        ),
    }


def _list(values: Any) -> list[Any]:
    return [None if isinstance(value, float) and not np.isfinite(value) else value for value in values.tolist()]


def _known(value: float) -> float | None:
    return value if np.isfinite(value) else None
