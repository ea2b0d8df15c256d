"""A report as one HTML page that needs nothing else: styles, scripts and figures are inside.

The order is that of a reader's questions: what was asked and what is the answer; what else
could be had; what is it built on; was it right; what did it cost to find out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import import_module, resources

from cotune import __version__, progress
from cotune.documents import decision_table, goal_words, price_words, spread, time_spread
from cotune.errors import missing_extra
from cotune.project.ended_runs import EndedRun
from cotune.reports import figures
from cotune.reports.findings import Findings
from cotune.reports.frames import Figure
from cotune.reports.markup import Markup, data, escaped, join, table, tag
from cotune.types import Forecast, Job, Quantity, Sample
from cotune.units import duration, number

_SHOWN = 200  # samples in the table; more are counted


def asset(name: str) -> str:
    """Return the text of a file that pages are made of."""
    return resources.files("cotune.reports").joinpath("assets", name).read_text(encoding="utf-8")


def plotly_script() -> str:
    """Return plotly's own script, from its Python package."""
    try:
        found: str = import_module("plotly.offline").get_plotlyjs()
    except ImportError:
        raise missing_extra("plotly", "plots") from None
    return found


def page(found: Findings, made: datetime | None = None) -> str:
    """Return the page."""
    drawing = _Drawing()
    title = f"{found.job.name}: training plan"
    body = [_head(found, made or datetime.now(UTC)), _answer(found), *_sections(found, drawing)]
    scripts = ["figures.js", "page.js"]
    code = join(tag("script", Markup(text)) for text in (plotly_script(), *map(asset, scripts)))
    foot = tag("footer", f"Made by cotune {__version__}. Intervals are 10th to 90th percentiles.")
    return whole_page(title, asset("page.css"), tag("main", *body, foot), drawing.data, code)


def whole_page(title: str, style: str, *body: Markup) -> str:
    """Return a page that needs nothing else, in the style that all pages share and its own."""
    head = (
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="generator", content=f"cotune {__version__}"),
        tag("title", title),
        tag("style", Markup(asset("base.css") + style)),
    )
    return f"<!doctype html>\n{tag('html', tag('head', *head), tag('body', *body), lang='en')}\n"


@dataclass
class _Drawing:
    """The figures met so far, as data that the page's script draws."""

    parts: list[Markup] = field(default_factory=list)

    def __call__(self, figure: Figure, name: str, caption: str, *, tall: bool = False) -> Markup:
        id = f"figure-{len(self.parts) + 1}"
        self.parts.append(tag("script", data(figure), type="application/json", id=id))
        plot = tag("div", class_="plot tall" if tall else "plot", data_figure=id, role="img", aria_label=name)
        return tag("figure", plot, tag("figcaption", caption))

    @property
    def data(self) -> Markup:
        return join(self.parts)


def _head(found: Findings, made: datetime) -> Markup:
    asked = f"{goal_words(found.job, found.goal, found.unit)}, with confidence {found.goal.confidence:g}"
    prices = "; ".join(price_words(found.cluster))
    return tag(
        "header",
        tag("h1", found.job.name),
        tag("p", "Goal: ", tag("strong", asked), class_="goal"),
        tag(
            "p", f"Prices: {prices}." if prices else "Costs are in device-seconds: no prices are given.", class_="small"
        ),
        tag("p", made.strftime("%d %B %Y, %H:%M UTC").lstrip("0"), class_="muted small"),
    )


def _answer(found: Findings) -> Markup:
    if found.plan is None:
        return tag(
            "section",
            tag("h2", "No plan meets this goal"),
            tag("p", str(found.refusal), class_="why"),
            class_="card hero refused",
        )
    plan = found.plan
    notes = tag("ul", *(tag("li", line) for line in plan.notes), class_="notes") if plan.notes else ""
    return tag(
        "section",
        tag("h2", "The plan", class_="muted"),
        tag("p", f"{str(plan.config)[0].upper()}{str(plan.config)[1:]}", class_="choice"),
        tag("p", f"At most {progress.words(found.job, plan.config, plan.epochs)}; {plan.reason}.", class_="why"),
        tag("div", *_tiles(found, plan.forecast), class_="tiles"),
        notes,
        class_="card hero",
    )


def _tiles(found: Findings, forecast: Forecast) -> Iterator[Markup]:
    goal = found.goal
    seconds, cost = forecast.seconds, forecast.cost
    limit = f"of {duration(goal.deadline)} allowed" if goal.deadline is not None else ""
    within = f"{duration(seconds.low)} to {duration(seconds.high)}"
    yield _tile("time", duration(seconds.mid), limit, within, source=seconds)
    if forecast.accuracy is not None:
        asked = f"of {goal.target:g} asked" if goal.target is not None else ""
        yield _quantity_tile(found.job.metric, forecast.accuracy, asked, digits=4)
    yield _quantity_tile(f"cost in {cost.unit}", cost, "")
    met = forecast.probability >= goal.confidence
    chance = "over 99%" if forecast.probability > 0.99 else f"{forecast.probability:.0%}"
    yield _tile("probability that all is met", chance, "", f"{goal.confidence:.0%} asked", good=met)


def _quantity_tile(name: str, quantity: Quantity, tail: str, digits: int = 3) -> Markup:
    low, mid, high = (number(value, digits) for value in (quantity.low, quantity.mid, quantity.high))
    return _tile(name, mid, tail, f"{low} to {high}", source=quantity)


def _tile(
    name: str, value: str, limit: str, within: str, *, source: Quantity | None = None, good: bool | None = None
) -> Markup:
    mark = "" if good is None else " good" if good else " bad"
    known = f", {source.source}" if source else ""
    return tag(
        "div",
        tag("div", name, class_="name"),
        tag("div", value, tag("small", limit) if limit else "", class_="value"),
        tag("div", within + known, class_="range"),
        class_=f"tile{mark}",
    )


def _sections(found: Findings, draw: _Drawing) -> Iterator[Markup]:
    parts = [_cost_time(found, draw), _rivals(found), *_scaling(found, draw), *_grounds(found, draw)]
    yield tag("div", *parts, *_verdicts(found), _measured(found), class_="grid", style="margin-top:1rem")


def _section(title: str, *parts: object, width: str = "") -> Markup:
    return tag("section", tag("h2", title), *parts, class_=f"card {width}".strip())


def _rivals(found: Findings) -> Markup:
    if found.plan is None:
        if not found.nearest:
            return Markup("")
        head, rows = decision_table(found.job, found.nearest[0], found.nearest[1:])
        body = [row[1:] for row in rows]
        return _section("The nearest that can be had", table(head[1:], body, "The nearest plans"))
    head, rows = decision_table(found.job, found.plan.forecast, found.plan.rivals)
    named = [("plan" if place == 0 else "", *row[1:]) for place, row in enumerate(rows)]
    lead = "The choice first, then the second best, and the best with each other number of workers."
    shown = table(head, named, "The plan and its rivals", marked=0)
    return _section("Plan and rivals", tag("p", lead, class_="muted small"), shown)


def _cost_time(found: Findings, draw: _Drawing) -> Markup:
    count = len(found.assessed.seconds)
    caption = (
        f"Each point is one of {count} configs: the median time and cost to reach the goal. Configs on the line are "
        "beaten by no other in both. The star is the plan, with the interval of its time."
    )
    figure = draw(figures.cost_time(found), "Cost against time of all configs", caption, tall=True)
    front = [found.assessed.forecast(int(row)) for row in found.frontier[:40]]
    rows = [(str(one.config), time_spread(one.seconds), spread(one.cost), f"{one.probability:.2f}") for one in front]
    head = ("config", "time", f"cost in {found.unit}", "P(met)")
    numbers = tag("details", tag("summary", "The frontier in numbers"), table(head, rows, "The frontier"))
    return _section("Cost against time", figure, numbers)


def _scaling(found: Findings, draw: _Drawing) -> Iterator[Markup]:
    scaling = found.scaling
    if scaling is None:
        return
    parts: list[object] = [tag("p", scaling.words)]
    if (figure := figures.scaling_figure(found)) is not None:
        parts.append(draw(figure, "Speed-up over workers", "Speed-up of the quickest config of each worker count."))
    head = ("workers", "quickest config", "time", f"cost in {found.unit}", "times as fast", "efficiency", "gain")
    rows = [
        (
            step.workers,
            str(found.assessed.outlook.configs[step.row]),
            duration(step.seconds),
            number(step.cost, 3),
            f"{step.speed_up:.2f}",
            f"{step.efficiency:.0%}",
            f"{step.gain:.0%}",
        )
        for step in scaling.steps
    ]
    explained = "Gain is what each worker added last brings, as a share of what the first ones brought."
    parts.append(
        tag(
            "details",
            tag("summary", "Scaling in numbers"),
            table(head, rows, "Scaling"),
            tag("p", explained, class_="muted small"),
        )
    )
    yield _section("Where scaling stops paying", *parts, width="half")
    if (figure := figures.cost_over_workers(found)) is not None:
        caption = "What that speed costs; bars are medians, whiskers the interval."
        yield _section("What speed costs", draw(figure, "Cost over workers", caption), width="half")


def _grounds(found: Findings, draw: _Drawing) -> Iterator[Markup]:
    caption = "Lines are forecasts with their interval, points were measured."
    each = progress.each(found.job)
    times = draw(figures.epoch_times(found), f"Seconds per {each} over workers", caption)
    yield _section(f"Seconds per {each}", times, width="half")
    figure = figures.learning_curves(found)
    if figure is None:
        words = "No learning curve was measured: the job reported no metric, or none was needed for this goal."
        yield _section("Learning curves", tag("p", words, class_="muted"), width="half")
        return
    caption = "Solid lines were measured; the dotted one is the forecast for the plan's global batch."
    yield _section("Learning curves", draw(figure, "Learning curves", caption), width="half")


def _verdicts(found: Findings) -> Iterator[Markup]:
    if not found.runs:
        yield _section(
            "Forecast against measured",
            tag("p", "No run has ended yet: ", tag("code", "cotune run"), " runs the plan.", class_="muted"),
        )
        return
    parts = [_verdict(found, run) for run in found.runs[:3]]
    more = len(found.runs) - len(parts)
    left = tag("p", f"{more} earlier runs are left out.", class_="muted small") if more > 0 else ""
    yield _section("Forecast against measured", *parts, left)


def _verdict(found: Findings, run: EndedRun) -> Markup:
    last, forecast = run.last, run.plan.forecast if run.plan else None
    mark = tag("span", run.words, class_="badge good") if run.missed is None else ""
    if run.missed is not None:
        mark = tag("span", "failed" if last.failed else "missed", class_="badge bad")
    compared = [
        ("time", forecast.seconds if forecast else None, run.seconds, duration),
        ("seconds per epoch", forecast.epoch_seconds if forecast else None, last.epoch_seconds, number),
        (found.job.metric, forecast.accuracy if forecast else None, last.accuracy, number),
        (f"cost in {found.unit}", forecast.cost if forecast else None, run.cost, number),
    ]
    rows = [
        (
            name,
            "unknown" if said is None else f"{show(said.mid)} ({show(said.low)} to {show(said.high)})",
            "unknown" if real is None else show(real),
            _within(said, real),
        )
        for name, said, real, show in compared
    ]
    done = progress.words(found.job, last.config, last.epochs)
    words = f"{last.config}, {done}, {last.started[:16].replace('T', ' ')} "
    starts = f"in {len(run.starts)} starts " if len(run.starts) > 1 else ""
    return join(
        [
            tag("h3", words + starts, mark, style="margin-top:.9rem"),
            tag("p", run.missed, class_="muted small") if run.missed else "",
            table(("", "forecast", "measured", "measured / forecast"), rows, f"Run {last.id}"),
        ]
    )


def _within(said: Quantity | None, real: float | None) -> Markup | str:
    if said is None or real is None or not said.mid:
        return ""
    inside = said.low <= real <= said.high
    badge = tag("span", "within" if inside else "outside", class_="badge good" if inside else "badge bad")
    return join([f"{real / said.mid:.2f} ", badge])


def _measured(found: Findings) -> Markup:
    samples = found.samples
    probes = [sample for sample in samples if sample.purpose == "probe"]
    runs = [sample for sample in samples if sample.purpose == "run"]
    rows = [(kind, *_totals(found, some)) for kind, some in (("probes", probes), ("runs", runs)) if some]
    totals = table(
        ("", "starts", "configs", "failed", "time", "device-seconds", f"cost in {found.unit}"), rows, "Totals"
    )
    shown, unit = samples[-_SHOWN:], found.job.counting.unit
    head = (
        "started",
        "what",
        "config",
        unit,
        f"s/{progress.each(found.job)}",
        found.job.metric,
        "device-seconds",
        "outcome",
    )
    listed = table(head, [_row(found.job, sample) for sample in reversed(shown)], "Samples")
    left = f" (the last {_SHOWN} of {len(samples)})" if len(samples) > _SHOWN else ""
    every = tag("details", tag("summary", f"Every start{left}"), listed) if samples else ""
    return _section("What was measured, and what it cost", totals if rows else tag("p", "Nothing yet."), every)


def _totals(found: Findings, samples: list[Sample]) -> tuple[object, ...]:
    return (
        len(samples),
        len({sample.config for sample in samples}),
        sum(sample.failed for sample in samples),
        duration(sum(sample.seconds for sample in samples)),
        number(sum(sample.device_seconds for sample in samples)),
        number(found.cost(samples)),
    )


def _row(job: Job, sample: Sample) -> tuple[object, ...]:
    good = sample.failure is None
    outcome = sample.failure or ("running" if not sample.ended else sample.warning or "ok")
    return (
        sample.started[:19].replace("T", " "),
        sample.purpose,
        str(sample.config) + (" (part of its machine was modelled)" if sample.modelled else ""),
        f"{progress.amount(job, sample.config, sample.epochs):.3g}",
        "" if sample.epoch_seconds is None else number(progress.pace(job, sample.config, sample.epoch_seconds), 3),
        "" if sample.accuracy is None else number(sample.accuracy),
        number(sample.device_seconds, 3),
        escaped(outcome) if good else tag("span", outcome, class_="bad"),
    )
