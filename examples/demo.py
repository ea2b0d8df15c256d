"""The whole flow on one real job: LeNet-5 on handwritten digits, on a cluster of eight small nodes.

    python examples/demo.py

The nodes are emulated on this machine: each has a twentieth of a core and a link of 1 Gbit/s,
so more workers compute less and talk more, as on a real cluster. The demo measures 1 to 8 workers,
shows where more of them stop paying, and asks for a deadline that one worker cannot meet. Beside
the plan stand a cheaper config that would be late and a dearer one that would be early. It runs
the plan, puts the forecast beside what was measured, draws it, and writes the report page. It
takes two to three minutes.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from math import ceil
from pathlib import Path

import cotune
from cotune.project.planner import Planner
from cotune.types import Plan, Prefer
from cotune.units import counted

JOB = """\
name: lenet5-digits
run: python -m cotune.workloads.train --model lenet5 --data digits --batch-size {batch_size} --epochs {epochs} --lr {lr}
examples: 1437
target: {metric: accuracy, at_least: 0.93}
max_epochs: 30
search: {workers: [1, 2, 4, 8], batch_size: [32, 64]}
lr: {at: 0.01, global_batch: 64, rule: linear}
budget: {profile: 75s}
engine: {local: {nodes: 8, cores: 0.05, link: 1gbit}}
"""
NEEDED = ("torch", "sklearn", "plotly", "uniplot")
PAGE = "cotune-demo.html"
CONFIDENCE = 0.8  # enough for a demo: more would ask for more measuring
NO_HURRY = 3600.0
LONGER = 1.1  # times the deadline, until it is what the demo looks for
MORE = "30s"  # of measuring, where too little is known to plan at all: on a busy machine
MOST_ROUNDS = 3
MISSED = 6  # a run's exit code, which a demo shows like any other outcome


def main() -> None:
    """Measure, plan and run the job in a folder that is removed, and leave the report page here."""
    if missing := [name for name in NEEDED if importlib.util.find_spec(name) is None]:
        sys.exit(f"the demo needs {', '.join(missing)}: pip install 'cotune[workloads,plots]'")
    folder, page = Path(tempfile.mkdtemp(prefix="cotune-demo-")), Path.cwd() / PAGE
    begun = time.monotonic()
    try:
        show_flow(folder, page)
    except subprocess.CalledProcessError as error:
        sys.exit(error.returncode)
    finally:
        shutil.rmtree(folder)
    print(f"\nthe demo took {time.monotonic() - begun:.0f} s; open {page} in a browser")


def show_flow(folder: Path, page: Path) -> None:
    """Go from the job file to the report, every command shown."""
    file = folder / "cotune.yaml"
    (folder / ".cotune").mkdir()
    file.write_text(JOB)
    print(f"cotune.yaml:\n\n{JOB}")
    show(folder, "profile", "--cover")  # for the goal alone few worker counts would do
    goal = f"deadline: {chosen_deadline(folder):.0f}s\nconfidence: {CONFIDENCE:g}\n"
    file.write_text(JOB + goal)
    print(f"\nadded to cotune.yaml:\n\n{goal}")
    # A probe may have trained a part of it; from scratch, the forecast is held against all of it.
    show(folder, "plan", "--from-scratch")
    show(folder, "run", "--from-scratch")
    show(folder, "report", "--plots", "-o", str(page))


def show(folder: Path, *words: str) -> None:
    """Run a verb as a user would, its command shown first."""
    print(f"\n$ cotune {' '.join(words)}", flush=True)
    # The job says `python`: let that be the one this demo runs with.
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    command = [sys.executable, "-m", "cotune", *words]
    done = subprocess.run(command, cwd=folder, check=False, env={**os.environ, "PATH": path})
    if done.returncode not in (0, MISSED):
        done.check_returncode()


def chosen_deadline(folder: Path) -> float:
    """Return a deadline that one worker cannot keep, and show what stands beside the plan for it."""
    with cotune.open(folder / "cotune.yaml") as project:
        for _ in range(MOST_ROUNDS):
            if feasible(project.planner().from_scratch(), NO_HURRY):
                break
            show(folder, "profile", "--cover", "--budget", MORE)
        show_knee(project)
        cheapest, plan, fastest = chosen_plans(project.planner().from_scratch())
    deadline = plan.goal.deadline or NO_HURRY
    print(f"\na deadline of {deadline:.0f} s, which one worker is not likely to keep:")
    rows = (("cheaper, later", cheapest), ("the plan", plan), ("faster, at more cost", fastest))
    for words, one in rows if plan.config != fastest.config else rows[:2]:
        config, seconds, cost = one.config, one.forecast.seconds.mid, one.forecast.cost.mid
        layout = f"batch {config.batch_size} on {counted(config.workers, 'worker')}"
        print(f"  {words:20}  {layout:22}  {seconds:5.1f} s  {cost:6.1f} device-seconds")
    return deadline


def chosen_plans(planner: Planner) -> tuple[Plan, Plan, Plan]:
    """Return the cheapest plan, that for a deadline which one worker cannot meet, and the fastest.

    The deadline is the first, from a short one on, that asks for several workers but not the most; where there is none
    such, several workers are enough.
    """
    cheapest, fastest = (asked(planner, NO_HURRY, prefer).plan() for prefer in ("cheap", "fast"))
    deadline, several = fastest.forecast.seconds.mid, fastest
    while deadline < NO_HURRY:
        plan = feasible(planner, float(ceil(deadline)))
        if plan is not None and plan.config.workers == 1:
            break
        if plan is not None:
            several = plan
            if plan.config.workers < fastest.config.workers:
                break
        deadline *= LONGER
    return cheapest, several, fastest


def show_knee(project: cotune.Project) -> None:
    """Show the seconds per epoch that were measured, and what each then costs."""
    known = {
        (sample.config.workers, sample.config.batch_size): sample.epoch_seconds
        for sample in project.store.samples(project.settings.job)
        if sample.epoch_seconds is not None
    }
    batches = sorted({batch for _, batch in known})
    print("\nmeasured seconds per epoch (device-seconds), where more workers stop paying:")
    print("workers " + "".join(f"{f'batch {batch}':>16}" for batch in batches))
    for workers in sorted({workers for workers, _ in known}):
        took = [known.get((workers, batch)) for batch in batches]
        cells = ["" if each is None else f"{each:.2f} ({each * workers:.1f})" for each in took]
        print((f"{workers:7d} " + "".join(f"{cell:>16}" for cell in cells)).rstrip())


def asked(planner: Planner, deadline: float, prefer: Prefer = "cheap") -> Planner:
    """Return the planner for a deadline."""
    return planner.asking(replace(planner.goal, deadline=deadline, confidence=CONFIDENCE, prefer=prefer))


def feasible(planner: Planner, deadline: float) -> Plan | None:
    """Return the plan for a deadline, or None where nothing meets it surely enough."""
    try:
        return asked(planner, deadline).plan()
    except cotune.Infeasible:
        return None


if __name__ == "__main__":
    main()
