"""Records as JSON documents and as table cells, in one place so that all verbs agree."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from cotune import progress
from cotune.types import MODEL_PARALLEL, Cluster, Config, Forecast, Goal, Job, Plan, Quantity, Sample
from cotune.units import duration, number


def config_document(config: Config) -> dict[str, Any]:
    """Return a config by the names of the contract."""
    laid_out = any(name in MODEL_PARALLEL for name, _ in config.axes)
    return {
        "workers": config.workers,
        "batch_size": config.batch_size,
        "global_batch": config.global_batch,
        "accumulate": config.accumulate,
        "servers": config.servers,
        "device": config.device,
        **({"dp": config.replicas, "micro_batch": config.batch_size} if laid_out else {}),
        **dict(config.axes),
    }


def quantity_document(quantity: Quantity) -> dict[str, Any]:
    """Return a quantity with its interval, source and unit."""
    document: dict[str, Any] = {
        "low": quantity.low,
        "mid": quantity.mid,
        "high": quantity.high,
        "source": quantity.source,
    }
    return document | ({"unit": quantity.unit} if quantity.unit else {})


def progress_document(job: Job | None, config: Config, **parts: float) -> dict[str, Any]:
    """Return how far something is, by name, in the unit that a job counts; nothing where the job is not known."""
    if job is None:
        return {}
    counts = {name: progress.amount(job, config, value) for name, value in parts.items()}
    return {"progress": {"unit": job.counting.unit, **counts}}


def scaled(quantity: Quantity | None, times: float) -> Quantity | None:
    """Return a quantity times a number."""
    if quantity is None or times == 1:
        return quantity
    low, mid, high = (value * times for value in (quantity.low, quantity.mid, quantity.high))
    return replace(quantity, low=low, mid=mid, high=high)


def forecast_document(forecast: Forecast, job: Job | None = None) -> dict[str, Any]:
    """Return a forecast with its config, its progress in the unit of the job."""
    parts = job.counting.parts if job else 1.0
    quantities = {
        "seconds": forecast.seconds,
        "accuracy": forecast.accuracy,
        "cost": forecast.cost,
        "epoch_seconds": scaled(forecast.epoch_seconds, parts),
        "epochs": scaled(forecast.epochs_needed, 1 / parts),
        "memory": forecast.memory,
    }
    needed = forecast.epochs_needed
    expected = {name: getattr(needed, name) for name in ("low", "mid", "high")} if needed else {}
    return {
        "config": config_document(forecast.config),
        "epochs": forecast.epochs if parts == 1 else forecast.epochs / parts,
        **progress_document(job, forecast.config, most=forecast.epochs, **expected),
        "forecast": {name: quantity_document(value) if value else None for name, value in quantities.items()},
        "probability": forecast.probability,
        "p_fits": forecast.p_fits,
    }


def plan_document(plan: Plan, job: Job | None = None) -> dict[str, Any]:
    """Return a plan: its config, cap, forecast, probability and reason, and what is left where part is trained."""
    document = forecast_document(plan.forecast, job) | {"reason": plan.reason, "notes": list(plan.notes)}
    if plan.rest is None:
        return document
    rest = forecast_document(plan.rest, job)
    return document | {"continues": {"sample": plan.continues, **rest["forecast"], "probability": rest["probability"]}}


def goal_document(job: Job, goal: Goal, unit: str) -> dict[str, Any]:
    """Return what was asked, of which metric, and the unit of its cost."""
    asked = {name: getattr(goal, name) for name in goal.__dataclass_fields__}
    return {"metric": job.metric, "better": job.better, **asked, "unit": unit}


def price_document(cluster: Cluster) -> dict[str, Any]:
    """Return what devices cost, and where the price comes from."""
    return {
        device.name: {
            "price_per_hour": device.price_per_hour,
            "unit": f"{cluster.currency} per hour",
            "source": device.price_source or "as given",
        }
        for device in cluster.devices
        if device.price_per_hour is not None
    }


def price_words(cluster: Cluster) -> list[str]:
    """Return the prices in use, each with its source, and the date of one that is listed."""
    return [
        f"{device.name} at {device.price_source or f'{device.price_per_hour:g} {cluster.currency} an hour, as given'}"
        + (f", by whole nodes of {device.per_node}" if device.bill == "node" and device.per_node else "")
        for device in cluster.devices
        if device.price_per_hour is not None
    ]


def goal_words(job: Job, goal: Goal, unit: str) -> str:
    """Return what was asked as a line."""
    least = "at least" if job.better == "higher" else "at most"
    parts = [f"{job.metric} {least} {goal.target:g}"] if goal.target is not None else []
    parts += [f"within {duration(goal.deadline)}"] if goal.deadline is not None else []
    parts += [f"for at most {number(goal.max_cost)} {unit}"] if goal.max_cost is not None else []
    if parts or job.counting.unit == "epochs":
        epochs = goal.cap / job.counting.parts
        return " ".join(parts) or f"{number(epochs)} epoch{'' if epochs == 1 else 's'}"
    return f"{number(goal.cap * (job.examples or 1))} examples"


def sample_document(sample: Sample, job: Job | None = None) -> dict[str, Any]:
    """Return a sample as measured, its progress in the unit of the job."""
    parts = job.counting.parts if job else 1.0
    return {
        "id": sample.id,
        "purpose": sample.purpose,
        "started": sample.started,
        "engine": sample.engine,
        "config": config_document(sample.config),
        "epochs": sample.epochs / parts,
        **progress_document(job, sample.config, done=sample.epochs),
        "epoch_seconds": None if sample.epoch_seconds is None else sample.epoch_seconds * parts,
        "accuracy": sample.accuracy,
        "seconds": sample.seconds,
        "device_seconds": sample.device_seconds,
        "terms": sample.terms.known(),
        "failure": sample.failure.words if sample.failure else None,
        "cause": sample.failure.cause if sample.failure else None,
        "warning": sample.warning,
        "modelled": sample.modelled,
        "seed": sample.seed,
        "memory": {"peak_bytes": sample.peak_bytes, "limit_bytes": sample.limit_bytes},
        "load": None if sample.load is None else {"others": sample.load.others, "cores": sample.load.cores},
        "resumed_from": sample.resumed_from,
        "ended": sample.ended,
        "folder": sample.folder,
        "curve": [
            {
                "epoch": point.epoch / parts,
                **({job.counting.unit: progress.amount(job, sample.config, point.epoch)} if parts != 1 and job else {}),
                "accuracy": point.accuracy,
                "seconds": point.seconds,
                **dict(point.metrics),
            }
            for point in sample.curve
        ],
    }


def profile_document(samples: Sequence[Sample], reused: float = 0.0) -> dict[str, Any]:
    """Return what measuring took so far, failed probes included."""
    probes = [sample for sample in samples if sample.purpose == "probe"]
    return {
        "samples": len(probes),
        "configs": len({sample.config for sample in probes}),
        "device_seconds": sum(sample.device_seconds for sample in probes),
        "reused_device_seconds": reused,
    }


def spread(quantity: Quantity | None, digits: int = 3) -> str:
    """Return 'mid (low..high)' for a table."""
    if quantity is None:
        return "unknown"
    low, mid, high = (number(value, digits) for value in (quantity.low, quantity.mid, quantity.high))
    return f"{mid} ({low}..{high})"


def time_spread(quantity: Quantity) -> str:
    """Return 'mid (low..high)' as durations."""
    return f"{duration(quantity.mid)} ({duration(quantity.low)}..{duration(quantity.high)})"


def config_columns(configs: Sequence[Config]) -> tuple[str, ...]:
    """Return what a table must show of configs: the layout, every named axis, and what else they differ in."""
    known = [config_document(config) for config in configs]
    named = dict.fromkeys(name for config in configs for name, _ in config.axes)
    always = ("workers", "batch_size", "global_batch", *named)
    others = dict.fromkeys(name for document in known for name in document if name not in always)
    differ = tuple(name for name in others if len({document.get(name) for document in known}) > 1)
    return always + differ


def config_cells(config: Config, columns: Sequence[str]) -> tuple[object, ...]:
    """Return a config's part of a row."""
    document = config_document(config)
    return tuple(document.get(name, "") for name in columns)


def head(columns: Sequence[str]) -> tuple[str, ...]:
    """Return columns as people read them."""
    return tuple(name.replace("_", " ") for name in columns)


def decision_table(
    job: Job, chosen: Forecast, rivals: Sequence[Forecast]
) -> tuple[tuple[str, ...], list[tuple[object, ...]]]:
    """Return head and rows of the decision table, the choice first."""
    forecasts = [chosen, *rivals]
    columns = config_columns([forecast.config for forecast in forecasts])
    memory = any(forecast.p_fits is not None for forecast in forecasts)
    rest: tuple[str, ...] = (
        job.counting.unit,
        "time",
        job.metric,
        f"cost in {chosen.cost.unit}",
        "P(met)",
        "known from",
    )
    rest += ("memory in GiB", "P(fits)") if memory else ()
    rows = [
        (
            *_decision_row("->" if forecast is chosen else "", job, forecast, columns),
            *(_fits(forecast) if memory else ()),
        )
        for forecast in forecasts
    ]
    return ("", *head(columns), *rest), rows


def _fits(forecast: Forecast) -> tuple[str, str]:
    """Return what a worker takes of memory and the chance that it fits, for a table."""
    chance = "" if forecast.p_fits is None else f"{forecast.p_fits:.2f}"
    return spread(scaled(forecast.memory, 1 / 2**30)) if forecast.memory else "", chance


def _decision_row(mark: str, job: Job, forecast: Forecast, columns: Sequence[str]) -> tuple[object, ...]:
    return (
        mark,
        *config_cells(forecast.config, columns),
        spread(scaled(forecast.epochs_needed, progress.amount(job, forecast.config, 1.0))),
        time_spread(forecast.seconds),
        spread(forecast.accuracy, 4),
        spread(forecast.cost),
        f"{forecast.probability:.2f}",
        forecast.seconds.source,
    )


def counted_words(job: Job, sample: Sample) -> dict[str, str | None]:
    """Return how far a sample is and how fast it was, in the unit that its job counts."""
    pace = sample.epoch_seconds
    each = progress.each(job)
    return {
        "at": f"{each} {number(progress.amount(job, sample.config, sample.epochs), 3)}",
        "done": progress.words(job, sample.config, sample.epochs),
        "pace": None if pace is None else f"{number(progress.pace(job, sample.config, pace), 3)} s per {each}",
        "unit": job.counting.unit,
    }


def plan_text(plan: Plan) -> str:
    """Return a plan as people read it: its decision table, the choice first, and the reason."""
    choice, columns, rows = _shown(plan)
    cells = [columns, *([str(cell) for cell in row] for row in rows)]
    widths = [max(len(line[place]) for line in cells) for place in range(len(columns))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in cells]
    return "\n".join([choice, *lines, plan.reason])


def plan_html(plan: Plan) -> str:
    """Return a plan as a notebook shows it."""
    choice, columns, rows = _shown(plan)
    head = "".join(f"<th>{html.escape(name)}</th>" for name in columns)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows)
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f"<p><b>{html.escape(choice)}</b></p>{table}<p>{html.escape(plan.reason)}</p>"


def _shown(plan: Plan) -> tuple[str, tuple[str, ...], list[tuple[object, ...]]]:
    """Return a plan's choice in words, and its decision table, in the unit that its job counts."""
    job = Job("", metric=plan.metric, examples=plan.examples, counting=plan.counting)
    most = progress.words(job, plan.config, plan.epochs)
    return f"{plan.config}, at most {most}", *decision_table(job, plan.forecast, plan.rivals)
