"""What `cotune place` prints: the plan with its proof, its neighbours, and the methods that it is compared with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cotune.cli.output import say, table
from cotune.placement.answers import Answer, PlacementGoal
from cotune.placement.problems import Placement
from cotune.placement.profiles import Profile
from cotune.units import duration, number


@dataclass(frozen=True, slots=True)
class SearchedPlan:
    """What one method found, if anything, and the seconds it took."""

    plan: Placement | None
    seconds: float


def placement_document(plan: Placement, known: Profile) -> dict[str, Any]:
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


def answer_document(
    known: Profile, asked: PlacementGoal, best: Answer, found: Mapping[str, SearchedPlan], work: float | None
) -> dict[str, Any]:
    plan = placement_document(best.plan, known) | {
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
        "next_cheaper": placement_document(best.next_cheaper, known) if best.next_cheaper else None,
        "next_faster": placement_document(best.next_faster, known) if best.next_faster else None,
        "searches": {
            name: {
                "cost_per_million": one.plan.cost_per_million if one.plan else None,
                "unit": known.currency,
                "seconds": one.seconds,
                "plan": placement_document(one.plan, known) if one.plan else None,
            }
            for name, one in found.items()
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


def show_placement(known: Profile, best: Answer, found: Mapping[str, SearchedPlan], work: float | None) -> None:
    _show_stages(known, best.plan)
    say()
    _show_answer(known, best, work)
    if len(found) > 1 or "exact" not in found:
        say()
        _show_searches(known, best, found)


def _show_stages(known: Profile, plan: Placement) -> None:
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


def _show_answer(known: Profile, best: Answer, work: float | None) -> None:
    plan, currency = best.plan, known.currency
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
    proof = "optimal" if best.optimal else f"not proven; the bound is {number(best.bound)}"
    say(f"proof     {proof}, {best.searched} times searched in {best.seconds:.3f} s")


def _show_searches(known: Profile, best: Answer, found: Mapping[str, SearchedPlan]) -> None:
    rows = [
        (name, *_compared(one.plan, best.plan.cost_per_million), f"{one.seconds:.3f}") for name, one in found.items()
    ]
    table(("search", f"{known.currency} per million", "over the best", "seconds"), rows)


def _compared(plan: Placement | None, best: float) -> tuple[str, str]:
    if plan is None:
        return "none found", ""
    cost = plan.cost_per_million
    return number(cost), f"{cost / best:.3f}" if best > 0 else "1.000"


def _line(plan: Placement, currency: str) -> str:
    stages = " + ".join(f"{stage.workers} {stage.device}" for stage in plan.stages)
    return f"{stages}: {number(plan.throughput)} examples/s, {number(plan.cost_per_million)} {currency} per million"


def _layers(known: Profile, first: int, last: int) -> str:
    named = [known.layers[place].name for place in (first, last)] if known.layers else ["", ""]
    span = f"{first}" if first == last else f"{first}..{last}"
    names = named[0] if first == last else f"{named[0]} to {named[1]}"
    return f"{span} ({names})" if all(named) else span
