"""`cotune place`: layers on types of device, at the least cost for a throughput, with proof."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from cotune.cli._options import Json, Seed, StoreUrl

if TYPE_CHECKING:
    from cotune.place.answers import Answer, PlacementGoal
    from cotune.place.problems import Placement
    from cotune.place.profiles import Profile

_PREFERENCES: tuple[Literal["cheap", "fast"], ...] = ("cheap", "fast")


def place(
    profile: Annotated[Path, typer.Argument(help="JSON with the seconds of every layer on every type; or -.")],
    throughput: Annotated[float, typer.Option("--throughput", help="Examples per second to reach at least.")],
    prefer: Annotated[str, typer.Option("--prefer", help="cheap, or fast (every type needs a limit).")] = "cheap",
    search: Annotated[
        str, typer.Option("--search", help="Methods to compare, commas between: exact,reinforce,genetic,aibox ...")
    ] = "exact",
    overlap: Annotated[
        bool | None,
        typer.Option(
            "--overlap/--no-overlap", help="Whether computing and communicating overlap, if not as the profile says."
        ),
    ] = None,
    free_cuts: Annotated[bool, typer.Option("--free-cuts", help="Allow cuts between stages of one type.")] = False,
    batches: Annotated[
        str | None, typer.Option("--batches", help="Batches to choose among: 256,1024,4096 (needs *_fixed seconds).")
    ] = None,
    examples: Annotated[
        float | None, typer.Option("--examples", help="Examples of an epoch, for the whole cost.")
    ] = None,
    epochs: Annotated[float, typer.Option("--epochs", help="Epochs, for the whole cost.")] = 1,
    time_limit: Annotated[str, typer.Option("--time-limit", help="When to stop proving: 10s, 1m.")] = "10s",
    keep: Annotated[bool, typer.Option("--keep", help="Keep the result in the store, for the dashboard.")] = False,
    store: StoreUrl = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Assign layers to device types at the least cost, proven. The plan reaches the throughput asked for."""
    import math

    from cotune import units
    from cotune.cli._options import one_of
    from cotune.cli._output import emit_json
    from cotune.errors import Infeasible, UsageError
    from cotune.place.answers import PlacementGoal, answer
    from cotune.place.problems import Placement
    from cotune.place.profiles import read

    if not (math.isfinite(throughput) and throughput > 0):
        raise UsageError(f"--throughput must be positive, not {throughput:g}")
    if examples is not None and not (examples > 0 and epochs > 0):
        raise UsageError("--examples and --epochs must be positive")
    known = read(profile)
    overlap = known.overlap if overlap is None else overlap
    asked = PlacementGoal(
        throughput,
        one_of(_PREFERENCES, prefer, "--prefer"),
        overlap,
        free_cuts,
        _batches(batches),
        units.seconds(time_limit),
    )
    try:
        best = answer(known, asked)
    except Infeasible as error:
        nearest = tuple(_plan(near, known) for near in error.nearest if isinstance(near, Placement))
        raise Infeasible(str(error), error.constraint, nearest, error.by, error.unit) from None
    found = _searches(known, asked, search, best, seed)
    work = None if examples is None else examples * epochs
    if keep:
        _keep(store, profile, known, _document(known, asked, best, found, work))
    if json:
        emit_json("place", _document(known, asked, best, found, work))
    else:
        _show(known, best, found, work)


def _keep(store: str | None, path: Path, known: Profile, document: dict[str, Any]) -> None:
    from cotune.cli._options import open_store
    from cotune.cli._output import note

    with open_store(store) as opened:
        layers = [layer.name for layer in known.layers]
        opened.save_result("place", path.name, document | {"layers": layers})
        note(f"kept in {opened.label}; cotune dashboard shows it")


def _batches(text: str | None) -> tuple[float, ...]:
    from cotune.errors import UsageError

    try:
        batches = tuple(float(part) for part in (text or "").split(",") if part.strip())
    except ValueError:
        batches = (0.0,)
    if any(not 0 < batch < float("inf") for batch in batches):
        raise UsageError(f"cannot read --batches {text!r}; write --batches 256,1024,4096")
    return batches


def _searches(known: Profile, asked: PlacementGoal, names: str, best: Answer, seed: int) -> dict[str, dict[str, Any]]:
    """Return what each method found and how long it took."""
    import random
    import time
    from dataclasses import replace

    from cotune.algorithms import several
    from cotune.place.methods import method_of

    problem = replace(asked, batches=(best.plan.batch,) if asked.batches else ()).problems(known)[0]
    found: dict[str, dict[str, Any]] = {}
    for name in several(names):
        if name == "exact":
            found[name] = {"cost_per_million": best.plan.cost_per_million, "seconds": best.seconds, "plan": best.plan}
            continue
        method = method_of(name, known, problem)
        begun = time.perf_counter()
        plan = method.place(problem, random.Random(seed))
        took = time.perf_counter() - begun
        found[name] = {"cost_per_million": plan.cost_per_million if plan else None, "seconds": took, "plan": plan}
    return found


def _plan(plan: Placement, known: Profile) -> dict[str, Any]:
    stages = [
        {
            "type": stage.device,
            "first": stage.first,
            "last": stage.last,
            "units": stage.workers,
            "seconds": seconds,
            "limited_by": limited or None,
        }
        for stage, seconds, limited in zip(plan.stages, plan.stage_seconds, plan.limited_by, strict=True)
    ]
    return {
        "stages": stages,
        "throughput": plan.throughput,
        "cost_per_million": plan.cost_per_million,
        "unit": known.currency,
        "price_per_hour": plan.price * 3600,
        "units": plan.units,
        "batch": plan.batch,
        "bottleneck": plan.bottleneck,
    }


def _document(
    known: Profile, asked: PlacementGoal, best: Answer, found: dict[str, dict[str, Any]], work: float | None
) -> dict[str, Any]:
    plan = _plan(best.plan, known) | {
        "optimal": best.optimal,
        "bound": best.bound,
        "bound_of": "throughput" if asked.prefer == "fast" else "cost_per_million",
    }
    if work is not None:
        plan["training"] = _training(best.plan, work, known)
    return {
        "asked": {"throughput": asked.throughput, "prefer": asked.prefer, "overlap": asked.overlap, "free": asked.free},
        "model": known.name or None,
        "types": [entry.model_dump(exclude_none=True) for entry in known.types],
        "plan": plan,
        "next_cheaper": _plan(best.next_cheaper, known) if best.next_cheaper else None,
        "next_faster": _plan(best.next_faster, known) if best.next_faster else None,
        "searches": {
            name: result | {"unit": known.currency, "plan": _plan(result["plan"], known) if result["plan"] else None}
            for name, result in found.items()
        },
        "searched": {"times": best.searched, "seconds": best.seconds},
    }


def _training(plan: Placement, work: float, known: Profile) -> dict[str, Any]:
    """Return what a whole training takes; the filling of the pipeline is told apart, it is paid once."""
    return {
        "examples": work,
        "seconds": work / plan.throughput,
        "cost": plan.cost_per_million * work / 1e6,
        "unit": known.currency,
        "fill_seconds": sum(plan.stage_seconds) - plan.seconds,
    }


def _show(known: Profile, best: Answer, found: dict[str, dict[str, Any]], work: float | None) -> None:
    from cotune.cli._output import say, table
    from cotune.units import duration, number

    plan, currency = best.plan, known.currency
    rows = [
        (
            "->" if place == plan.bottleneck else "",
            _layers(known, stage.first, stage.last),
            stage.device,
            stage.workers,
            duration(seconds),
            limited,
        )
        for place, (stage, seconds, limited) in enumerate(
            zip(plan.stages, plan.stage_seconds, plan.limited_by, strict=True)
        )
    ]
    table(("", "layers", "type", "units", "per batch", "limited by"), rows)
    say()
    say(f"plan      {_line(plan, currency)}, batch {plan.batch:g}")
    slowest = plan.stages[plan.bottleneck]
    say(f"slowest   {_layers(known, slowest.first, slowest.last)} on {slowest.workers} {slowest.device}")
    if work is not None:
        training = _training(plan, work, known)
        fill = duration(training["fill_seconds"])
        say(
            f"training  {number(work)} examples in {duration(training['seconds'])} (and {fill} to fill the pipeline): "
            f"{number(training['cost'])} {currency}"
        )
    say(f"cheaper   {_line(best.next_cheaper, currency) if best.next_cheaper else 'nothing, at any throughput'}")
    say(f"faster    {_line(best.next_faster, currency) if best.next_faster else 'nothing, within the limits'}")
    proof = "optimal" if best.optimal else f"not proven when the time was up; the bound is {number(best.bound)}"
    say(f"proof     {proof}, {best.searched} times searched in {best.seconds:.3f} s")
    if len(found) > 1 or "exact" not in found:
        say()
        table(
            ("search", f"{currency} per million", "over the best", "seconds"),
            [
                (name, *_compared(result["cost_per_million"], plan.cost_per_million), f"{result['seconds']:.3f}")
                for name, result in found.items()
            ],
        )


def _compared(cost: float | None, best: float) -> tuple[str, str]:
    from cotune.units import number

    if cost is None:
        return "none found", ""
    return number(cost), f"{cost / best:.3f}" if best > 0 else "1.000"


def _line(plan: Placement, currency: str) -> str:
    from cotune.units import number

    stages = " + ".join(f"{stage.workers} {stage.device}" for stage in plan.stages)
    return f"{stages}: {number(plan.throughput)} examples/s, {number(plan.cost_per_million)} {currency} per million"


def _layers(known: Profile, first: int, last: int) -> str:
    named = [known.layers[place].name for place in (first, last)] if known.layers else ["", ""]
    span = f"{first}" if first == last else f"{first}..{last}"
    names = named[0] if first == last else f"{named[0]} to {named[1]}"
    return f"{span} ({names})" if all(named) else span
