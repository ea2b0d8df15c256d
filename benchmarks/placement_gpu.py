"""A measured oracle: every placement of a four-group wide CTRDNN on one GPU and the CPU's cores, really run.

    python benchmarks/placement_gpu.py --units 2,4,8,12 --cores 12 --output oracle.json
    python benchmarks/placement_gpu.py --accelerator cpu --shares 0.1,0.5 --units 1,2,4 --cores 5 --batch 512

Layers (embedding, fc1, fc2, fc3 and loss) are profiled first; every configuration is then predicted from
the profile and run. With one accelerator 11 of the 16 assignments can be had, each with every count of
cores. Goals are spread over the throughputs that were measured; for each goal the plan of `exact`, of
`reinforce` and of AIBox's rule is looked up among the runs, beside the cheapest that met the goal.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from cotune.placement.methods import method_of
from cotune.placement.problems import Placement, Problem
from cotune.placement.profiles import Profile, TypeEntry, parse
from cotune.placement.provisioning import runs_of
from cotune.placement.staged import TRAIN, Staged, Wanted, completed, engines, measured
from cotune.types import Stage

CPU_PRICE, GPU_PRICE = 0.04, 2.42  # USD per hour, the paper's
METHODS = ("exact", "reinforce", "aibox", "gpu_only", "cpu_only")
GOALS = 10
IN_FLIGHT = 4
NAMES = ("embedding", "fc1", "fc2", "fc3+loss")


def configs(depth: int, units: list[int], cores: int) -> list[tuple[Stage, ...]]:
    """Return every placement: at most one stage on the accelerator, every count of cores for the others."""
    found = []
    for assignment in product((0, 1), repeat=depth):
        runs = runs_of(assignment)
        if sum(kind for kind, _, _ in runs) > 1:
            continue
        for counts in product(*[[1] if kind else units for kind, _, _ in runs]):
            if sum(count for count, (kind, _, _) in zip(counts, runs, strict=True) if not kind) <= cores:
                found.append(
                    tuple(
                        Stage(("cpu", "gpu")[kind], count, first, last)
                        for (kind, first, last), count in zip(runs, counts, strict=True)
                    )
                )
    return found


def words(stages: tuple[Stage, ...]) -> str:
    return " | ".join(f"{stage.workers} {stage.device} {stage.first}..{stage.last}" for stage in stages)


def batches(seconds: float, wanted: float) -> int:
    """Return how many batches to run so that it takes about `wanted` seconds, and some more to fill and to drain."""
    return IN_FLIGHT + int(min(max(wanted / seconds, 6), 150))


def oracle(asked: argparse.Namespace) -> dict[str, Any]:
    """Profile, then run all configurations, or go on with an earlier output where it stopped."""
    model = f"ctrdnn(width={asked.width}, groups=[1,1,1,2])"
    shares: list[float | None] = asked.shares or [None, None]
    kinds = [
        TypeEntry(name="cpu", price_per_hour=CPU_PRICE, limit=asked.cores, cores=shares[0]),
        TypeEntry(name="gpu", device=asked.accelerator, price_per_hour=GPU_PRICE, limit=1, cores=shares[1]),
    ]
    begun = time.perf_counter()
    todo = configs(len(NAMES), asked.units, asked.cores)
    random.Random(0).shuffle(todo)
    with engines() as there, TemporaryDirectory() as folder:
        if asked.resume:
            found: dict[str, Any] = json.loads(asked.resume.read_text())
        else:
            layers = [{"name": name} for name in NAMES]
            wanted = Wanted(model, layers, kinds, asked.units, [asked.batch], 0.4)
            profiled = measured(there, wanted, Path(folder), lambda line: print(f"# {line}", flush=True))
            table = {"stage_seconds": list(profiled.table())}
            found = {"profile": profiled.profile() | table, "runs": [], "configs": len(todo)}
            print(f"# profiled in {time.perf_counter() - begun:.0f} s", flush=True)
        known = parse(found["profile"])
        problem = Problem.of(known, 1.0, overlap=known.overlap)
        done = [each["stages"] for each in found["runs"]]
        for number, stages in enumerate(todo):
            listed = [[stage.device, stage.workers, stage.first, stage.last] for stage in stages]
            if listed in done:
                continue
            if time.perf_counter() - begun > asked.budget:
                break
            plan = problem.placement([(("cpu", "gpu").index(s.device), s.first, s.last, s.workers) for s in stages])
            count = batches(plan.seconds, asked.seconds)
            flags = ["--model", model, "--data", "zipf:2x8192", "--batch-size", asked.batch, "--batches", count]
            flags += ["--in-flight", IN_FLIGHT, "--mode", "async"]
            staged = Staged(stages, {kind.name: kind for kind in kinds})
            result = completed(there, staged, (*TRAIN, *map(str, flags)), Path(folder) / f"run-{number}")
            found["runs"].append(
                {
                    "stages": listed,
                    "predicted": plan.throughput,
                    "measured": result["examples_per_second"],
                    "stage_seconds": list(plan.stage_seconds),
                    "stages_measured": result["stages"],
                    "price": plan.price,
                    "batches": count,
                    "loss": result["losses"][-1],
                }
            )
            told, real = plan.throughput, result["examples_per_second"]
            print(f"{words(stages):44} predicted {told:9.0f}  measured {real:9.0f}  {real / told:.2f}", flush=True)
            if asked.output:
                asked.output.write_text(json.dumps(found))
    return found


def judge(found: dict[str, Any], *, large_table: bool = False) -> dict[str, Any]:
    """Return the errors of the predictions, and what each method's plans cost when they were run.

    With a `large_table` the embedding does not fit the accelerator: only placements that have it on the CPU count.
    """
    runs, rows = found["runs"], found["profile"]["stage_seconds"]
    if large_table:
        runs = [each for each in runs if each["stages"][0][0] == "cpu"]
        rows = [row for row in rows if row["type"] == "cpu" or row["first"] > 0]
    predicted = np.array([each["predicted"] for each in runs])
    real = np.array([each["measured"] for each in runs])
    told: dict[str, Any] = {
        "configs": len(runs),
        "mape": float(np.mean(np.abs(predicted / real - 1))),
        "bias": float(np.mean(predicted / real - 1)),
        "spearman": float(spearmanr(predicted, real).statistic),
        "within_15": float(np.mean(np.abs(predicted / real - 1) <= 0.15)),
        "goals": [],
    }
    known = {json.dumps(each["stages"]): each for each in runs}
    profile = parse(found["profile"] | {"stage_seconds": rows})
    for goal in np.quantile(real, np.linspace(0.05, 0.95, GOALS)):
        meeting = [each for each in runs if each["measured"] >= goal]
        best = min(meeting, key=_cost)
        entry: dict[str, Any] = {"goal": float(goal), "best": _cost(best), "best_plan": best["stages"]}
        problem = Problem.of(profile, float(goal), overlap=profile.overlap)
        for name in METHODS:
            entry[name] = _judged(_plan(name, profile, problem), known, float(goal), _cost(best))
        told["goals"].append(entry)
    return told


def _cost(run: dict[str, Any]) -> float:
    return float(1e6 / run["measured"] * run["price"])


def _plan(name: str, profile: Profile, problem: Problem) -> Placement | None:
    return method_of(name, profile, problem).place(problem, random.Random(0))


def _judged(plan: Placement | None, known: dict[str, Any], goal: float, best: float) -> dict[str, Any] | None:
    if plan is None:
        return None
    stages = [[stage.device, stage.workers, stage.first, stage.last] for stage in plan.stages]
    run = known.get(json.dumps(stages))
    if run is None:
        return {"stages": stages, "run": False}
    return {
        "stages": stages,
        "run": True,
        "cost": _cost(run),
        "over": _cost(run) / best,
        "met": run["measured"] >= goal,
    }


def show(told: dict[str, Any]) -> None:
    print(f"\n{told['configs']} configurations run")
    print(
        f"MAPE {told['mape']:.1%} (bias {told['bias']:+.1%}, {told['within_15']:.0%} within 15%), rank correlation",
        end=" ",
    )
    print(f"{told['spearman']:.3f}")
    print("\n| goal, examples/s | best measured, USD per million |" + "".join(f" {name} |" for name in METHODS))
    print("| ---: | --- |" + " --- |" * len(METHODS))
    for entry in told["goals"]:
        best = words(tuple(Stage(*stage) for stage in entry["best_plan"]))
        cells = []
        for name in METHODS:
            judged = entry[name]
            if judged is None:
                cells.append("none")
            elif not judged["run"]:
                cells.append(f"{words(tuple(Stage(*stage) for stage in judged['stages']))}: not run")
            else:
                cells.append(f"{judged['over']:.2f}x" + ("" if judged["met"] else ", goal missed"))
        print(f"| {entry['goal']:,.0f} | {entry['best']:.4f} ({best}) |" + "".join(f" {cell} |" for cell in cells))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--accelerator", default="cuda", help="what torch calls it; cpu to try the script without one")
    parser.add_argument(
        "--shares",
        type=lambda text: [float(word) for word in text.split(",")],
        help="with --accelerator cpu: emulate both, a unit being such a share of a core: 0.1,0.5",
    )
    parser.add_argument("--units", type=lambda text: [int(word) for word in text.split(",")], default=[2, 4, 8, 12])
    parser.add_argument("--cores", type=int, default=12, help="cores that all CPU stages may take together")
    parser.add_argument("--batch", type=int, default=2048)
    parser.add_argument("--width", type=int, default=2048)
    parser.add_argument("--seconds", type=float, default=1.5, help="of running for each configuration")
    parser.add_argument("--budget", type=float, default=600, help="seconds after which no further run is begun")
    parser.add_argument("--output", type=Path)
    parser.add_argument("--resume", type=Path, help="an earlier output, whose profile is kept and whose rest is run")
    parser.add_argument("--judge", type=Path, help="judge an earlier output again, run nothing")
    asked = parser.parse_args()
    found = json.loads(asked.judge.read_text()) if asked.judge else oracle(asked)
    show(judge(found))
    print("\nwith a table that does not fit the accelerator:")
    show(judge(found, large_table=True))


if __name__ == "__main__":
    main()
