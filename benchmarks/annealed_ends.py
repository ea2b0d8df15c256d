"""How well are the ends of longer annealed runs foretold from a few short ones? Two networks, five schedules.

    python benchmarks/annealed_ends.py [CURVES.jsonl] [--priors PRIORS] [--json]

Every schedule (cosine, linear, each with and without an epoch of warm-up, one cycle) is trained with lengths of 2 to 12
epochs, three batches and two seeds (five minutes; kept in CURVES.jsonl, and read from there). Of one seed a profile is
shown: runs of 2 epochs at each batch, one of 3, and one of 6 epochs, or the first 5 of one of 12. The ends of runs of
3, 4, 8 and 12 epochs are then forecast; the mean of both seeds judges the median, the other seed the 80 % interval.
The prior is PRIORS/annealed.json where there is one.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal, get_args

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn

from cotune.predict.learn import forecaster
from cotune.predict.predictors.posterior import Posterior
from cotune.space import Configs
from cotune.types import Cluster, Config, Evaluation, Job, Sample
from learning_prior import posterior_without

Task = Literal["digits", "teacher"]
Shape = Literal["cosine", "cosine, warm-up", "linear", "linear, warm-up", "one cycle"]
SEEDS, BATCHES, LENGTHS, ASKED = (0, 1), (16, 64, 128), (2, 3, 4, 6, 8, 12), (3, 4, 8, 12)
RATE, USUAL_BATCH, MOST_SCALED = 0.05, 32, 2.0  # the learning rate grows with the batch, at most so far
SEEN_OF_LONGEST = 5
RISING, FLOOR = 0.3, 1 / 25  # of one cycle


@dataclass(frozen=True, slots=True)
class Run:
    """One training: what it was told, and its accuracy after every epoch."""

    task: Task
    shape: Shape
    seed: int
    batch: int
    length: int
    curve: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Judged:
    """One end as forecast: how far its median is off, whether the other seed lies inside its interval."""

    shape: Shape
    off: float
    inside: bool


def main() -> int:
    """Train or read the curves, and print how far ends are off."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("curves", type=Path, nargs="?")
    parser.add_argument("--priors", type=Path, help="a folder of SOURCE.json, each fitted without that source")
    parser.add_argument("--json", action="store_true", help="print a summary as JSON too")
    asked = parser.parse_args()
    path = asked.curves
    accuracy = posterior_without("annealed", asked.priors)
    summary = []
    known = [_read(line) for line in path.read_text().splitlines()] if path is not None and path.exists() else []
    runs = {_key(run): run for run in (known or _trained(path))}
    print("| seen | schedule | ends | off, mean | off, size | inside 80 % |\n| --- | --- | --- | --- | --- | --- |")
    for cut in (False, True):
        found = list(_judged(runs, cut=cut, accuracy=accuracy))
        for shape in (*get_args(Shape), "all"):
            own = [one for one in found if shape in (one.shape, "all")]
            off = np.array([one.off for one in own])
            inside = np.mean([one.inside for one in own])
            seen = f"{SEEN_OF_LONGEST} of {LENGTHS[-1]} epochs" if cut else "6 of 6 epochs"
            summary.append(
                {"seen": seen, "schedule": shape, "size": float(np.abs(off).mean()), "inside": float(inside)}
            )
            print(f"| {seen} | {shape} | {len(own)} | {off.mean():+.3f} | {np.abs(off).mean():.3f} | {inside:.0%} |")
    if asked.json:
        print(json.dumps({"summary": summary}))
    return 0


def _key(run: Run) -> tuple[Task, Shape, int, int, int]:
    return run.task, run.shape, run.seed, run.batch, run.length


def _read(line: str) -> Run:
    row = json.loads(line)
    return Run(**row | {"curve": tuple(row["curve"])})


def _trained(path: Path | None) -> Iterator[Run]:
    torch.set_num_threads(1)
    tasks: dict[Task, Data] = {"digits": _digits(), "teacher": _teacher()}
    for task, data in tasks.items():
        for asked in itertools.product(get_args(Shape), SEEDS, BATCHES, LENGTHS):
            run = Run(task, *asked, curve=_curve(data, *asked))
            if path is not None:
                with path.open("a") as file:
                    file.write(json.dumps(asdict(run)) + "\n")
            yield run


@dataclass(frozen=True, slots=True)
class Data:
    """What a network is trained and judged on, and how a new one is made."""

    inputs: torch.Tensor
    labels: torch.Tensor
    held_inputs: torch.Tensor
    held_labels: torch.Tensor
    network: Callable[[], nn.Module]


def _digits() -> Data:
    inputs, labels = (torch.tensor(part) for part in load_digits(return_X_y=True))
    rng = torch.Generator().manual_seed(7)
    order = torch.randperm(len(inputs), generator=rng)
    noisy = inputs[order].float().view(-1, 1, 8, 8) / 16 + 0.35 * torch.randn((len(inputs), 1, 8, 8), generator=rng)
    kinds = labels[order]
    return Data(noisy[:1400].repeat(2, 1, 1, 1), kinds[:1400].repeat(2), noisy[1400:], kinds[1400:], _convolutional)


def _convolutional() -> nn.Module:
    first = (nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten())
    return nn.Sequential(*first, nn.Linear(256, 64), nn.ReLU(), nn.Linear(64, 10))


def _teacher() -> Data:
    rng = torch.Generator().manual_seed(3)
    first, second = torch.randn(40, 64, generator=rng), torch.randn(64, 12, generator=rng)
    inputs = torch.randn(9000, 40, generator=rng)
    labels = ((inputs @ first).tanh() @ second + 2 * torch.randn(9000, 12, generator=rng)).argmax(1)
    return Data(inputs[:7000], labels[:7000], inputs[7000:], labels[7000:], _dense)


def _dense() -> nn.Module:
    return nn.Sequential(nn.Linear(40, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 12))


def _curve(data: Data, shape: Shape, seed: int, batch: int, length: int) -> tuple[float, ...]:
    """Return the accuracy after every epoch of a training."""
    torch.manual_seed(seed)
    network, steps = data.network(), len(data.inputs) // batch
    peak = RATE * min(batch / USUAL_BATCH, MOST_SCALED)
    optimizer, curve = torch.optim.SGD(network.parameters(), peak, momentum=0.9), []
    for epoch in range(length):
        network.train()
        order = torch.randperm(len(data.inputs))
        for step in range(steps):
            share = (epoch + step / steps) / length
            optimizer.param_groups[0]["lr"] = peak * max(_rate(shape, share, min(1 / length, 0.5)), 1e-4)
            rows = order[step * batch : (step + 1) * batch]
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(network(data.inputs[rows]), data.labels[rows])
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        network.eval()
        with torch.no_grad():
            curve.append(float((network(data.held_inputs).argmax(1) == data.held_labels).float().mean()))
    return tuple(curve)


def _rate(shape: Shape, share: float, warm: float) -> float:
    """Return the rate over its peak after a share of a run, of which a part warms up where the schedule has that."""
    if shape == "one cycle":
        if share < RISING:
            return FLOOR + (1 - FLOOR) * (1 - math.cos(math.pi * share / RISING)) / 2
        return (1 + math.cos(math.pi * (share - RISING) / (1 - RISING))) / 2
    if "warm-up" in shape:
        if share < warm:
            return share / warm
        share = (share - warm) / (1 - warm)
    return (1 + math.cos(math.pi * share)) / 2 if shape.startswith("cosine") else 1 - share


def _judged(runs: dict[tuple[Task, Shape, int, int, int], Run], *, cut: bool, accuracy: Posterior) -> Iterator[Judged]:
    schedules: dict[Shape, str] = {shape: _said(shape) for shape in get_args(Shape)}
    for task, shape, seed, batch in itertools.product(get_args(Task), get_args(Shape), SEEDS, BATCHES):
        shown = [(one, 2) for one in BATCHES] + [(BATCHES[0], 3), (batch, LENGTHS[-1] if cut else 6)]
        samples = [_sample(runs[task, shape, seed, *one]) for one in shown]
        job = Job("annealed", examples=3000, schedule=schedules[shape])
        interval = _forecast(job, samples, accuracy)
        for length in ASKED:
            low, middle, high = interval(length)
            ends = [runs[task, shape, one, batch, length].curve[-1] for one in SEEDS]
            yield Judged(shape, middle - float(np.mean(ends)), bool(low <= ends[1 - seed] <= high))


def _forecast(job: Job, samples: list[Sample], accuracy: Posterior) -> Callable[[int], tuple[float, float, float]]:
    """Return what `cotune plan` forecasts of the end of a run of a length: low, middle and high."""
    forecast = forecaster(job, samples, Cluster(), accuracy=accuracy)
    learning = forecast(Configs.of([samples[-1].config]), LENGTHS[-1]).learning
    assert learning is not None

    def interval(length: int) -> tuple[float, float, float]:
        place = int(learning.column(0, np.array([float(length)]))[0])
        low, middle, high = np.quantile(learning.best[0, :, place], (0.1, 0.5, 0.9)).tolist()
        return low, middle, high

    return interval


def _said(shape: Shape) -> str:
    return "one_cycle" if shape == "one cycle" else "cosine" if shape.startswith("cosine") else "linear"


def _sample(run: Run) -> Sample:
    """Return a run as a profile sees it: of the longest its beginning alone."""
    shown = run.curve[: SEEN_OF_LONGEST if run.length == LENGTHS[-1] else None]
    curve = tuple(Evaluation(float(epoch), value, float(epoch)) for epoch, value in enumerate(shown, 1))
    config, epochs = Config.data_parallel(run.batch, 1), float(len(curve))
    whole = Sample(config, epochs, 1.0, curve[-1].accuracy, curve=curve, seconds=epochs, length=run.length)
    return replace(whole, seed=run.seed)


if __name__ == "__main__":
    sys.exit(main())
