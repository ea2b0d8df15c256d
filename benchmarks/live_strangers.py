"""Live goals of scripts that know nothing of cotune, with an axis of precision, beside configs timed directly.

    python benchmarks/live_strangers.py table --data FOLDER --out OUT     12 configs of each job, some seconds each
    python benchmarks/live_strangers.py goals --data FOLDER --out OUT     profile, plan and run four goals of each job
    python benchmarks/live_strangers.py judge --out OUT                   print the goals beside the best of the table
    python benchmarks/live_strangers.py self --data FOLDER --out OUT      run them without a profile, and print that

A language model and a mixer on slices of a GPU, a convolutional network on the whole of it. The others have one rate
for every batch, and nothing was ever chosen with them in sight: `--jobs second`, a recurrent language model and a
residual network on slices and a vision transformer on the whole GPU; `--jobs third`, a convolutional language model, a
dense network (SGD) and one of depthwise convolutions; `--jobs fourth`, one of long short-term memory, a perceptron
(SGD) and inverted residuals; `--jobs fifth`, a wide recurrent model, a mixer on colour pictures (`cifar.npz`) and
residual cells (SGD) on the whole GPU. Each has two targets: what the median config of the table had
come to after half its seconds, and after four fifths. Each target has two deadlines:
2.5 times what the fastest config of the table took (loose), and 1.4 times (tight), the engine's own start
(`--engine-start`, as measured on the machine) added. So nothing of a goal is taken from a forecast. Cost is
device-seconds to the target; the best is the cheapest config of the table that met the target by the deadline. The
table pays the engine's start once, so its median is added to each. `--cpu` tries this program on two cores.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cotune.jobfile import settings as job_settings
from cotune.jobfile.settings import Settings
from cotune.run.engines.local import Local
from cotune.run.launch import Ended, Launch, Reported
from cotune.types import Config

STRANGERS = Path(__file__).parent.absolute() / "strangers"
SLACKS = {"loose": 2.5, "tight": 1.4}
UNMEASURED_SLACKS = {"loose": 4.0, "tight": 2.0}  # of runs that measure themselves inside their deadline
SHARES = (0.5, 0.8)  # of the seconds of the table, after which the median config had come to a target
JOBS = ("first", "second", "third", "fourth", "fifth")
AT_ONCE = 4  # workers of the table that train at the same time, each on its slice of eight
Row = tuple[int, int, str]
SLICED: tuple[Row, ...] = (
    (1, 32, "fp32"), (1, 32, "bf16"), (1, 64, "fp32"), (1, 64, "bf16"), (1, 128, "fp32"), (1, 128, "bf16"),
    (2, 32, "fp32"), (2, 64, "bf16"), (4, 16, "fp32"), (4, 32, "bf16"), (8, 16, "fp32"), (8, 32, "bf16"),
)  # fmt: skip
WHOLE: tuple[Row, ...] = tuple((1, batch, kind) for batch in (16, 32, 64, 128, 256, 512) for kind in ("fp32", "bf16"))


@dataclass(frozen=True)
class Stranger:
    """A job: its command, its metric, the configs that are timed directly, and for how many seconds."""

    name: str
    run: str
    examples: int
    metric: str
    table: tuple[Row, ...]
    seconds: float
    slices: int | None

    @property
    def sign(self) -> int:
        return -1 if "loss" in self.metric else 1

    def target(self, level: float) -> str:
        return f"{self.metric}{'<=' if self.sign < 0 else '>='}{level}"


def strangers(data: Path, which: str) -> list[Stranger]:
    """Return the first, second, ... or fifth three jobs."""
    flags = "--batch-size {batch_size} --epochs {epochs} --precision {precision}"
    flags += " --lr {lr}" if which == "first" else ""
    text = f"{sys.executable} {STRANGERS}/lm.py --text {data}/text.txt --examples 8192 --per-epoch 2 {flags}"
    pictures = f"{sys.executable} {STRANGERS}/vision.py --data {data}/fashion.npz {flags}"
    if which == "second":
        return [
            Stranger("gru", f"{text} --net gru --width 384 --depth 2", 8192, "val_loss", SLICED, 12.0, 8),
            Stranger("residual", f"{pictures} --net residual", 12000, "accuracy", SLICED, 12.0, 8),
            Stranger("wide-vit", f"{pictures} --net wide-vit --lr 3e-4", 12000, "accuracy", WHOLE, 7.0, None),
        ]
    if which == "third":
        sgd = "--optimiser sgd --lr 0.02"
        return [
            Stranger("conv-lm", f"{text} --net convolutional --width 256 --depth 5", 8192, "val_loss", SLICED, 8.0, 8),
            Stranger("dense", f"{pictures} --net dense {sgd}", 12000, "accuracy", SLICED, 8.0, 8),
            Stranger("separable", f"{pictures} --net separable --lr 5e-4", 12000, "accuracy", WHOLE, 5.0, None),
        ]
    if which == "fourth":
        sgd = "--optimiser sgd --lr 0.01"
        return [
            Stranger("lstm", f"{text} --net lstm --width 256 --depth 1 --lr 2e-3", 8192, "val_loss", SLICED, 8.0, 8),
            Stranger("perceptron", f"{pictures} --net perceptron {sgd}", 12000, "accuracy", SLICED, 6.0, 8),
            Stranger("inverted", f"{pictures} --net inverted", 12000, "accuracy", WHOLE, 5.0, None),
        ]
    if which == "fifth":
        colour = f"{sys.executable} {STRANGERS}/vision.py --data {data}/cifar.npz {flags} --net mixer --lr 5e-4"
        sgd = "--optimiser sgd --lr 0.02"
        return [
            Stranger("wide-gru", f"{text} --net gru --width 512 --depth 1 --lr 5e-4", 8192, "val_loss", SLICED, 7.0, 8),
            Stranger("colour-mixer", colour, 6000, "accuracy", SLICED, 6.0, 8),
            Stranger("residual-sgd", f"{pictures} --net residual {sgd}", 12000, "accuracy", WHOLE, 5.0, None),
        ]
    return [
        Stranger("lm", f"{text} --width 192 --depth 4", 8192, "val_loss", SLICED, 10.0, 8),
        Stranger("mixer", f"{pictures} --net mixer", 12000, "accuracy", SLICED, 10.0, 8),
        Stranger("plain", f"{pictures} --net plain", 12000, "accuracy", WHOLE, 6.0, None),
    ]


def main() -> None:
    """Time the table, try the goals, or judge both."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("table", "goals", "judge", "self"))
    parser.add_argument("--data", type=Path, default=Path())
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", default=None, help="names of jobs, with commas")
    parser.add_argument("--engine-start", type=float, default=10.0, help="seconds until a job's code begins")
    parser.add_argument("--profile", default="45s", help="what measuring may take")
    parser.add_argument(
        "--jobs", default="first", choices=("first", "second", "third", "fourth", "fifth"), help="which three"
    )
    parser.add_argument("--cpu", action="store_true", help="cores instead of a GPU, to try this program")
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    for job in strangers(asked.data.absolute(), asked.jobs):
        if asked.only is not None and job.name not in asked.only.split(","):
            continue
        folder = asked.out.absolute() / f"live-{job.name}"
        folder.mkdir(exist_ok=True)
        table, goals = (asked.out / f"{job.name}.{kind}.json" for kind in ("table", "goals"))
        if asked.what == "table":
            table.write_text(json.dumps(timed_table(job, folder, cpu=asked.cpu)))
        elif asked.what == "goals":
            goals.write_text(json.dumps(tried(job, folder, json.loads(table.read_text()), asked)))
        elif asked.what == "self":
            run_without_profile(job, folder, json.loads(table.read_text()), asked)
        elif table.exists() and goals.exists():
            judge(job, json.loads(table.read_text()), json.loads(goals.read_text()))


def timed_table(job: Stranger, folder: Path, *, cpu: bool) -> list[dict[str, Any]]:
    """Return the learning curve of each config of the table: seconds since the job's code began, and the metric."""
    settings = job_settings.loads(job_file(job, None, cpu=cpu), {}, "the benchmark", folder)
    engine = Local(gpu_slices=None if cpu else job.slices)
    rows = []
    try:
        for together in packs(job.table, AT_ONCE if job.slices else 1):
            rows += timed_together(engine, settings, together, job, folder)
    finally:
        engine.close()
    return rows


def packs(table: tuple[Row, ...], most: int) -> list[list[Row]]:
    """Return the configs in groups of at most so many workers, the larger ones alone."""
    groups: list[list[Row]] = []
    for row in sorted(table):
        last = groups[-1] if groups else None
        if last is not None and sum(workers for workers, _, _ in last) + row[0] <= most:
            last.append(row)
        else:
            groups.append([row])
    return groups


def timed_together(
    engine: Local, settings: Settings, together: list[Row], job: Stranger, folder: Path
) -> list[dict[str, Any]]:
    """Return the curves of configs that train at the same time."""
    found: dict[str, dict[str, Any]] = {}
    for row in together:
        workers, batch, precision = row
        name = f"{workers}x{batch}-{precision}"
        config = Config.data_parallel(
            batch, workers, device=settings.cluster.devices[0].name, axes=(("precision", precision),)
        )
        launch = Launch(name, settings.job, config, settings.goal.cap, folder / name, seed=100)
        engine.start(launch)
        found[name] = {"config": row, "curve": [], "beside": len(together) - 1, "begun": None, "ended": False}
    while not all(one["ended"] for one in found.values()):
        event = engine.wait(0.2)
        for name, one in found.items():
            if one["begun"] is not None and engine.now() > one["begun"] + job.seconds:
                engine.stop(name, 0.0)
        if event is None:
            continue
        one = found[event.launch]
        if isinstance(event, Ended):
            one |= {"ended": True, "failure": event.failure and event.failure.words}
        elif not isinstance(event, Reported):
            one["begun"] = event.at
        elif event.accuracy is not None:
            one["curve"].append((event.epoch, event.accuracy, event.at - one["begun"]))
    for name, one in found.items():
        print(f"{job.name} {name}, {one['beside']} beside: {one['curve'][-1:]} {one['failure'] or ''}", flush=True)
    return list(found.values())


def targets(job: Stranger, table: list[dict[str, Any]]) -> tuple[float, float]:
    """Return an easier and a harder target: what the median config had come to after some shares of its seconds."""
    levels = []
    for share in SHARES:
        reached = [
            max(values)
            for row in table
            if (values := [job.sign * value for _, value, at in row["curve"] if at <= share * job.seconds])
        ]
        levels.append(round(job.sign * statistics.median(reached), 2))
    return levels[0], levels[1]


def seconds_to(row: dict[str, Any], level: float, sign: int) -> float:
    """Return the seconds in which a config of the table met a target, or infinity."""
    return next((at for _, value, at in row["curve"] if sign * value >= sign * level), float("inf"))


def tried(job: Stranger, folder: Path, table: list[dict[str, Any]], asked: argparse.Namespace) -> dict[str, Any]:
    """Profile a job for its harder target, then plan and run its four goals."""
    levels = targets(job, table)
    (folder / "cotune.yaml").write_text(job_file(job, levels[1], cpu=asked.cpu))
    result: dict[str, Any] = {"job": job.name, "goals": []}
    result["profile"] = cotune(folder, "profile", "--budget", asked.profile, seconds=120)
    for name, level, deadline in goals_of(job, table, asked.engine_start):
        goal = ["--target", job.target(level), "--deadline", f"{deadline:.1f}s"]
        plan = cotune(folder, "plan", *goal, seconds=60)
        run = cotune(folder, "run", *goal, "--from-scratch", seconds=120) if "plan" in plan else {}
        result["goals"].append({"goal": name, "target": level, "deadline": deadline, "plan": plan, "run": run})
    return result


def goals_of(
    job: Stranger, table: list[dict[str, Any]], engine_start: float, slacks: Mapping[str, float] = SLACKS
) -> Iterator[tuple[str, float, float]]:
    """Yield the goals of a job: how tight it is, its target and its deadline."""
    for level in targets(job, table):
        fastest = engine_start + min(seconds_to(row, level, job.sign) for row in table)
        yield from ((name, level, slack * fastest) for name, slack in slacks.items())


def run_without_profile(job: Stranger, folder: Path, table: list[dict[str, Any]], asked: argparse.Namespace) -> None:
    """Run each goal as a new job without a profile, and print all that it spent beside the best of the table."""
    (folder / "cotune.yaml").write_text(job_file(job, None, cpu=asked.cpu))
    for name, level, deadline in goals_of(job, table, asked.engine_start, UNMEASURED_SLACKS):
        (folder / "store.db").unlink(missing_ok=True)
        goal = ("--target", job.target(level), "--deadline", f"{deadline:.1f}s")
        told = cotune(folder, "run", *goal, seconds=200)
        if "run" not in told:
            print(f"| {job.name}, {goal}, {name} | exit {told['exit']} | {told.get('stderr', '')[-300:]} |")
            continue
        run, config = told["run"], told["run"]["config"]
        best, costs = cheapest(job, table, level, deadline, asked.engine_start)
        over = run["device_seconds"] / costs[best][0] if best in costs else float("nan")
        what = f"{config['workers']} x {config['batch_size']} {config['precision']}, {told['starts']} starts"
        met = "met" if told["met"] else f"missed, exit {told['exit']}"
        probes = f"{told['measured']['probes']} probes" if told.get("measured") else ""
        print(
            f"| {job.name}, {job.target(level)} in {deadline:.1f} s, {name} | {probes}, {what} | {run['seconds']:.1f}, "
            f"{met} | {over:.2f}, best {best} |",
            flush=True,
        )


def cheapest(
    job: Stranger, table: list[dict[str, Any]], level: float, deadline: float, engine: float
) -> tuple[str, dict[str, tuple[float, float]]]:
    """Return the cheapest config that meets a goal, and what all that do cost: with the start, and without."""
    costs = {
        f"{workers} x {batch} {kind}": (workers * (engine + took), workers * took)
        for row in table
        for workers, batch, kind in [row["config"]]
        if engine + (took := seconds_to(row, level, job.sign)) <= deadline
    }
    return min(costs, key=lambda name: costs[name][0], default="none"), costs


def job_file(job: Stranger, target: float | None, *, cpu: bool) -> str:
    """Return the job file; rates, where the command asks for them, follow the square root of the global batch."""
    engine = {"local": {"gpu_slices": job.slices}} if job.slices and not cpu else "local"
    devices = {"cpu": {}} if cpu else {"slice" if job.slices else "h200": {"count": job.slices or 1}}
    known: dict[str, Any] = {
        "name": job.name,
        "run": job.run,
        "examples": job.examples,
        "max_epochs": 30,
        "pattern": rf"epoch (?P<epoch>\S+) {job.metric} (?P<{job.metric}>\S+)",
        "search": {
            "workers": [1, 2, 4, 8] if job.slices else [1],
            "batch_size": [16, 32, 64, 128] if job.slices else [16, 32, 64, 128, 256, 512],
            "precision": ["fp32", "bf16"],
        },
        "devices": devices,
        "engine": engine,
    }
    if "{lr}" in job.run:
        known["lr"] = {"at": 1e-3, "global_batch": 64, "rule": "sqrt"}
    if target is not None:
        known["target"] = {"metric": job.metric, "at_most" if job.sign < 0 else "at_least": target}
    return json.dumps(known)  # JSON is YAML


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
    document = json.loads(done.stdout) if done.stdout.startswith("{") else {}
    return {**document, "stderr": done.stderr[-3000:], "exit": done.returncode, "wall": took}


def judge(job: Stranger, table: list[dict[str, Any]], result: dict[str, Any]) -> None:
    """Print a job's goals beside the best of the table."""
    runs = [goal["run"]["run"] for goal in result["goals"] if goal["run"].get("run")]
    engine = statistics.median([run["terms"].get("engine", 0.0) for run in runs] or [0.0])
    for goal in result["goals"]:
        level, deadline = goal["target"], goal["deadline"]
        best, costs = cheapest(job, table, level, deadline, engine)
        planned, run = goal["plan"].get("plan"), goal["run"].get("run")
        head = f"| {job.name}, {job.target(level)} in {deadline:.1f} s, {goal['goal']}"
        if planned is None or run is None:
            print(f"{head} | refused, exit {goal['plan']['exit']} | | | best {best}, {len(costs)} met it | |")
            continue
        config, forecast = planned["config"], planned["forecast"]["seconds"]
        what = f"{config['workers']} x {config['batch_size']} {config['precision']} | {planned['probability']:.2f}"
        cost, own = (
            run["device_seconds"],
            run["device_seconds"] - config["workers"] * (run["terms"].get("engine") or 0.0),
        )
        over = [mine / theirs for mine, theirs in zip((cost, own), costs.get(best, (cost, own)), strict=True)]
        told = f"{forecast['mid']:.1f} ({forecast['low']:.1f}..{forecast['high']:.1f})"
        met = "met" if goal["run"].get("met") else f"missed, exit {goal['run']['exit']}"
        beside = f"{over[0]:.2f} ({over[1]:.2f} without the engine's start), best {best}"
        print(f"{head} | {what} | {told} | {run['seconds']:.1f}, {met} | {beside} |")


if __name__ == "__main__":
    main()
