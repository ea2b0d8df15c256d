"""The evaluation of the joint paper, done again on recordings, with the paper's numbers beside ours.

    python benchmarks/paper.py [figures] [prediction] [time] [accuracy] [cost] [--recordings DIR]

figures     Figures 2 and 3: cost, seconds and accuracy over the batch, and the three conclusions
prediction  Figure 4: the error of the paper's predictor in both readings, and of ours
time        Tables 2 to 5, Figure 5: accuracy in a fixed time
accuracy    Tables 6 to 9, Figure 6: seconds to a fixed accuracy
cost        Tables 10 and 11: what each method chooses for a target and a deadline, and who is late

The paper's own method (`lab/strategies/paper.py`) stands in the tables of cost in three readings: as worded, its
curves read as slices of the global batch, and the latter on our probes; in Tables 2 to 9 as slices. All goals
together, on other recordings too: `benchmarks/paper_rivals.py`.

Every method measures and plans on one half of a recording, as in `cotune bench planning`, and the other
half judges. Targets are quantiles of the recorded accuracies, deadlines 1.25 x the time of the middle of
the true cost-time frontier. Markdown on stdout.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import paper_numbers as paper
from cotune import registry
from cotune.lab.bench.lab import RecordedLab
from cotune.lab.bench.truth import SLACK, Truth, frontier
from cotune.lab.restricted import planned
from cotune.lab.strategies.batch_first import Bayesian, LbBsp
from cotune.lab.strategy import Decision, Strategy, decision_of
from cotune.predict import AccuracyPredictor, SecondsPredictor, TooFewSamples
from cotune.recording import Recording, read
from cotune.space import Configs
from cotune.types import Config, Evaluation, Floats, Goal, Sample

SHARES = (1 / 8, 1 / 4, 1 / 2, 1)  # of the time a middling config takes for all epochs
DRAWS = 5
OWN = "paper(reading=sliced,batch=global)"  # the paper's method at the reading that serves it best
METHODS = {
    "manual": "manual",
    "lb_bsp": "LB-BSP",
    "bayesian": "Bayesian",
    "cynthia": "Cynthia",
    "paper": "the paper's, as worded",
    OWN: "the paper's, as slices",
    "paper(reading=sliced,batch=global,sampling=probes)": "as slices, on our probes",
    "joint": "joint",
    "oracle": "oracle",
}


@dataclass(frozen=True)
class Workload:
    """A recording, its two halves, and what the paper calls it."""

    recording: Recording
    seen: Recording
    truth: Truth

    @classmethod
    def of(cls, folder: Path) -> Workload:
        recording = read(folder)
        seen, judge = recording.halves()
        return cls(recording, seen, Truth(judge))

    @property
    def name(self) -> str:
        return self.recording.name

    @property
    def paper(self) -> str:
        return self.name.partition("-")[0]

    def lab(self, goal: Goal) -> RecordedLab:
        return RecordedLab(self.seen, self.truth, goal)

    def goal(self, target: float) -> Goal:
        """Return a target with the deadline of the middle of its frontier."""
        seconds = self.truth.epochs_to(target) * self.truth.epoch_seconds
        rows = frontier(seconds, seconds * self.truth.rate)
        middle = float(seconds[rows[len(rows) // 2]])
        return Goal(target, SLACK * middle, max_epochs=self.recording.last_epoch)

    def accuracy(self, config: Config, seconds: float) -> float | None:
        """Return the median accuracy over seeds after the whole epochs that fit into some seconds."""
        row = self.truth.space.row(config)
        curves = self.truth.recording.accuracy(config)
        if row is None or curves is None:
            return None
        epochs = min(int(seconds / self.truth.epoch_seconds[row]), self.recording.last_epoch)
        return float(np.median(curves[:, epochs - 1])) if epochs else None

    def median_curve(self, workers: int | None, global_batch: int) -> Floats:
        """Return the median over seeds of the accuracy after whole epochs, by so many workers where that is told."""
        count = workers or 1
        curves = self.truth.recording.accuracy(Config.data_parallel(global_batch // count, count))
        assert curves is not None  # it was recorded
        return np.asarray(np.median(curves, axis=0))

    def seconds_to(self, config: Config, target: float) -> float:
        row = self.truth.space.row(config)
        return float(self.truth.epochs_to(target)[row] * self.truth.epoch_seconds[row]) if row is not None else np.inf


def figures(work: Workload) -> Iterator[str]:
    """Tell how cost, seconds and accuracy depend on workers and batch."""
    truth, configs = work.truth, work.truth.configs
    target = truth.targets[-2]
    seconds = truth.epochs_to(target) * truth.epoch_seconds
    cost = np.where(np.isfinite(seconds), seconds * truth.rate, np.inf)
    rows, best = [], []
    for count in np.unique(configs.workers):
        own = np.flatnonzero((configs.workers == count) & np.isfinite(cost))
        if len(own) < 2:
            continue
        order = own[np.argsort(cost[own])]
        cheapest, middle, dearest = (int(order[place]) for place in (0, len(order) // 2, -1))
        best.append(int(configs.batch_size[cheapest]))
        turns = _turns(truth.epoch_seconds[configs.workers == count])
        rows.append((
            count, best[-1], _number(cost[cheapest]), f"{1 - cost[cheapest] / cost[middle]:.0%}",
            f"{configs.batch_size[dearest]}: {1 - cost[cheapest] / cost[dearest]:.0%}",
            _number(seconds[cheapest]), turns,
        ))  # fmt: skip
    yield f"Target {target:.4g} ({len(configs)} configs)."
    yield table(
        ("workers", "cheapest batch", "cost", "less than the middling batch", "than the dearest batch", "seconds",
         "turns of seconds over the batch"), rows
    )  # fmt: skip
    yield from learnt(work)
    yield f"{len(set(best))} different cheapest batches for {len(best)} numbers of workers."


def learnt(work: Workload) -> Iterator[str]:
    """Tell the accuracy after some epochs by global batch, and by workers where these are told too."""
    recorded, last = work.truth.recording.curves, work.recording.last_epoch
    batches = sorted({batch for curves in recorded.values() for batch in curves})
    after = {
        (workers, batch): work.median_curve(workers, batch) for workers, curves in recorded.items() for batch in curves
    }

    def cell(workers: int | None, batch: int, epoch: int) -> str:
        return f"{after[workers, batch][epoch - 1]:.3f}" if (workers, batch) in after else ""

    shown = [
        (*([] if workers is None else [workers]), epoch, *(cell(workers, batch, epoch) for batch in batches))
        for workers in recorded
        for epoch in ((1, last // 2, last) if workers is None else (last,))
    ]
    told = [] if None in recorded else ["workers"]
    yield "Accuracy after some epochs, by global batch:"
    yield table((*told, "epoch", *map(str, batches)), shown)
    if None in recorded:
        half = last // 2
        turns = _turns(np.array([after[None, batch][half - 1] for batch in batches]))
        yield f"Accuracy turns {turns} times over the global batch after {half} epochs."


def prediction(work: Workload) -> Iterator[str]:
    """Tell how far predictors are off: on what they were fitted to, as the paper does, and on the other half."""
    names = ("isotonic(reading=pooled)", "isotonic(reading=sliced)")
    rows = [(name, *_time_errors(work, name), *_accuracy_errors(work, name)) for name in names]
    seconds, accuracy = paper.ERRORS[work.paper]
    rows.append(("the paper says", seconds, "", accuracy, ""))
    heads = ("predictor", "seconds: fitted", "other half", "accuracy: fitted", "other half")
    yield table(heads, rows)


def _time_errors(work: Workload, name: str) -> tuple[str, str]:
    configs = work.recording.space(with_accuracy=False).configs()
    right = work.recording.epoch_seconds(configs)
    samples = [Sample(config, 1.0, float(value)) for config, value in zip(configs, right, strict=True)]
    predictor = registry.create("predictor", name)
    assert isinstance(predictor, SecondsPredictor)

    def off(learnt: Sequence[int], asked: Sequence[int]) -> float:
        model = predictor.fit_seconds(work.recording.job, [samples[row] for row in learnt])
        found = model.predict(Configs.of([configs[int(row)] for row in asked]))
        return float(np.abs(found - right[asked]).sum() / right[asked].sum())

    return _both(off, len(samples))


def _accuracy_errors(work: Workload, name: str) -> tuple[str, str]:
    """Return the error over all points of all curves, and over those of batches left out."""
    predictor = registry.create("predictor", name)
    assert isinstance(predictor, AccuracyPredictor)
    runs = [
        Sample(
            Config.data_parallel(batch // (workers or 1), workers or 1),
            curve.epochs[-1],
            curve=tuple(Evaluation(e, a, 0.0) for e, a in zip(curve.epochs, curve.accuracy, strict=True)),
        )
        for workers, curves in work.recording.curves.items()
        for batch, seeds in sorted(curves.items())
        for curve in seeds[:1]
    ]

    def off(learnt: Sequence[int], asked: Sequence[int]) -> float:
        model = predictor.fit_accuracy(work.recording.job, [runs[row] for row in learnt])
        wrong, whole = 0.0, 0.0
        for row in asked:
            right = np.array([point.accuracy for point in runs[row].curve])
            epochs = np.array([point.epoch for point in runs[row].curve])
            found = model.predict(Configs.of([runs[row].config]), epochs)[0]
            wrong, whole = wrong + float(np.abs(found - right).sum()), whole + float(right.sum())
        return wrong / whole

    return _both(off, len(runs))


def _both(off: Callable[[Sequence[int], Sequence[int]], float], count: int) -> tuple[str, str]:
    everything = list(range(count))
    halves = []
    for draw in range(DRAWS):
        order = np.random.default_rng(draw).permutation(count).tolist()
        try:
            halves.append(off(sorted(order[: (count + 1) // 2]), sorted(order[(count + 1) // 2 :])))
        except TooFewSamples:
            continue
    return f"{off(everything, everything):.1%}", f"{np.median(halves):.1%}" if halves else "too few"


def fixed_time(work: Workload) -> Iterator[str]:
    """Tell the accuracy that each method gets to in a fixed time, on the workers that joint chose."""
    full = work.recording.last_epoch * float(np.median(work.truth.epoch_seconds))
    rows: list[tuple[object, ...]] = []
    for share, told in zip(SHARES, paper.FIXED_TIME[work.paper], strict=True):
        goal = Goal(deadline=share * full, max_epochs=work.recording.last_epoch)
        joint = _accurate(work, goal)
        if joint.config is None:
            rows.append((*told, _number(share * full), "", "", "", "refuses", ""))
            continue
        chosen = _with_workers(work, goal, joint.config)
        cells = [f"{c.batch_size}: {_share(work.accuracy(c, share * full))}" for c in chosen]
        own = decide(work, OWN, goal)[0].config
        reached = "refuses" if own is None else _share(work.accuracy(own, share * full))
        cells.append(f"{own.batch_size} x {own.workers}: {reached}" if own else reached)
        rows.append((*told, _number(share * full), joint.config.workers, *cells))
    heads = ("seconds", "workers", "LB-BSP", "Bayesian", "joint")
    yield table((f"paper: {heads[0]}", *heads[1:], f"ours: {heads[0]}", *heads[1:], "the paper's, as slices"), rows)


def _accurate(work: Workload, goal: Goal) -> Decision:
    lab = work.lab(goal)
    return planned(lab, lab.space, lab.forecaster(lab.profile(lab.space)), prefer="accurate")


def _with_workers(work: Workload, goal: Goal, joint: Config) -> list[Config]:
    """Return what LB-BSP and Bayesian tuning choose on the workers of a joint choice, and that choice."""
    part = work.truth.space.pinned(workers=[joint.workers])
    batches = [method.batch_size(work.lab(goal), part) for method in (LbBsp(), Bayesian())]
    chosen = [config for batch in batches for config in part.pinned(batch_size=[batch]).configs()]
    return [*chosen, joint]


def fixed_accuracy(work: Workload) -> Iterator[str]:
    """Tell the seconds that each method takes to a target, on the workers that joint chose (Cynthia its own)."""
    rows: list[tuple[object, ...]] = []
    for target, told in zip(work.truth.targets[-4:], paper.FIXED_ACCURACY[work.paper], strict=True):
        goal = work.goal(target)
        joint, cynthia, own = (decide(work, name, goal)[0].config for name in ("joint", "cynthia", OWN))
        if joint is None:
            rows.append((*told, f"{target:.3f}", "", "", "", "", "refuses", _told(work, own, target)))
            continue
        first, second, _ = _with_workers(work, goal, joint)
        cells = [_told(work, config, target) for config in (first, second, cynthia, joint, own)]
        rows.append((*told, f"{target:.3f}", joint.workers, *cells))
    heads = ("workers", "LB-BSP", "Bayesian", "Cynthia", "joint")
    yield table(("paper: target", *heads, "ours: target", *heads, "the paper's, as slices"), rows)


def _told(work: Workload, config: Config | None, target: float) -> str:
    if config is None:
        return "refuses"
    seconds = work.seconds_to(config, target)
    return f"{config.batch_size} x {config.workers}: " + (f"{_number(seconds)} s" if np.isfinite(seconds) else "never")


def cost(work: Workload) -> Iterator[str]:
    """Tell what each method chooses for two goals, what that costs, and who is late."""
    for target, told in zip(work.truth.targets[-2:], paper.COSTS[work.paper], strict=True):
        goal = work.goal(target)
        deadline = goal.deadline or np.inf
        rows = []
        for name, title in METHODS.items():
            decision, spent = decide(work, name, goal)
            rows.append((title, *told.cells(name), *_outcome(work, decision, target, deadline), _number(spent)))
        yield (
            f"Paper: {told.accuracy} in {told.deadline:,} s. Ours: {target:.4g} in {_number(deadline)} s, "
            f"up to {work.truth.configs.workers.max()} workers."
        )
        heads = ("batch", "workers", "seconds", "cost")
        yield table(("method", *(f"paper: {heads[0]}", *heads[1:]), f"ours: {heads[0]}", *heads[1:], "measuring"), rows)


def decide(work: Workload, name: str, goal: Goal) -> tuple[Decision, float]:
    """Return what a strategy chooses, and what it spent on measuring."""
    lab = work.lab(goal)
    strategy: Strategy = registry.create("strategy", name)
    return decision_of(strategy, lab), lab.spent()


def _outcome(work: Workload, decision: Decision, target: float, deadline: float) -> tuple[object, ...]:
    config = decision.config
    if config is None:
        return "refuses", "", "", ""
    seconds = work.seconds_to(config, target)
    if not np.isfinite(seconds):
        return config.batch_size, config.workers, "never", ""
    late = " late" if seconds > deadline else ""
    return config.batch_size, config.workers, _number(seconds) + late, _number(seconds * config.units)


def table(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return a table in Markdown."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def _turns(values: Floats) -> int:
    """Return how often a series changes its direction, steps of under two per cent aside."""
    steps = np.diff(np.log(values))
    signs = np.sign(steps[np.abs(steps) > 0.02])
    return int(np.count_nonzero(np.diff(signs)))


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _share(value: float | None) -> str:
    return "none" if value is None else f"{value:.3f}"


PARTS: dict[str, Callable[[Workload], Iterator[str]]] = {
    "figures": figures,
    "prediction": prediction,
    "time": fixed_time,
    "accuracy": fixed_accuracy,
    "cost": cost,
}


def main() -> None:
    """Print the parts asked for, one recording after the other."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=[*PARTS], help=", ".join(PARTS))
    parser.add_argument("--recordings", type=Path, default=Path(__file__).parents[1] / "recordings")
    asked = parser.parse_args()
    works = [Workload.of(job.parent) for job in sorted(asked.recordings.glob("*/job.yaml"))]
    works = [work for work in works if work.paper in paper.ERRORS]  # those of the paper's four networks
    for part in asked.parts:
        for work in works:
            print(f"#### {part}: {work.name}\n")
            for block in PARTS[part](work):
                print(f"{block}\n")


if __name__ == "__main__":
    main()
