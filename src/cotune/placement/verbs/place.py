"""`cotune place`: layers on types of device at the least cost, with proof."""

from __future__ import annotations

import math
import random
import time
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from cotune import units
from cotune.cli.help import GOAL, OUTPUT, SPACE, flag, rare_flag
from cotune.cli.options import Json, Seed, StoreUrl, one_of, open_store
from cotune.cli.output import emit_json, note
from cotune.errors import Infeasible, UsageError
from cotune.placement.answers import Answer, PlacementGoal, answer, balanced
from cotune.placement.methods import method_of
from cotune.placement.problems import Placement
from cotune.placement.profiles import Profile, read
from cotune.placement.provisioning import PROVISIONS, Provisioning
from cotune.placement.verbs._place_result import SearchedPlan, answer_document, placement_document, show_placement
from cotune.registry import several

_PREFERENCES: tuple[Literal["cheap", "fast"], ...] = ("cheap", "fast")


def place(
    profile: Annotated[Path, typer.Argument(help="JSON with the seconds of every layer on every type; or -.")],
    throughput: Annotated[float, flag(GOAL, "--throughput", help="Examples per second to reach at least.")],
    prefer: Annotated[str, flag(GOAL, "--prefer", help="cheap, or fast (every type needs a limit).")] = "cheap",
    search: Annotated[
        str, flag(SPACE, "--search", help="Methods to compare, commas between: exact,reinforce,genetic,aibox ...")
    ] = "exact",
    provision: Annotated[
        str, rare_flag(SPACE, "--provision", help="exact, or balanced: every stage just fast enough, as HeterPS does.")
    ] = "exact",
    overlap: Annotated[
        bool | None,
        rare_flag(
            SPACE,
            "--overlap/--no-overlap",
            help="Whether computing and communicating overlap, if not as the profile says.",
        ),
    ] = None,
    free_cuts: Annotated[bool, rare_flag(SPACE, "--free-cuts", help="Allow cuts between stages of one type.")] = False,
    batches: Annotated[
        str | None, flag(SPACE, "--batches", help="Batches to choose among: 256,1024,4096 (needs *_fixed seconds).")
    ] = None,
    examples: Annotated[
        float | None, rare_flag(SPACE, "--examples", help="Examples of an epoch, for the whole cost.")
    ] = None,
    epochs: Annotated[float, rare_flag(SPACE, "--epochs", help="Epochs, for the whole cost.")] = 1,
    time_limit: Annotated[str, flag(OUTPUT, "--time-limit", help="When to stop proving: 10s, 1m.")] = "10s",
    keep: Annotated[bool, flag(OUTPUT, "--keep", help="Keep the result in the store, for the dashboard.")] = False,
    store: StoreUrl = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Assign layers to device types at the least cost for a throughput, proven.

    cotune place profile.json --throughput 20000
    cotune place profile.json --throughput 20000 --search exact,reinforce
    """
    if not (math.isfinite(throughput) and throughput > 0):
        raise UsageError(f"--throughput must be positive, not {throughput:g}")
    if examples is not None and not (examples > 0 and epochs > 0):
        raise UsageError("--examples and --epochs must be positive")
    counts = one_of(PROVISIONS, provision, "--provision")
    if counts == "balanced" and prefer == "fast":
        raise UsageError("--provision balanced reaches just the throughput asked for: leave out --prefer fast")
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
        nearest = tuple(placement_document(near, known) for near in error.nearest if isinstance(near, Placement))
        raise Infeasible(str(error), error.constraint, nearest, error.by, error.unit) from None
    if counts == "balanced":
        best = balanced(known, asked, best)
    found = _searches(known, asked, search, best, counts, seed)
    work = None if examples is None else examples * epochs
    document = answer_document(known, asked, best, found, work)
    document["asked"]["provision"] = counts
    if keep:
        _keep(store, profile, known, document)
    if json:
        emit_json("place", document)
    else:
        show_placement(known, best, found, work)


def _keep(store: str | None, path: Path, known: Profile, document: dict[str, Any]) -> None:
    with open_store(store) as opened:
        layers = [layer.name for layer in known.layers]
        opened.save_result("place", path.name, document | {"layers": layers})
        note(f"kept in {opened.label}; cotune dashboard shows it")


def _batches(text: str | None) -> tuple[float, ...]:
    try:
        batches = tuple(float(part) for part in (text or "").split(",") if part.strip())
    except ValueError:
        batches = (0.0,)
    if any(not 0 < batch < float("inf") for batch in batches):
        raise UsageError(f"cannot read --batches {text!r}; write --batches 256,1024,4096")
    return batches


def _searches(
    known: Profile, asked: PlacementGoal, names: str, best: Answer, counts: Provisioning, seed: int
) -> dict[str, SearchedPlan]:
    """Return what each method found and how long it took."""
    problem = replace(asked, batches=(best.plan.batch,) if asked.batches else ()).problems(known)[0]
    found: dict[str, SearchedPlan] = {}
    for name in several(names):
        if name == "exact":
            found[name] = SearchedPlan(best.plan, best.seconds)
            continue
        method = method_of(name, known, problem, counts)
        begun = time.perf_counter()
        plan = method.place(problem, random.Random(seed))
        found[name] = SearchedPlan(plan, time.perf_counter() - begun)
    return found
