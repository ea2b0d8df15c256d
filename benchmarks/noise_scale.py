"""Does the gradient noise scale foretell how epochs grow with the batch? Pollux's runs, which logged both.

    python benchmarks/noise_scale.py POLLUX_DATA

    E(B) = E0 (1 + B / Bc)                                 epochs to a target at global batch B
    ln Bc ~ N(ln(0.3 x largest batch), 1.3)                what runs without a profile assume
    ln Bc ~ N(ln(k x B_noise), 0.8)                        the noise scale as one more witness, or in half of all
                                                           tasks: `doubted`
    B_noise = B0 x mean variance / mean squared norm       over a run up to its target, or its first tenth

Some batches of a task are seen with their noise scales, and all others foretold: every set of seen batches. k is 1, or
`scaled` to what the other tasks say, the one that is judged left out. The error is that of the median, as a share.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from cotune.cli.output import say, table
from cotune.predict.way import PRIOR
from cotune.recording.imported import rows
from cotune.types import Floats

TASKS = {"cifar10": 1, "imagenet": 1, "yolov3": -1}  # the sign of what is better; BERT has two evaluations a run
QUANTILES = (0.4, 0.6, 0.8, 0.95)
WITNESS = 0.8  # deviation of the logarithm
MISFIT = 0.1  # of ln E about the law
_GRID = np.linspace(-8.0, 8.0, 321)  # ln Bc about its prior
_EARLY = 0.1  # of a run
_ELSEWHERE = 0.1  # density of ln Bc, over that of the witness at its best, where it is wrong


@dataclass(frozen=True)
class BatchRun:
    """One batch on its way to one target."""

    batch: int
    epochs: float
    noise: float  # B_noise up to the target
    early: float  # and over the first tenth of the way


@dataclass(frozen=True)
class Case:
    """A target of a task, with all batches that reach it."""

    task: str
    runs: tuple[BatchRun, ...]

    @property
    def largest(self) -> int:
        return max(run.batch for run in self.runs)


def cases(folder: Path, task: str, sign: int) -> Iterator[Case]:
    """Yield the targets of a task that at least four batches reach."""
    curves = {int(path.stem.split("-")[1]): list(rows(path)) for path in folder.glob("validation-*.csv")}
    smallest = min(curves)
    steps = [int(row["iteration"]) for row in curves[smallest]]
    examples = smallest * (steps[-1] - steps[0]) / (len(steps) - 1)
    ends = np.concatenate([[sign * float(row["metric"]) for row in curve] for curve in curves.values()])
    passes = {batch: int_column(curve, "iteration") * batch / examples for batch, curve in curves.items()}
    for target in np.quantile(ends, QUANTILES):
        runs = [_run(batch, passes[batch], curves[batch], sign, float(target)) for batch in sorted(curves)]
        able = tuple(run for run in runs if run is not None)
        if len(able) >= 4:
            yield Case(
                task, tuple(replace(run, noise=run.noise * smallest, early=run.early * smallest) for run in able)
            )


def int_column(curve: Sequence[dict[str, str]], name: str) -> Floats:
    """Return one column of a run."""
    return np.array([int(row[name]) for row in curve], dtype=np.float64)


def _run(batch: int, epochs: Floats, curve: Sequence[dict[str, str]], sign: int, target: float) -> BatchRun | None:
    """Return a batch on its way to a target, noise scales over the smallest batch; None where it is never on one."""
    best = np.maximum.accumulate([sign * float(row["metric"]) for row in curve])
    met = int(np.argmax(best >= target))
    if best[-1] < target or met == 0:
        return None
    share = (target - best[met - 1]) / (best[met] - best[met - 1])
    needed = float(epochs[met - 1] + share * (epochs[met] - epochs[met - 1]))
    return BatchRun(batch, needed, _noise(curve[: met + 1]), _noise(curve[: 1 + int(_EARLY * met)]))


def _noise(curve: Sequence[dict[str, str]]) -> float:
    variance, squared = (np.mean([float(row[name]) for row in curve]) for name in ("grad_var", "grad_sqr"))
    return float(variance / squared)


def fitted(case: Case) -> float:
    """Return ln Bc by all runs of a case: what a noise scale should have said."""
    centre = np.log(PRIOR.critical * case.largest)
    score = _misfit(case.runs, centre + _GRID) - 0.5 * (_GRID / PRIOR.critical_width) ** 2
    return float(centre + _GRID[np.argmax(score)])


def foretold(
    seen: Sequence[BatchRun], largest: int, batch: int, noise: float | None, *, doubted: bool = False
) -> float:
    """Return the epochs expected at a batch; `noise` is the witness of Bc, if there is one."""
    centre = np.log(PRIOR.critical * largest)
    bound = centre + _GRID
    score = _misfit(seen, bound) - 0.5 * (_GRID / PRIOR.critical_width) ** 2
    if noise is not None:
        witness = np.exp(-0.5 * ((bound - np.log(noise)) / WITNESS) ** 2)
        score = score + np.log(witness + (2 * _ELSEWHERE if doubted else 1e-300))
    weights = np.exp(score - score.max())
    start = np.mean([np.log(run.epochs) - np.log1p(run.batch / np.exp(bound)) for run in seen], axis=0)
    return float(np.exp(weights @ (start + np.log1p(batch / np.exp(bound))) / weights.sum()))


def _misfit(seen: Sequence[BatchRun], bound: Floats) -> Floats:
    over = np.array([np.log(run.epochs) - np.log1p(run.batch / np.exp(bound)) for run in seen])
    return np.asarray(-0.5 * ((over - over.mean(axis=0)) ** 2).sum(axis=0) / MISFIT**2)


def errors(every: Sequence[Case], task: str, count: int, kind: str) -> Floats:
    """Return the errors on unseen batches of a task, some batches seen, by one kind of witness."""
    early, doubted = kind.startswith("first tenth"), kind.endswith("doubted")
    others = [fitted(case) - np.log(_middle(case.runs, early)) for case in every if case.task != task]
    bias = float(np.exp(np.mean(others))) if "scaled" in kind else 1.0
    found = []
    for case in (case for case in every if case.task == task):
        for seen in itertools.combinations(case.runs, count):
            noise = None if kind == "no witness" else bias * _middle(seen, early)
            for run in case.runs:
                if run not in seen:
                    told = foretold(seen, case.largest, run.batch, noise, doubted=doubted)
                    found.append(abs(told / run.epochs - 1))
    return np.array(found)


def _middle(runs: Sequence[BatchRun], early: bool) -> float:
    return float(np.exp(np.mean([np.log(run.early if early else run.noise) for run in runs])))


def main() -> None:
    """Print the median and mean error of every witness for each task and number of batches seen."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    folder: Path = parser.parse_args().folder
    every = [case for task, sign in TASKS.items() for case in cases(folder / task, task, sign)]
    for case in every:
        told = np.exp(fitted(case)), _middle(case.runs, early=False), _middle(case.runs, early=True)
        words = f"noise scale {told[1]:,.0f}, of the first tenth {told[2]:,.0f}"
        say(f"{case.task}: Bc by all its runs {told[0]:,.0f}, {words}")
    kinds = (
        "no witness", "whole way", "whole way, doubted", "first tenth", "first tenth, scaled",
        "first tenth, scaled, doubted",
    )  # fmt: skip
    lines = []
    for count, task in itertools.product((1, 2, 3), TASKS):
        found = [errors(every, task, count, kind) for kind in kinds]
        lines.append((count, task, len(found[0]), *(f"{np.median(one):.0%} / {one.mean():.0%}" for one in found)))
    columns = ("batches seen", "task", "foretold", *kinds)
    table(columns, lines, title="error of epochs at unseen batches, median / mean, by witness of Bc")


if __name__ == "__main__":
    main()
