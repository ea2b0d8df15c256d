"""The whole flow on one real job: LeNet-5 on handwritten digits, on a cluster of eight small nodes.

    make demo

The nodes are emulated on this machine: each has a tenth of a core and a link of 1 Gbit/s,
so more workers compute less and talk more, as on a real cluster. The demo profiles 1 to 8
workers, shows where more of them stop paying, asks for a deadline that one worker cannot
meet, and plans: beside the plan stand a cheaper config that would be late and a dearer one that
would be early. It runs the plan, puts the forecast beside what was measured, draws it, and
writes the report page. It takes two to three minutes.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

JOB = """\
name: lenet5-digits
run: python -m cotune.workloads.train --model lenet5 --data digits --batch-size {batch_size} --epochs {epochs} --lr {lr}
examples: 1437
target: {metric: accuracy, at_least: 0.95}
max_epochs: 30
search: {workers: [1, 2, 4, 8], batch_size: [8, 16, 32, 64]}
lr: {at: 0.03, global_batch: 64, rule: sqrt}
budget: {profile: 60s}
engine: {local: {nodes: 8, cores: 0.1, link: 1gbit}}
"""


def cotune(folder: Path, *words: str, stdout: int | None = None) -> str:
    # The job says `python`: let that be the one this demo runs with.
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    command = [sys.executable, "-m", "cotune", *words]
    done = subprocess.run(command, cwd=folder, check=True, stdout=stdout, text=True, env={**os.environ, "PATH": path})
    return done.stdout or ""


def knee(folder: Path) -> None:
    """Show seconds per epoch over workers and batch sizes as measured, and what each worker then costs."""
    starts = json.loads(cotune(folder, "samples", "--json", stdout=subprocess.PIPE))["samples"]
    known = {}
    for start in starts:
        if start["epoch_seconds"] is not None:
            known[start["config"]["workers"], start["config"]["batch_size"]] = start["epoch_seconds"]
    batches = sorted({batch for _, batch in known})
    print("\nmeasured seconds per epoch (device-seconds), where more workers stop paying:")
    print("workers " + "".join(f"{f'batch {batch}':>16}" for batch in batches))
    for workers in sorted({workers for workers, _ in known}):
        took = [known.get((workers, batch)) for batch in batches]
        cells = ["" if each is None else f"{each:.2f} ({each * workers:.1f})" for each in took]
        print(f"{workers:7d} " + "".join(f"{cell:>16}" for cell in cells))
    if any(start["modelled"] for start in starts):
        print("this system forbids network namespaces, so the links were modelled by sleeping")


def asked(folder: Path) -> str:
    """Return a deadline between what the fastest config takes and what one worker takes, and say why."""
    fast = json.loads(cotune(folder, "plan", "--prefer", "fast", "--deadline", "1h", "--json", stdout=subprocess.PIPE))
    one = json.loads(
        cotune(folder, "plan", "-w", "1", "--prefer", "fast", "--deadline", "1h", "--json", stdout=subprocess.PIPE)
    )
    early, late = (document["plan"]["forecast"]["seconds"] for document in (fast, one))
    deadline = max(early["high"], (early["mid"] * late["mid"]) ** 0.5)
    print(f"\none worker takes {late['mid']:.0f} s, {told(fast)} {early['mid']:.0f} s; asked: {deadline:.0f} s:")
    return f"{deadline:.0f}s"


def told(document: dict[str, Any]) -> str:
    """Return a plan's config in words."""
    config = document["plan"]["config"]
    return f"batch {config['batch_size']} on {config['workers']} workers"


def neighbours(folder: Path, deadline: str) -> None:
    """Show the plan between a cheaper config that is late and a dearer one that is early."""
    print("\nbeside it:")
    for words, flags in (
        ("cheaper, later", ["--deadline", "1h"]),
        ("the plan", ["--deadline", deadline, "--confidence", "0.8"]),
        ("dearer, earlier", ["--deadline", "1h", "--prefer", "fast"]),
    ):
        document = json.loads(cotune(folder, "plan", *flags, "--json", stdout=subprocess.PIPE))
        forecast = document["plan"]["forecast"]
        seconds, cost = forecast["seconds"]["mid"], forecast["cost"]["mid"]
        print(f"  {words:16} {told(document):24} {seconds:6.1f} s  {cost:7.1f} device-seconds")


def main() -> None:
    folder = Path(tempfile.mkdtemp(prefix="cotune-demo-"))
    page = Path(tempfile.gettempdir()) / "cotune-demo-report.html"
    begun = time.monotonic()
    try:
        (folder / ".cotune").mkdir()
        (folder / "cotune.yaml").write_text(JOB)
        print(JOB)
        show(folder, "profile")
        knee(folder)
        goal = ["--deadline", asked(folder), "--confidence", "0.8"]
        neighbours(folder, goal[1])
        show(folder, "plan", *goal)
        # A probe may have met the target by now; the demo trains from scratch, to hold the forecast against all of it.
        show(folder, "run", "--from-scratch")
        show(folder, "report")
        cotune(folder, "report", "-o", str(page), stdout=subprocess.DEVNULL)
        starts = json.loads(cotune(folder, "samples", "--json", stdout=subprocess.PIPE))["samples"]
        spent = sum(start["device_seconds"] for start in starts if start["purpose"] == "probe")
        print(f"\nmeasured with {len(starts) - 1} probes for {spent:.0f} device-seconds", end="; ")
        print(f"the whole demo took {time.monotonic() - begun:.0f} s; the report is in {page}")
    except subprocess.CalledProcessError as error:
        sys.exit(error.returncode)
    finally:
        shutil.rmtree(folder)


def show(folder: Path, *words: str) -> None:
    """Run a verb as a user would, its command shown first."""
    print(f"\n$ cotune {' '.join(words)}", flush=True)
    cotune(folder, *words)


if __name__ == "__main__":
    main()
