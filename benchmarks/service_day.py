"""A day in the life of the service: real small jobs with targets and deadlines, beside a simulator's forecast of them.

    python benchmarks/service_day.py --policy joint --policy las --policy 'optimus(interval=10)' --out FOLDER

LeNet-5 on the digits is trained in three recipes on emulated nodes. Jobs come by `cotune submit` at seeded times; the
service measures, plans, admits, runs and resizes them. Then the simulator plays the same arrivals: each job comes when
its plan was made, with the forecast that was made then, before it ran; nodes that measuring holds are not there.
Seconds are counted from `submit`. Several policies are lived at the same time, each by a process of its own.

FOLDER has POLICY.json and POLICY.log (the service's), written while the day goes on: what is there after `--limit`
seconds is what is judged.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cotune.cluster.loop import InForce, Moment, drive
from cotune.cluster.node_packing import Count
from cotune.cluster.policy import Active, Submission, less
from cotune.cluster.service.device_types import SLOT, alike
from cotune.cluster.service.planned_job import PlannedJob
from cotune.cluster.service.queue import Queue
from cotune.cluster.service.queued import QueuedJob
from cotune.cluster.service.rules import ServiceRules
from cotune.cluster.service.states import FINAL, State
from cotune.cluster.simulate.world import Simulated
from cotune.store import open_store

RECIPES = (
    ("plain", "[8, 16, 32]", 0.02, 0.0),
    ("pushed", "[16, 32, 64]", 0.02, 0.5),
    ("bold", "[16, 32, 64]", 0.05, 0.5),
)
TARGETS = (0.88, 0.91, 0.93)
DEADLINES = (420.0, 240.0, 180.0, 120.0)  # seconds after each submission: the first of each recipe has time to measure
LOOK = 0.5  # seconds between two looks at the service
KEEP = 10.0  # seconds between two writings of what there is
GO_DOWN = 45.0  # seconds that the service has for it
JOB = """\
name: {name}
run:
  {python} -m cotune.workloads.train --model lenet5 --data digits --device cpu --threads 1 --momentum {momentum}
  --batch-size {{batch_size}} --epochs {{epochs}} --lr {{lr}}
examples: 1437
max_epochs: 40
search: {{workers: [1, 2, 4, 8], batch_size: {batches}}}
lr: {{at: {lr}, global_batch: 64, rule: sqrt}}
budget: {{profile: {profile:g}s}}
engine: {{local: {{nodes: {nodes}, cores: {cores}}}}}
"""


@dataclass(frozen=True)
class Day:
    """What comes, and on what it runs."""

    jobs: int = 12
    nodes: int = 8
    cores: float = 0.2  # of each node: so much slower than a core of this machine it is
    gap: float = 12.0  # seconds between two jobs, on average
    limit: float = 285.0  # seconds after which nothing is waited for any more
    profile: float = 45.0  # seconds that measuring a recipe may take
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
    epochs: float | None
    forecast_seconds: float | None
    forecast_cost: float | None
    forecast_epochs: float | None  # in the config it ended with
    reason: str

    @property
    def both(self) -> bool:
        return self.seconds is not None and self.forecast_seconds is not None


Aside = tuple[float, int]  # nodes that measuring held from some time on, on the store's clock
Seen = Callable[[dict[str, Any]], None]


def lived(policy: str, day: Day, folder: Path, seen: Seen = lambda _: None) -> dict[str, Any]:
    """Serve the jobs of a day, and return each beside its forecast; `seen` is told how it stands meanwhile."""
    store = str(folder / "store.db")
    for name, batches, lr, momentum in RECIPES:
        own = folder / name
        (own / ".cotune").mkdir(parents=True)
        recipe = {"name": name, "batches": batches, "lr": lr, "momentum": momentum, "python": sys.executable}
        (own / "cotune.yaml").write_text(JOB.format(**recipe, nodes=day.nodes, cores=day.cores, profile=day.profile))
    asked: dict[str, tuple[float, float]] = {}
    aside: list[Aside] = [(0.0, 0)]
    with _service(folder, store, day, policy), open_store(store) as opened:
        queue, begun, kept = Queue(opened), time.monotonic(), 0.0
        due = _due(day)
        while time.monotonic() < begun + day.limit:
            if len(asked) < day.jobs and time.monotonic() >= begun + due[len(asked)]:
                id, goal = _submit(len(asked), folder, store, day)
                asked[id] = goal
            _look_aside(queue, aside)
            if len(asked) == day.jobs and all(job.state in FINAL for job in queue.listed(ids=set(asked))):
                break
            if time.monotonic() >= kept + KEEP:
                kept = time.monotonic()
                seen(_beside_forecast(queue, policy, day, asked, aside))
            time.sleep(LOOK)
    with open_store(store) as opened:
        found = _beside_forecast(Queue(opened), policy, day, asked, aside)
    seen(found)
    return found


@contextmanager
def _service(folder: Path, store: str, day: Day, policy: str) -> Iterator[None]:
    words = ["serve", "--store", store, "--slots", str(day.nodes), "--policy", policy]
    with (folder / "service.log").open("ab") as log:
        service = subprocess.Popen([sys.executable, "-m", "cotune", *words], cwd=folder, stderr=log)
    try:
        yield
    finally:
        service.send_signal(signal.SIGTERM)
        try:
            service.wait(GO_DOWN)
        except subprocess.TimeoutExpired:
            service.kill()
            service.wait()


def _due(day: Day) -> list[float]:
    """Return when each job comes, in seconds after the first."""
    rng = random.Random(day.seed)
    gaps = [rng.expovariate(1.0 / day.gap) for _ in range(day.jobs)]
    return [sum(gaps[:number]) for number in range(day.jobs)]


def _submit(number: int, folder: Path, store: str, day: Day) -> tuple[str, tuple[float, float]]:
    """Hand a job in; return its id, and its target and deadline."""
    target, deadline = TARGETS[number % len(TARGETS)], DEADLINES[number // day.recipes % len(DEADLINES)]
    goal = ("--target", f"accuracy={target}", "--deadline", f"{deadline:g}s", "--store", store, "--json")
    command = [sys.executable, "-m", "cotune", "submit", RECIPES[number % day.recipes][0], *goal]
    answer = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if answer.returncode:
        sys.exit(f"submit ended with {answer.returncode}: {answer.stderr}")
    return json.loads(answer.stdout)["job"], (target, deadline)


def _look_aside(queue: Queue, aside: list[Aside]) -> None:
    """Note how many nodes measuring holds, where that has changed."""
    leader = queue.leader()
    types = leader.about.get("occupancy", ()) if leader else ()
    units = sum(one["units"] for kind in types for one in kind["measuring"])
    if units != aside[-1][1]:
        aside.append((queue.now(), units))


def _beside_forecast(
    queue: Queue, policy: str, day: Day, asked: dict[str, tuple[float, float]], aside: Sequence[Aside]
) -> dict[str, Any]:
    jobs = [queue.get(id) for id in asked]
    played = _played(queue, jobs, policy, day.nodes, aside)
    endings = []
    for job in jobs:
        result = job.result or {}
        end, cost = played.get(job.id, (math.inf, 0.0))
        ended = math.isfinite(end)
        endings.append(
            Ending(
                f"{job.name} {job.id[:6]}",
                *asked[job.id],
                job.submitted - jobs[0].submitted,
                None if (at := _planned_at(queue, job)) is None else at - job.submitted,
                job.state.value,
                result.get("starts", 0),
                result.get("seconds"),
                result["cost"]["value"] if "cost" in result else None,
                result.get("epochs"),
                end - job.submitted if ended else None,
                cost if ended else None,
                _epochs_forecast(job),
                job.reason,
            )
        )
    return {"summary": _summary(endings, policy, day), "jobs": [asdict(one) for one in endings]}


def _summary(endings: Sequence[Ending], policy: str, day: Day) -> dict[str, Any]:
    both = [one for one in endings if one.both]
    measured, forecast = _mean([one.seconds for one in both]), _mean([one.forecast_seconds for one in both])
    until_planned = _mean([one.planned for one in both])
    kept = [one for one in endings if one.forecast_seconds is not None and one.forecast_seconds <= one.deadline]
    return {
        "policy": policy,
        "jobs": len(endings),
        "ended": sum(one.state in FINAL for one in endings),
        "ended_in_both": len(both),
        "mean_seconds": measured,
        "forecast_mean_seconds": forecast,
        "off_by": _off_by(measured, forecast),
        "mean_seconds_until_planned": until_planned,  # as measured, in the forecast too
        "off_by_once_planned": _off_by(measured, forecast, until_planned or 0.0),
        "met": sum(one.state == State.MET for one in endings),
        "forecast_met": len(kept),
        "device_seconds": sum(one.cost or 0.0 for one in both),
        "forecast_device_seconds": sum(one.forecast_cost or 0.0 for one in both),
        "epochs": sum(one.epochs or 0.0 for one in both),
        "forecast_epochs": sum(one.forecast_epochs or 0.0 for one in both),
        "load_average": os.getloadavg()[0],
        "cores": len(os.sched_getaffinity(0)),
        "day": asdict(day),
    }


class WhileMeasured(Simulated):
    """The simulator's world, in which something is decided too when measuring takes nodes or gives them back."""

    aside: Sequence[Aside] = ()

    def wait(self, until: float) -> Moment | None:
        turns = (at for at, _ in self.aside if at > self.now())
        return super().wait(min(until, next(turns, math.inf)))

    @property
    def set_aside(self) -> int:
        """Return how many nodes measuring holds now."""
        return [units for at, units in self.aside if at <= self.now()][-1]


def _played(
    queue: Queue, jobs: Sequence[QueuedJob], policy: str, nodes: int, aside: Sequence[Aside]
) -> dict[str, tuple[float, float]]:
    """Return when the simulator has each job end, on the store's clock, and the device-seconds it took."""
    arrived = {job.id: at for job in jobs if job.belief is not None and (at := _planned_at(queue, job)) is not None}
    if not arrived:
        return {}
    first = min(arrived.values())  # the service counts the rounds of a policy from there too
    beliefs = {job.id: PlannedJob.of(job.belief) for job in jobs if job.id in arrived and job.belief is not None}
    submissions = [
        beliefs[job.id].submission(
            job.id,
            submit=arrived[job.id] - first,
            deadline=None if job.deadline is None else job.submitted + job.deadline - first,
        )
        for job in jobs
        if job.id in arrived
    ]

    def believe(job: Submission, number: int) -> Active:
        return Active(job, number, job.seconds, job.work, beliefs[job.name].spread)

    cluster, rules = alike(nodes), ServiceRules(policy)
    world = WhileMeasured(sorted(submissions, key=lambda job: job.submit), believe)
    world.aside = [(max(at - first, 0.0), units) for at, units in aside]
    decider = rules.decider(cluster)
    in_force = lambda: InForce(decider, less(cluster, {SLOT: world.set_aside}), cluster)  # noqa: E731
    ended = drive(decider, cluster, world, Count(), in_force=in_force)
    return {one.job.name: (first + world.now(), one.service) for one in ended if not one.declined}


def _epochs_forecast(job: QueuedJob) -> float | None:
    if job.belief is None or not job.result or not job.result.get("config"):
        return None
    return PlannedJob.of(job.belief).needed.get(job.result["config"]["global_batch"])


def _planned_at(queue: Queue, job: QueuedJob) -> float | None:
    return next((event.at for event in queue.events(job.id) if event.state is State.WAITING), None)


def _off_by(measured: float | None, forecast: float | None, less: float = 0.0) -> float | None:
    """Return by what share of the forecast the measurement is off, both less some seconds."""
    return (measured - less) / (forecast - less) - 1.0 if measured and forecast else None


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _table(found: dict[str, Any]) -> str:
    shown = [name for name in Ending.__slots__ if name != "reason"]
    lines = [" | ".join(shown).replace("_", " "), " | ".join("---" for _ in shown)]
    lines += [" | ".join(_cell(one[name]) for name in shown) for one in found["jobs"]]
    return "\n".join(f"| {line} |" for line in lines)


def _cell(value: object) -> str:
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


def _live(policy: str, day: Day, out: Path) -> None:
    """Live a day under one policy, and print it beside its forecast."""
    name = re.sub(r"[^a-z0-9]+", "-", policy.lower()).strip("-")
    folder = Path(tempfile.mkdtemp(prefix="day-"))
    (folder / "service.log").symlink_to(out.resolve() / f"{name}.log")

    def keep(found: dict[str, Any]) -> None:
        part = out / f"{name}.part"
        part.write_text(json.dumps(found, indent=1))
        part.replace(out / f"{name}.json")

    found = lived(policy, day, folder, keep)
    print(f"{_table(found)}\n\n{json.dumps(found['summary'])}\n", flush=True)


def main() -> None:
    """Live a day under each policy at the same time."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--policy", action="append", help="joint, las, 'optimus(interval=10)' (by itself every 600 s)")
    for name in ("jobs", "nodes", "seed"):
        parser.add_argument(f"--{name}", type=int, default=getattr(Day, name))
    for name in ("cores", "gap", "limit", "profile"):
        parser.add_argument(f"--{name}", type=float, default=getattr(Day, name), help="see `Day`")
    parser.add_argument("--out", type=Path, default=Path("day"), help="a folder for the JSON and the logs")
    asked = parser.parse_args()
    policies = asked.policy or ["joint"]
    asked.out.mkdir(parents=True, exist_ok=True)
    if len(policies) > 1:
        rest = [f"--{name}={getattr(asked, name)}" for name in ("jobs", "nodes", "seed", "cores", "gap", "limit")]
        command = [sys.executable, __file__, *rest, f"--profile={asked.profile}", f"--out={asked.out}"]
        others = [subprocess.Popen([*command, f"--policy={policy}"]) for policy in policies]
        sys.exit(max(abs(other.wait()) for other in others))
    day = Day(asked.jobs, asked.nodes, asked.cores, asked.gap, asked.limit, asked.profile, asked.seed)
    _live(policies[0], day, asked.out)


if __name__ == "__main__":
    main()
