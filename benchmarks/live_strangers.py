"""Live goals on scripts that know nothing of cotune, with an axis of precision: profile, plan, run, and what was best.

    python benchmarks/live_strangers.py --data FOLDER --out FILE [--only lm] [--slices 8]

For each job two goals: the fastest forecast times 2.5 (loose) and times 1.4 (tight). Afterwards a table of configs is
run directly to the same target; cost is device-seconds to the target, and the best is the cheapest of the table, and
of the plans, that met the deadline.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

STRANGERS = Path(__file__).parent.absolute() / "strangers"
SLACKS = {"loose": 2.5, "tight": 1.4}


@dataclass(frozen=True)
class Stranger:
    """A job: its command, its metric, the target, and the configs that are timed directly."""

    name: str
    run: str
    examples: int
    metric: str
    target: str
    workers: tuple[int, ...]
    batches: tuple[int, ...]
    table: tuple[tuple[int, int, str], ...]
    slices: int | None


def strangers(data: Path) -> list[Stranger]:
    """Return the jobs: a language model and a mixer on slices of a GPU, a convolutional network on a whole one."""
    python = f"{sys.executable} {STRANGERS}"
    flags = "--batch-size {batch_size} --epochs {epochs} --precision {precision} --lr {lr}"
    on_slices = ((1, 32, "bf16"), (1, 128, "bf16"), (2, 32, "fp32"), (4, 32, "bf16"), (1, 32, "fp32"), (8, 16, "fp32"))
    whole = ((1, 32, "fp32"), (1, 32, "bf16"), (1, 128, "fp32"), (1, 128, "bf16"), (1, 512, "bf16"), (1, 512, "fp32"))
    return [
        Stranger(
            "lm",
            f"{python}/lm.py --text {data}/text.txt --width 192 --depth 4 --examples 8192 --per-epoch 2 {flags}",
            8192,
            "val_loss",
            "val_loss<=2.1",
            (1, 2, 4, 8),
            (16, 32, 64, 128),
            on_slices,
            8,
        ),
        Stranger(
            "mixer",
            f"{python}/vision.py --net mixer --data {data}/fashion.npz {flags}",
            12000,
            "accuracy",
            "accuracy>=0.80",
            (1, 2, 4, 8),
            (16, 32, 64, 128),
            on_slices,
            8,
        ),
        Stranger(
            "plain",
            f"{python}/vision.py --net plain --data {data}/fashion.npz {flags}",
            12000,
            "accuracy",
            "accuracy>=0.82",
            (1,),
            (16, 32, 64, 128, 256, 512),
            whole,
            None,
        ),
    ]


def main() -> None:
    """Try every job, and write what came of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", default=None)
    parser.add_argument("--profile", default="30s")
    parser.add_argument("--cpu", action="store_true", help="cores instead of a GPU, to try this program")
    parser.add_argument("--seconds", type=float, default=600.0, help="nothing is begun after so long")
    asked = parser.parse_args()
    until = time.monotonic() + asked.seconds
    results = []
    for job in strangers(asked.data.absolute()):
        if asked.only in (None, job.name) and time.monotonic() < until:
            results.append(tried(job, asked.out.parent / f"live-{job.name}", asked, until))
            asked.out.write_text(json.dumps(results, indent=1))
    for result in results:
        show(result)


def tried(job: Stranger, folder: Path, asked: argparse.Namespace, until: float) -> dict[str, Any]:
    """Profile a job, plan and run its two goals, then time the table."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "cotune.yaml").write_text(job_file(job, cpu=asked.cpu))
    result: dict[str, Any] = {"job": job.name, "goals": [], "table": []}
    result["profile"] = cotune(folder, "profile", "--budget", asked.profile, "--target", job.target, seconds=90)
    fastest = cotune(folder, "plan", "--target", job.target, "--deadline", "1h", "--prefer", "fast", seconds=60)
    if "plan" not in fastest:
        return result | {"refused": fastest}
    quickest = fastest["plan"]["forecast"]["seconds"]["mid"]
    for name, slack in SLACKS.items():
        goal = ["--target", job.target, "--deadline", f"{slack * quickest:.1f}s"]
        plan = cotune(folder, "plan", *goal, seconds=60)
        run = cotune(folder, "run", *goal, "--from-scratch", "--fixed", seconds=90) if "plan" in plan else {}
        result["goals"].append({"goal": name, "deadline": slack * quickest, "plan": plan.get("plan"), "run": run})
    for workers, batch, precision in job.table:
        if time.monotonic() > until:
            break
        config = ["-w", str(workers), "-b", str(batch), "--axis", f"precision={precision}"]
        run = cotune(folder, "run", *config, "--target", job.target, "--from-scratch", "--fixed", seconds=60)
        result["table"].append({"config": [workers, batch, precision], "run": run})
    return result


def job_file(job: Stranger, *, cpu: bool) -> str:
    """Return the job file; rates follow the square root of the global batch."""
    engine = {"local": {"gpu_slices": job.slices}} if job.slices and not cpu else "local"
    devices = {"cpu": {}} if cpu else {"slice" if job.slices else "h200": {"count": job.slices or 1}}
    known = {
        "name": job.name,
        "run": job.run,
        "examples": job.examples,
        "max_epochs": 12,
        "pattern": rf"epoch (?P<epoch>\S+) {job.metric} (?P<{job.metric}>\S+)",
        "lr": {"at": 1e-3, "global_batch": 64, "rule": "sqrt"},
        "search": {"workers": job.workers, "batch_size": job.batches, "precision": ["fp32", "bf16"]},
        "devices": devices,
        "engine": engine,
        "target": {"metric": job.metric, **_bound(job.target)},
    }
    return json.dumps(known)  # JSON is YAML


def _bound(target: str) -> dict[str, float]:
    name = "at_most" if "<=" in target else "at_least"
    return {name: float(target.partition("=")[2])}


def cotune(folder: Path, *words: str, seconds: float) -> dict[str, Any]:
    """Return what a verb printed as JSON, with its exit code and wall-clock seconds."""
    command = [sys.executable, "-m", "cotune", *words, "--json", "--store", str(folder / "store.db")]
    begun = time.monotonic()
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, check=False, timeout=seconds, env=dict(os.environ)
        )
    except subprocess.TimeoutExpired:
        return {"exit": "timeout", "wall": seconds}
    took = time.monotonic() - begun
    print(f"{words[0]} {' '.join(words[1:])[:90]}: exit {done.returncode} in {took:.1f} s", flush=True)
    document: dict[str, Any] = {"stderr": done.stderr[-800:]}
    if done.stdout.startswith("{"):
        document = json.loads(done.stdout)
    return {**document, "exit": done.returncode, "wall": took}


def show(result: dict[str, Any]) -> None:
    """Print a job's goals beside the table."""
    for row in result["table"]:
        run = row["run"].get("run") or {}
        print(f"  {result['job']:6} timed   {row['config']}: {run.get('seconds')} s, exit {row['run']['exit']}")
    for goal in result["goals"]:
        plan, run = goal["plan"] or {}, goal["run"].get("run") or {}
        config, forecast = plan.get("config") or {}, (plan.get("forecast") or {}).get("seconds")
        print(f"  {result['job']:6} {goal['goal']:6} in {goal['deadline']:.1f} s: {config}, forecast {forecast}")
        print(f"         P {plan.get('probability')}, took {run.get('seconds')} s, exit {goal['run'].get('exit')}")


if __name__ == "__main__":
    main()
