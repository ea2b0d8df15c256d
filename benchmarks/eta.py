"""How far the ETA of real runs is off after 5, 25 and 50 % of them, and whether its intervals hold.

    python benchmarks/eta.py                        # twelve real trainings, one of them killed and resumed
    python benchmarks/eta.py --replay traces.json   # judge the ETA again on what a former call wrote (--traces)

Runs on this machine (one and two workers), on emulated nodes (shares of a core, slow links) and on a GPU
where there is one go through the same driver as `cotune run`. A share of a run is that of its epochs:
before its first step nothing can be told. Error = |seconds left as told - seconds left| / seconds from
the first report to the last; the interval is to hold the truth in four cases of five.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean, median
from typing import Any

from cotune.devices.present import visible_gpus
from cotune.predict.countdown import Countdown, usual_scatter
from cotune.run.attempt import StopRule, attempt
from cotune.run.engines.local import Local
from cotune.run.launch import Engine, Launch
from cotune.run.supervise import going_on
from cotune.types import Config, Evaluation, Job, Quantity, Sample, Terms

SHARES = (0.05, 0.25, 0.5)
EXAMPLES = 1437
TRAIN = "-m cotune.workloads.train --data digits --batch-size {batch_size} --epochs {epochs} --lr 0.02 --threads 1"


@dataclass(frozen=True)
class Kind:
    """A run to make: where, which network, how many workers, batch and epochs, and whether it is cut in two."""

    where: str
    model: str
    workers: int
    batch: int
    epochs: int
    resumed: bool = False

    @property
    def name(self) -> str:
        return f"{self.where}, {self.model}, {self.workers} x {self.batch}" + (", resumed" if self.resumed else "")


KINDS = (
    Kind("machine", "lenet5", 1, 16, 20),
    Kind("machine", "lenet5", 1, 32, 20),
    Kind("machine", "lenet5", 1, 128, 20),
    Kind("machine", "lenet5", 2, 16, 20),
    Kind("machine", "lenet5", 2, 64, 20),
    Kind("nodes", "lenet5", 1, 32, 10),
    Kind("nodes", "lenet5", 2, 32, 12),
    Kind("nodes", "lenet5", 2, 128, 12),
    Kind("nodes", "lenet5", 4, 16, 12),
    Kind("nodes", "lenet5", 4, 64, 12),
    Kind("machine", "lenet5", 1, 64, 24, resumed=True),
    Kind("nodes", "lenet5", 2, 64, 12, resumed=True),
)
ON_GPU = (
    Kind("gpu", "lenet5", 1, 16, 60),
    Kind("gpu", "lenet5", 1, 64, 150),
    Kind("gpu", "lenet5", 1, 32, 80, resumed=True),
)


def train(engine: Engine, kind: Kind, folder: Path) -> list[Sample]:
    """Train to the end and return the sample at every step; a resumed run is stopped half-way and goes on."""
    job = Job("eta", (sys.executable, *TRAIN.split(), "--model", kind.model), examples=EXAMPLES, folder=str(folder))
    config = Config.data_parallel(kind.batch, kind.workers, device="gpu" if kind.where == "gpu" else "cpu")
    launch = Launch("first", job, config, kind.epochs, folder / "run")
    until = StopRule(epochs=kind.epochs, grace=60.0, silence=300.0)
    first = replace(until, epochs=kind.epochs / 2, grace=0.5) if kind.resumed else until
    steps = list(attempt(engine, launch, first, Sample(config, id="first")))
    if kind.resumed:
        launch, begin = going_on(launch, replace(steps[-1], failure=None), config)
        steps += list(attempt(engine, launch, until, begin))
    assert steps[-1].epochs >= kind.epochs, steps[-1].failure
    return [step for step in steps if not step.ended]


def thin(step: Sample) -> dict[str, Any]:
    """Return what the ETA reads of a sample, ready for JSON."""
    terms = step.terms.known()
    return {
        "id": step.id, "epochs": step.epochs, "seconds": step.seconds, "epoch_seconds": step.epoch_seconds,
        "lump": [terms.get("evaluation"), terms.get("checkpoint")], "evaluated": [point.epoch for point in step.curve],
    }  # fmt: skip


def thick(step: dict[str, Any], config: Config) -> Sample:
    curve = tuple(Evaluation(epoch, 0.5, 0.0) for epoch in step["evaluated"])
    evaluation, checkpoint = step["lump"]
    terms = Terms(evaluation=evaluation, checkpoint=checkpoint)
    return Sample(
        config, step["epochs"], step["epoch_seconds"], terms=terms, curve=curve, seconds=step["seconds"], id=step["id"]
    )


def judged(steps: Sequence[Sample], epochs: int, usual: float) -> list[tuple[Quantity, float, float]]:
    """Return the ETA at each share of a run, the seconds really left then, and those of the whole run."""
    starts = {step.id: 0.0 for step in steps}
    for step in steps:
        starts[step.id] = max(starts[step.id], step.seconds)
    before = {name: sum(list(starts.values())[:place]) for place, name in enumerate(starts)}
    ends = [before[step.id] + step.seconds for step in steps]
    whole = ends[-1] - next(end for step, end in zip(steps, ends, strict=True) if step.seconds > 0)
    found: list[tuple[Quantity, float, float]] = []
    countdown = Countdown(usual)
    for step, end in zip(steps, ends, strict=True):
        countdown.see(step)
        left = countdown.left(Quantity(epochs, epochs, epochs, "assumed"))
        if left is not None and len(found) < len(SHARES) and step.epochs >= SHARES[len(found)] * epochs:
            found.append((left, ends[-1] - end, whole))
    return found


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--traces", type=Path, help="write what the runs reported to this file")
    parser.add_argument("--replay", type=Path, help="judge what a former call wrote")
    parser.add_argument("--only", help="runs whose name holds this word")
    parser.add_argument("--json", action="store_true", help="print the means as JSON at the end")
    return parser.parse_args()


def collected(asked: argparse.Namespace) -> list[dict[str, Any]]:
    kinds = [kind for kind in (*KINDS, *ON_GPU * bool(visible_gpus())) if not asked.only or asked.only in kind.name]
    traces: list[dict[str, Any]] = []
    machine, nodes = Local(), Local(nodes=4, cores=0.3, link=100e6)
    engines = {"machine": machine, "gpu": machine, "nodes": nodes}
    with tempfile.TemporaryDirectory() as scratch:
        for number, kind in enumerate(kinds):
            folder = Path(scratch) / str(number)
            folder.mkdir()
            began, load = time.monotonic(), os.getloadavg()[0]
            steps = train(engines[kind.where], kind, folder)
            print(f"{kind.name}: {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
            trace = {"name": kind.name, "epochs": kind.epochs, "load": load, "cores": len(os.sched_getaffinity(0))}
            traces.append(trace | {"steps": [thin(step) for step in steps]})
            if asked.traces:
                asked.traces.write_text(json.dumps(traces))
    machine.close()
    nodes.close()
    return traces


def main() -> int:
    asked = parsed()
    print(f"load {os.getloadavg()[0]:.1f} at the start")
    traces = json.loads(asked.replay.read_text()) if asked.replay else collected(asked)
    head = "  ".join(f"{f'{share:.0%}: error':>10} {'interval':>16} {'held':>4}" for share in SHARES)
    print(f"{'run':38s} {'load':>5} {'seconds':>8}  {head}")
    errors: dict[float, list[float]] = {share: [] for share in SHARES}
    held: dict[float, list[bool]] = {share: [] for share in SHARES}
    for trace in traces:
        config = Config.data_parallel(1, 1)
        usual = usual_scatter(trace["load"], trace["cores"], "gpu" if trace["name"].startswith("gpu") else "cpu")
        rows = judged([thick(step, config) for step in trace["steps"]], trace["epochs"], usual)
        cells = []
        for share, (left, really, whole) in zip(SHARES, rows, strict=False):
            errors[share].append(abs(left.mid - really) / whole)
            held[share].append(left.low <= really <= left.high)
            within = f"{left.low / max(really, 1e-9):.2f}..{left.high / max(really, 1e-9):.2f}"
            cells.append(f"{errors[share][-1]:>10.1%} {within:>16} {'yes' if held[share][-1] else 'no':>4}")
        print(f"{trace['name']:38s} {trace['load']:5.1f} {rows[0][2]:8.1f}  " + "  ".join(cells))
    for share in SHARES:
        counted = f"{sum(held[share])} of {len(held[share])}"
        print(f"after {share:4.0%}: error mean {mean(errors[share]):.1%}, median {median(errors[share]):.1%}, ", end="")
        print(f"worst {max(errors[share]):.1%}; 80 % interval held in {counted}")
    if asked.json:
        means = [{"share": share, "error": mean(errors[share]), "held": mean(held[share])} for share in SHARES]
        print(json.dumps({"summary": means}))
        return 0
    every = [one for share in SHARES for one in held[share]]
    print(f"in all the interval held in {mean(every):.0%} of {len(every)}; load {os.getloadavg()[0]:.1f} at the end")
    return 0


if __name__ == "__main__":
    sys.exit(main())
