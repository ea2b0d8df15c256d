"""Ten goals, live: measure, plan and run LeNet-5 on Fashion-MNIST to a target under a deadline.

    COTUNE_DATA=... python benchmarks/live_goals.py                     eight emulated nodes on this machine
    COTUNE_DATA=... python benchmarks/live_goals.py --gpu-slices 8      eight slices of one GPU

Every goal is a target and a deadline, asked one after another of one project: `cotune profile
--for-goal`, `plan` and `run`, as a user would. A deadline is so many times the seconds that the
first plan without a deadline took. The table has what measuring cost, the forecast and what
was measured; a goal that is refused counts as not met.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TARGETS = [0.70, 0.74, 0.77, 0.79, 0.81]
SLACK = [2.0, 1.3]
HEAD = (
    "target", "deadline s", "workers x batch", "measuring, device-s", "of it reusable", "forecast s", "measured s",
    "accuracy", "met",
)  # fmt: skip
JOB = """\
name: lenet5-fashion
run:
  {python} -m cotune.workloads.train --model lenet5 --data fashion-mnist --limit {limit} --test-limit 2000
  --batch-size {{batch_size}} --epochs {{epochs}} --lr {{lr}} --device {device}
examples: {limit}
max_epochs: 30
search: {{workers: {workers}, batch_size: {batches}}}
lr: {{at: 0.05, global_batch: 64, rule: sqrt}}
budget: {{profile: {budget}s}}
engine: {{local: {engine}}}
devices: {devices}
"""


@dataclass(frozen=True, slots=True)
class Row:
    """One goal, as forecast and as measured."""

    target: float
    deadline: float
    config: str
    measuring: float
    forecast: tuple[float, float, float]
    seconds: float
    accuracy: float | None
    reused: float
    met: bool


def main() -> int:
    """Ask the goals, print the table, and say how many were met."""
    asked = _arguments()
    folder = Path(tempfile.mkdtemp(prefix="live-goals-"))
    (folder / ".cotune").mkdir()
    engine = (
        f"{{gpu_slices: {asked.gpu_slices}}}"
        if asked.gpu_slices
        else f"{{nodes: 8, cores: {asked.share}, link: 1gbit}}"
    )
    text = JOB.format(
        python=sys.executable,
        limit=asked.limit,
        device="cuda" if asked.gpu_slices else "cpu",
        workers="[1, 2, 4, 8]",
        batches="[32, 64, 128, 256]",
        budget=asked.budget,
        engine=engine,
        devices=f"{{slice: {{count: {asked.gpu_slices}}}}}" if asked.gpu_slices else "{cpu: {}}",
    )
    (folder / "cotune.yaml").write_text(text)
    begun, rows = time.monotonic(), []
    for target in asked.targets:
        unit: float | None = None
        for slack in asked.slack:
            if time.monotonic() - begun > asked.seconds:
                break
            before = _spent(folder)
            unit = unit or _unit(folder, target)
            rows.append(_goal(folder, target, max(5.0, slack * (unit or 30.0)), before))
            print(_line(rows[-1]), file=sys.stderr, flush=True)
    print("| " + " | ".join(HEAD) + " |")
    print("|" + " --- |" * len(HEAD))
    for row in rows:
        print(_line(row))
    met = sum(row.met for row in rows)
    print(f"\n{met} of {len(rows)} goals met, in {time.monotonic() - begun:.0f} s; {folder}")
    return 0 if met >= 0.9 * len(rows) else 6


def _unit(folder: Path, target: float) -> float | None:
    """Return what the cheapest plan without a deadline is forecast to take, measuring what it needs."""
    _cotune(folder, "profile", "--for-goal", "--target", f"accuracy={target}")
    document = _cotune(folder, "plan", "--target", f"accuracy={target}", "--confidence", "0.8")
    return document["plan"]["forecast"]["seconds"]["mid"] if document and "plan" in document else None


def _goal(folder: Path, target: float, deadline: float, before: float) -> Row:
    """Return a goal as answered; what probes had cost `before` it is not its own."""
    goal = ("--target", f"accuracy={target}", "--deadline", f"{deadline:.1f}s")
    _cotune(folder, "profile", "--for-goal", *goal)
    planned = _cotune(folder, "plan", *goal)
    measuring = _spent(folder) - before
    if not planned or "plan" not in planned:
        return Row(target, deadline, "refused", measuring, (0.0, 0.0, 0.0), 0.0, None, 0.0, False)
    # The whole training is run, so that the forecast is held against all of it.
    ran = _cotune(folder, "run", "--from-scratch")
    config, seconds = planned["plan"]["config"], planned["plan"]["forecast"]["seconds"]
    run: dict[str, Any] = ran["run"] if ran and "run" in ran else {"seconds": 0.0, "accuracy": None}
    return Row(
        target,
        deadline,
        f"{config['workers']} x {config['batch_size']}",
        measuring,
        (seconds["low"], seconds["mid"], seconds["high"]),
        run["seconds"],
        run["accuracy"],
        planned["profile"]["reused_device_seconds"],
        bool(ran and ran.get("met")),
    )


def _spent(folder: Path) -> float:
    document = _cotune(folder, "samples")
    return sum(s["device_seconds"] for s in document["samples"] if s["purpose"] == "probe") if document else 0.0


def _cotune(folder: Path, *words: str) -> dict[str, Any] | None:
    done = subprocess.run(
        [sys.executable, "-m", "cotune", *words, "--json"], cwd=folder, capture_output=True, text=True, check=False
    )
    if done.returncode not in (0, 6):
        print(f"cotune {' '.join(words)}: {done.stderr.strip().splitlines()[-1:]}", file=sys.stderr, flush=True)
    try:
        document: dict[str, Any] = json.loads(done.stdout)
    except json.JSONDecodeError:
        return None
    return document


def _line(row: Row) -> str:
    low, mid, high = row.forecast
    accuracy = "" if row.accuracy is None else f"{row.accuracy:.4f}"
    cells = (
        f"{row.target:.2f}", f"{row.deadline:.1f}", row.config, f"{row.measuring:.0f}", f"{row.reused:.0f}",
        f"{mid:.1f} ({low:.1f}..{high:.1f})", f"{row.seconds:.1f}", accuracy, "yes" if row.met else "no",
    )  # fmt: skip
    return "| " + " | ".join(cells) + " |"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpu-slices", type=int, default=0, help="cut one GPU into so many workers")
    parser.add_argument("--limit", type=int, default=6000, help="examples of an epoch")
    parser.add_argument("--share", type=float, default=0.2, help="of a core that an emulated node has")
    parser.add_argument("--budget", type=int, default=40, help="seconds of measuring for each goal")
    parser.add_argument("--targets", type=float, nargs="+", default=TARGETS, help="accuracies to reach")
    parser.add_argument(
        "--slack",
        type=float,
        nargs="+",
        default=SLACK,
        help="deadlines, in seconds of the cheapest plan without one",
    )
    parser.add_argument("--seconds", type=float, default=900.0, help="after which no further goal is asked")
    asked = parser.parse_args()
    if "COTUNE_DATA" not in os.environ:
        parser.error("needs COTUNE_DATA, the folder of fashion-mnist")
    return asked


if __name__ == "__main__":
    sys.exit(main())
