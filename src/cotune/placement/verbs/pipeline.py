"""`cotune pipeline`: measure layers for `cotune place`, and run its plans."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Annotated, Any

import typer

from cotune.cli.options import Json, Seed, one_of, runs_folder
from cotune.cli.output import emit_json, note, say, table
from cotune.errors import UsageError
from cotune.identity import new_id
from cotune.placement.answers import PlacementGoal
from cotune.placement.elastic import ask_resize
from cotune.placement.episodes import Episodes, MeasuredPlan, pipelines, refined
from cotune.placement.problems import in_words
from cotune.placement.profiles import read
from cotune.placement.provisioning import PROVISIONS
from cotune.placement.staged import engines
from cotune.placement.verbs._profile_layers import profile
from cotune.placement.verbs._run_placement import run
from cotune.units import number

pipeline = typer.Typer(no_args_is_help=True, help="Measure layers for `cotune place`, and run what it planned.")

for command in (profile, run):
    pipeline.command()(command)


@pipeline.command()
def reinforce(
    profile: Annotated[Path, typer.Argument(help="What `cotune pipeline profile` wrote.")],
    throughput: Annotated[float, typer.Option("--throughput", help="Examples per second to reach at least.")],
    episodes: Annotated[int, typer.Option("--episodes", min=1, help="Plans that the policy draws and runs.")] = 12,
    batches: Annotated[int, typer.Option("--batches", min=4, help="Batches of each run.")] = 30,
    provision: Annotated[str, typer.Option("--provision", help="exact, or balanced as HeterPS does.")] = "exact",
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Let HeterPS's policy learn from plans that are really run, and compare it with the exact plan."""
    known = read(profile)
    counts = one_of(PROVISIONS, provision, "--provision")
    folder = runs_folder() / new_id()
    folder.mkdir(parents=True)
    with engines() as there:
        run = pipelines(there, known, batches, folder, note)
        asked = PlacementGoal(throughput, overlap=known.overlap)
        found = refined(Episodes(known, asked, run, counts), episodes, random.Random(seed))
    rows = {
        "exact": found.exact,
        "reinforce, by the cost model": found.first_phase,
        f"reinforce, after {episodes} episodes": found.second_phase,
    }
    if json:
        plans = {name: None if plan is None else _document(plan) for name, plan in rows.items()}
        shown = {
            "episodes": episodes,
            "runs": found.runs,
            "plans": plans,
            "unit": f"{known.currency} per million examples",
        }
        emit_json("pipeline.reinforce", shown)
        return
    heads = ("plan of", "stages", "examples/s: model", "measured", f"{known.currency} per million: model", "measured")
    table(heads, [(name, *_cells(plan)) for name, plan in rows.items()])
    say(f"{episodes} episodes ran {found.runs} different plans for {batches} batches each")


def _cells(found: MeasuredPlan | None) -> tuple[str, ...]:
    if found is None:
        return ("none is fast enough", "", "", "", "")
    plan = found.plan
    numbers = (plan.throughput, found.throughput, plan.cost_per_million, found.cost_per_million)
    return (in_words(plan.stages), *(number(value) for value in numbers))


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


@pipeline.command()
def resize(
    folder: Annotated[Path, typer.Argument(help="Where its logs are, as `cotune pipeline run` said.")],
    units: Annotated[str, typer.Argument(help="Units of every stage, commas between: 2,1,1.")],
    json: Json = False,
) -> None:
    """Let a pipeline that runs go on with more or fewer units of its stages, from its next checkpoint."""
    counts = [int(part) if part.strip().isdigit() else 0 for part in units.split(",")]
    if min(counts) < 1:
        raise UsageError(f"cannot read {units!r}; write the units of every stage, at least one each: 2,1,1")
    ask_resize(folder, counts)
    if json:
        emit_json("pipeline.resize", {"folder": str(folder), "units": counts})
    else:
        say(f"the pipeline in {folder} goes on with {units} units from its next checkpoint")
