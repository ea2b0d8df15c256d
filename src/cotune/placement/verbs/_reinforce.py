"""`cotune pipeline reinforce`: both phases of HeterPS's training, the second on real runs, beside the exact plan."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from cotune.cli.options import one_of, runs_folder
from cotune.cli.output import emit_json, note, say, table
from cotune.identity import new_id
from cotune.placement.answers import PlacementGoal
from cotune.placement.counts import Provisioning
from cotune.placement.episodes import Episodes, MeasuredPlan, pipelines, refined
from cotune.placement.profiles import read
from cotune.placement.staged import engines
from cotune.units import number

_PROVISIONS: tuple[Provisioning, ...] = ("exact", "balanced")


def reinforced(
    profile: Path, throughput: float, count: int, batches: int, provision: str, seed: int, *, json: bool
) -> None:
    """Train the policy by the cost model and then by real runs, and show what each plan costs when it runs."""
    known = read(profile)
    counts = one_of(_PROVISIONS, provision, "--provision")
    folder = runs_folder() / new_id()
    folder.mkdir(parents=True)
    with engines() as there:
        run = pipelines(there, known, batches, folder, note)
        episodes = Episodes(known, PlacementGoal(throughput, overlap=known.overlap), run, counts)
        found = refined(episodes, count, random.Random(seed))
    rows = {
        "exact": found.exact,
        "reinforce, by the cost model": found.first_phase,
        f"reinforce, after {count} episodes": found.second_phase,
    }
    if json:
        plans = {name: None if plan is None else _document(plan) for name, plan in rows.items()}
        told = {"episodes": count, "runs": found.runs, "plans": plans, "unit": f"{known.currency} per million examples"}
        emit_json("pipeline.reinforce", told)
        return
    heads = ("plan of", "stages", "examples/s: model", "measured", f"{known.currency} per million: model", "measured")
    table(heads, [(name, *_cells(plan)) for name, plan in rows.items()])
    say(f"{count} episodes ran {found.runs} different plans for {batches} batches each")


def _cells(found: MeasuredPlan | None) -> tuple[str, ...]:
    if found is None:
        return ("none is fast enough", "", "", "", "")
    plan = found.plan
    stages = " | ".join(f"{stage.workers} {stage.device} ({stage.first}..{stage.last})" for stage in plan.stages)
    numbers = (plan.throughput, found.throughput, plan.cost_per_million, found.cost_per_million)
    return (stages, *(number(value) for value in numbers))


def _document(found: MeasuredPlan) -> dict[str, Any]:
    stages = [
        {"type": stage.device, "units": stage.workers, "first": stage.first, "last": stage.last}
        for stage in found.plan.stages
    ]
    return {
        "stages": stages,
        "throughput": {"model": found.plan.throughput, "measured": found.throughput},
        "cost_per_million": {"model": found.plan.cost_per_million, "measured": found.cost_per_million},
    }
