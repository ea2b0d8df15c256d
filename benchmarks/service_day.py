"""A day in the life of the service: real small jobs with targets and deadlines, beside a simulator's forecast of them.

    python benchmarks/service_day.py --policy joint [--jobs 12] [--nodes 8] [--cores 0.2] [--gap 15] [--out FILE]

LeNet-5 on the digits is trained in three recipes on emulated nodes. Jobs come by `cotune submit` at seeded times; the
service measures, plans, admits, runs and resizes them. Then the simulator plays the same arrivals: each job comes when
its plan was made, with the forecast that was made then, before it ran. Seconds are counted from `submit`; what a start
takes is the median of the probes' starts. That measuring holds nodes for a while is not simulated.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cotune import registry
from cotune.cluster.policy import Active, Submission
from cotune.cluster.service.belief import Belief
from cotune.cluster.service.device_types import alike
from cotune.cluster.service.queue import Queue, QueuedJob
from cotune.cluster.service.states import FINAL, State
from cotune.cluster.simulate import simulate
from cotune.cluster.work import Steady
from cotune.store import open_store

RECIPES = (
    ("plain", "[8, 16, 32]", 0.02, 0.0),
    ("pushed", "[16, 32, 64]", 0.02, 0.5),
    ("bold", "[16, 32, 64]", 0.05, 0.5),
)
TARGETS = (0.88, 0.91, 0.93)
DEADLINES = (420.0, 240.0, 180.0, 300.0)  # seconds after each submission: the first of each recipe has time to measure
JOB = """\
name: {name}
run:
  {python} -m cotune.workloads.train --model lenet5 --data digits --device cpu --threads 1 --momentum {momentum}
  --batch-size {{batch_size}} --epochs {{epochs}} --lr {{lr}}
examples: 1437
max_epochs: 40
search: {{workers: [1, 2, 4, 8], batch_size: {batches}}}
lr: {{at: {lr}, global_batch: 64, rule: sqrt}}
budget: {{profile: 60s}}
engine: {{local: {{nodes: {nodes}, cores: {cores}}}}}
"""


@dataclass(frozen=True)
class Day:
    """What comes, and on what it runs."""

    jobs: int = 12
    nodes: int = 8
    cores: float = 0.2  # of each node: so much slower than a core of this machine it is
    gap: float = 15.0  # seconds between two jobs, on average
    limit: float = 540.0  # seconds after which nothing is waited for any more
    seed: int = 0
    recipes: int = len(RECIPES)


@dataclass(frozen=True, slots=True)
class Ending:
    """A job as it was measured and as it was forecast; seconds from its submission, cost in device-seconds."""

    name: str
    target: float
    deadline: float
    submitted: float  # seconds after the first
    planned: float | None  # seconds after it was submitted: measuring, and waiting for it
    state: str
    starts: int
    seconds: float | None
    cost: float | None
    forecast_seconds: float | None
    forecast_cost: float | None
    reason: str

    @property
    def both(self) -> bool:
        return self.seconds is not None and self.forecast_seconds is not None


def lived(policy: str, day: Day, folder: Path) -> dict[str, Any]:
    """Serve the jobs of a day, and return each beside its forecast."""
    store = str(folder / "store.db")
    for name, batches, lr, momentum in RECIPES:
        own = folder / name
        (own / ".cotune").mkdir(parents=True)
        settings = {"name": name, "batches": batches, "lr": lr, "momentum": momentum, "python": sys.executable}
        (own / "cotune.yaml").write_text(JOB.format(**settings, nodes=day.nodes, cores=day.cores))
    words = ["serve", "--store", store, "--slots", str(day.nodes), "--policy", policy]
    with (folder / "service.log").open("ab") as log:
        service = subprocess.Popen([sys.executable, "-m", "cotune", *words], cwd=folder, stderr=log)
    try:
        asked = _hand_in(folder, store, day)
        _wait(store, day.limit)
    finally:
        service.send_signal(signal.SIGTERM)
        service.wait()
    with open_store(store) as opened:
        queue = Queue(opened)
        return _beside_forecast(queue, policy, day, asked)


def _hand_in(folder: Path, store: str, day: Day) -> dict[str, tuple[float, float]]:
    """Submit the jobs at their times; return the target and deadline of each."""
    rng, begun, at = random.Random(day.seed), time.monotonic(), 0.0
    asked: dict[str, tuple[float, float]] = {}
    for number in range(day.jobs):
        time.sleep(max(begun + at - time.monotonic(), 0.0))
        target, deadline = TARGETS[number % len(TARGETS)], DEADLINES[number // day.recipes % len(DEADLINES)]
        goal = ("--target", f"accuracy={target}", "--deadline", f"{deadline:g}s", "--store", store, "--json")
        command = [sys.executable, "-m", "cotune", "submit", RECIPES[number % day.recipes][0], *goal]
        answer = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        if answer.returncode:
            sys.exit(f"submit ended with {answer.returncode}: {answer.stderr}")
        asked[json.loads(answer.stdout)["job"]] = target, deadline
        at += rng.expovariate(1.0 / day.gap)
    return asked


def _wait(store: str, limit: float) -> None:
    until = time.monotonic() + limit
    with open_store(store) as opened:
        queue = Queue(opened)
        while time.monotonic() < until and any(job.state not in FINAL for job in queue.line()):
            time.sleep(0.5)


def _beside_forecast(queue: Queue, policy: str, day: Day, asked: dict[str, tuple[float, float]]) -> dict[str, Any]:
    jobs = [queue.get(id) for id in asked]
    first = jobs[0].submitted
    start_seconds = _start_seconds(queue, jobs)
    played = _played(queue, jobs, policy, day.nodes, start_seconds)
    endings = []
    for job in jobs:
        result = job.result or {}
        seconds, cost = played.get(job.id, (math.inf, 0.0))
        ended = math.isfinite(seconds)
        endings.append(
            Ending(
                f"{job.name} {job.id[:6]}",
                *asked[job.id],
                job.submitted - first,
                None if (at := _planned_at(queue, job)) is None else at - job.submitted,
                job.state.value,
                result.get("starts", 0),
                result.get("seconds"),
                result["cost"]["value"] if "cost" in result else None,
                seconds - (job.submitted - first) if ended else None,
                cost if ended else None,
                job.reason,
            )
        )
    both = [one for one in endings if one.both]
    measured, forecast = _mean([one.seconds for one in both]), _mean([one.forecast_seconds for one in both])
    until_planned = _mean([one.planned for one in both])
    summary = {
        "policy": policy,
        "jobs": len(endings),
        "ended_in_both": len(both),
        "start_seconds": start_seconds,
        "mean_seconds": measured,
        "forecast_mean_seconds": forecast,
        "off_by": _off_by(measured, forecast),
        "mean_seconds_until_planned": until_planned,  # as measured, in the forecast too
        "off_by_once_planned": _off_by(measured, forecast, until_planned or 0.0),
        "met": sum(one.state == State.MET for one in endings),
        "forecast_met": sum(
            one.forecast_seconds is not None and one.forecast_seconds <= one.deadline for one in endings
        ),
        "device_seconds": sum(one.cost or 0.0 for one in both),
        "forecast_device_seconds": sum(one.forecast_cost or 0.0 for one in both),
        "load_average": os.getloadavg()[0],
        "day": asdict(day),
    }
    return {"summary": summary, "jobs": [asdict(one) for one in endings]}


def _played(
    queue: Queue, jobs: Sequence[QueuedJob], policy: str, nodes: int, start_seconds: float
) -> dict[str, tuple[float, float]]:
    """Return when the simulator has each job end, and the device-seconds it took."""
    arrivals, spreads, first = list[Submission](), dict[str, float](), jobs[0].submitted
    for job in jobs:
        planned = _planned_at(queue, job)
        if job.belief is None or planned is None:
            continue
        belief = Belief.of(job.belief)
        deadline = None if job.deadline is None else job.submitted + job.deadline - first
        told = belief.submission(job.id, submit=planned - first, deadline=deadline)
        arrivals.append(_without_start(told, start_seconds))
        spreads[job.id] = belief.spread

    def believe(job: Submission, number: int) -> Active:
        return Active(job, number, job.seconds, job.work, spreads[job.name])

    decider = registry.create("policy", policy)
    outcome = simulate(arrivals, alike(nodes), decider, restart=start_seconds, believe=believe)
    rows = zip(outcome.jobs, outcome.end, outcome.service, strict=True)
    return {job.name: (float(end), float(service)) for job, end, service in rows}


def _without_start(told: Submission, start_seconds: float) -> Submission:
    """Return a job whose work is what is left of its seconds after a start, which the simulator adds to each."""
    work = told.work
    assert isinstance(work, Steady)
    rates = {config: 1.0 / max(1.0 / rate - start_seconds, 1e-3) for config, rate in work.rates.items()}
    seconds = max(told.seconds - start_seconds, 1e-3)
    return Submission(
        told.name, told.submit, told.gpus, seconds, told.deadline, Steady(work.total, rates), told.wants, told.device
    )


def _start_seconds(queue: Queue, jobs: Sequence[QueuedJob]) -> float:
    """Return what a start takes until the first step, by the probes."""
    known = {Belief.of(job.belief).job.name: Belief.of(job.belief).job for job in jobs if job.belief is not None}
    probes = [sample for job in known.values() for sample in queue.store.samples(job, "probe")]
    took = [(one.terms.engine or 0.0) + one.terms.startup for one in probes if one.terms.startup is not None]
    return statistics.median(took) if took else 0.0


def _planned_at(queue: Queue, job: QueuedJob) -> float | None:
    return next((event.at for event in queue.events(job.id) if event.state is State.WAITING), None)


def _off_by(measured: float | None, forecast: float | None, less: float = 0.0) -> float | None:
    """Return by what share of the forecast the measurement is off, both less some seconds."""
    return (measured - less) / (forecast - less) - 1.0 if measured and forecast else None


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _table(found: dict[str, Any]) -> str:
    lines = ["| job | submitted s | target | deadline s | ended | starts | seconds | forecast | device-s | forecast |"]
    lines.append("| --- " * 10 + "|")
    for one in found["jobs"]:
        numbers = (one["seconds"], one["forecast_seconds"], one["cost"], one["forecast_cost"])
        cells = " | ".join("" if value is None else f"{value:.1f}" for value in numbers)
        asked = f"{one['submitted']:.1f} | {one['target']} | {one['deadline']:.0f} | {one['state']} | {one['starts']}"
        lines.append(f"| {one['name']} | {asked} | {cells} |")
    return "\n".join(lines)


def main() -> None:
    """Live a day under a policy, print it beside its forecast, and keep it in a file."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--policy", default="joint", help="or las, 'optimus(interval=10)' (by itself every 600 s), ...")
    parser.add_argument("--jobs", type=int, default=Day.jobs)
    parser.add_argument("--nodes", type=int, default=Day.nodes)
    parser.add_argument("--cores", type=float, default=Day.cores, help="share of a core that each node has")
    parser.add_argument("--gap", type=float, default=Day.gap, help="seconds between two jobs, on average")
    parser.add_argument("--limit", type=float, default=Day.limit)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="a file for the JSON")
    asked = parser.parse_args()
    day = Day(asked.jobs, asked.nodes, asked.cores, asked.gap, asked.limit, asked.seed)
    folder = Path(tempfile.mkdtemp(prefix="day-"))
    found = lived(asked.policy, day, folder)
    if asked.out is not None:
        asked.out.write_text(json.dumps(found, indent=1))
    print(_table(found))
    print(json.dumps(found["summary"]), f"logs are in {folder}", sep="\n")


if __name__ == "__main__":
    main()
