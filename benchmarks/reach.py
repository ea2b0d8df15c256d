"""Is "reaches a target that no run has shown, by epoch e" as likely as is said?

    COTUNE_DATA=... python benchmarks/reach.py RECORDINGS... [--turning FILE] [--each 40] [--priors PRIORS]

Learning curves of many sources are cut early, at 15, 30 and 50 % of their evaluations; what is left of one is all that
a job has shown. Targets lie beyond its best by 2 to 80 % of the range of what it has shown, epochs at 1.25 to 5 times
those trained. A row for each source: how many such questions there are, the mean P that is told and the share that
came true, where P is told to be 0.2 to 0.8, above 0.8 and above 0.9, and Brier's score (lower is better). Curves that
had turned when they were cut (their last evaluations well below their best) have rows of their own. The prior is
PRIORS/SOURCE.json where there is one.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from cotune.lab.bench.tasks import recording_folders
from cotune.plan.draws import epochs_needed
from cotune.predict.learn import forecaster
from cotune.predict.metric_bounds import natural_ceiling
from cotune.predict.predictors.posterior import Posterior
from cotune.recording import read
from cotune.space import Configs
from cotune.types import RECORDED, Cluster, Config, Device, Evaluation, Floats, Goal, Job, Sample
from learning_prior import posterior_without

CUTS = (0.15, 0.3, 0.5)
LONGER = (1.25, 1.5, 2.0, 3.0, 5.0)
BEYOND = (0.02, 0.05, 0.1, 0.2, 0.4, 0.8)
FEWEST, MOST = 4, 400  # evaluations of a curve that is cut; epochs of a whole one
PRIORS = {"gru": "second", "mixer": "second", "residual": "second", "mlperf": "mlperf-v0.6"} | {
    "mlperf recent": "mlperf_recent",
    "pole": "turning",
    "few examples, val_loss": "turning",
    "few examples, accuracy": "turning",
}  # the source that is left out of the prior, where that has another name
BINS = ((0.2, 0.8), (0.8, 1.01), (0.9, 1.01))
Better = Literal["higher", "lower"]
CLUSTER = Cluster((Device("cpu", 1),))


@dataclass(frozen=True, eq=False)
class Whole:
    """A learning curve from beginning to end."""

    source: str
    task: str
    metric: str
    better: Better
    batch: int
    epochs: Floats
    values: Floats

    @property
    def job(self) -> Job:
        return Job(self.task, metric=self.metric, better=self.better)


@dataclass(frozen=True)
class Answer:
    """What was told of one target by one epoch, and whether it came true."""

    source: str
    turned: bool
    told: float
    came: bool


def recorded(folders: Sequence[Path]) -> Iterator[Whole]:
    """Yield the curves of recordings; those with the same curves count once."""
    seen = set()
    for folder in folders:
        one = read(folder)
        source = one.name.split("-")[0] if folder.parent.name not in ("recordings", "published") else folder.parent.name
        source = "mlperf recent" if "mlperf-recent" in one.name else source
        for by in one.curves.values():
            for batch, seeds in by.items():
                for curve in seeds:
                    epochs, values = np.array(curve.epochs), np.array(curve.accuracy)
                    if (key := (one.job.metric, batch, values.tobytes())) not in seen:
                        seen.add(key)
                        yield Whole(source, one.name, one.job.metric, one.job.better, batch, epochs, values)


def rows_of(file: Path) -> Iterator[dict[str, str]]:
    with gzip.open(file, "rt") if file.suffix == ".gz" else file.open() as text:
        yield from csv.DictReader(text)


def grouped(file: Path, keys: Sequence[str], step: str, value: str) -> Iterator[tuple[tuple[str, ...], Floats, Floats]]:
    """Yield (keys, steps, values) of each curve of a table; the first step of all tells nothing."""
    found: dict[tuple[str, ...], list[tuple[float, float]]] = {}
    for row in rows_of(file):
        if row[value] and (step == "epoch" or float(row[step]) > 1):
            found.setdefault(tuple(row[key] for key in keys), []).append((float(row[step]), float(row[value])))
    for key, points in found.items():
        steps, values = np.array(sorted(points)).T
        yield key, steps, values


def published(folder: Path) -> Iterator[Whole]:
    """Yield curves of AlgoPerf, Multi-Power and the NanoGPT speedruns, in evaluations instead of steps."""
    trials = {row["trial_id"]: row for row in rows_of(folder / "algoperf" / "trials.csv.gz")}
    for (trial,), steps, values in grouped(folder / "algoperf" / "points.csv.gz", ["trial_id"], "step", "value"):
        about = trials[trial]
        better: Better = "lower" if about["workload"] == "librispeech_conformer" else "higher"
        metric = {"ogbg": "mAP", "wmt": "bleu"}.get(about["workload"], about["metric"])
        yield Whole("algoperf", about["workload"], metric, better, 256, steps, values)
    models = ("model_millions", "schedule")
    for names, steps, values in grouped(folder / "multipower" / "curves.csv.gz", models, "step", "loss"):
        yield Whole("multipower", " ".join(names), "loss", "lower", 256, steps[::4], values[::4])
    records = ("record", "run")
    for (record, _), steps, values in grouped(folder / "nanogpt_logs" / "runs.csv.gz", records, "step", "val_loss"):
        yield Whole("nanogpt", record, "val_loss", "lower", 256, steps, values)


def turning(file: Path) -> Iterator[Whole]:
    """Yield the curves of `benchmarks/turning_curves.py`."""
    keys = ("task", "metric", "better", "global_batch", "seed")
    for (task, metric, better, batch, _), epochs, values in grouped(file, keys, "epoch", "value"):
        source = "pole" if task.startswith("pole") else f"few examples, {metric}"
        which: Better = "lower" if better == "lower" else "higher"
        yield Whole(source, task, metric, which, int(batch), epochs, values)


def chosen(found: Sequence[Whole], each: int) -> list[Whole]:
    """Return at most so many curves of each source, its tasks in turn."""
    kept: list[Whole] = []
    for source in sorted({one.source for one in found}):
        by_task: dict[str, list[Whole]] = {}
        for one in found:
            gap = float(np.median(np.diff(one.epochs))) if len(one.epochs) > 1 else 0.0
            if one.source == source and gap > 0 and len(one.epochs) >= 2 * FEWEST and np.isfinite(one.values).all():
                scale = min(1.0 / gap, MOST / one.epochs[-1])
                by_task.setdefault(one.task, []).append(
                    replace(one, epochs=one.epochs * max(scale, 1.0 if gap == 1 else 0.0))
                )
        share = max(1, each // max(len(by_task), 1))
        for curves in by_task.values():
            places = np.unique(np.linspace(0, len(curves) - 1, min(share, len(curves))).round().astype(int))
            kept += [curves[place] for place in places]
    return kept


def sample_of(whole: Whole, last: int) -> Sample:
    """Return a curve of which so many evaluations were seen."""
    points = zip(whole.epochs[:last].tolist(), whole.values[:last].tolist(), strict=True)
    curve = tuple(Evaluation(epoch, value, 0.0) for epoch, value in points)
    config = Config.data_parallel(whole.batch, 1)
    end = curve[-1]
    return Sample(config, end.epoch, 1.0, end.accuracy, curve=curve, seconds=1.0, id="seen", engine=RECORDED)


def needed_to(whole: Whole, last: int, most: int, accuracy: Posterior) -> Callable[[float], Floats]:
    """Return what `cotune plan` forecasts of a run that goes on: in every draw the epochs to a target."""
    sample = sample_of(whole, last)
    outlook = forecaster(whole.job, [sample], CLUSTER, accuracy=accuracy).going_on()(Configs.of([sample.config]), most)
    sign = whole.job.sign
    return lambda target: epochs_needed(outlook, Goal(sign * target, max_epochs=most), sign)[0]


def has_turned(signed: Floats) -> bool:
    """Say whether the last evaluations lie well below the best: whether a look says that a curve has turned."""
    if len(signed) < FEWEST:
        return False
    rough = 1.4826 * np.median(np.abs(np.diff(signed, n=2))) / np.sqrt(6)
    return bool(signed.max() - signed[-3:].max() > max(3 * rough, 0.02 * np.ptp(signed)))


def asked(whole: Whole, accuracy: Posterior) -> Iterator[Answer]:
    """Yield the answers to all questions about a curve."""
    sign = whole.job.sign
    signed = sign * whole.values
    for share in CUTS:
        last = max(FEWEST, round(share * len(signed)))
        end = whole.epochs[last - 1]
        if last >= len(signed):
            continue
        most = int(min(np.ceil(LONGER[-1] * end), np.floor(whole.epochs[-1])))
        needed = needed_to(whole, last, max(most, 1), accuracy)
        best, span = signed[:last].max(), float(np.ptp(signed[:last]))
        turned = has_turned(signed[:last])
        for beyond in BEYOND:
            target = best + beyond * span
            if span == 0 or target > natural_ceiling(whole.job, signed[:last]):
                continue
            epochs = needed(target)
            for longer in LONGER:
                by = np.floor(longer * end)
                if by <= end or by > whole.epochs[-1] + 1e-9:
                    continue
                came = bool((signed[whole.epochs <= by + 1e-9] >= target).any())
                yield Answer(whole.source, turned, float((epochs <= by).mean()), came)


def table(answers: Sequence[Answer]) -> None:
    heads = "".join(f"  P {low:g}-{min(high, 1):g}: n, told, came" for low, high in BINS)
    print(f"{'source':30s}{'asked':>7s}{'told':>6s}{'came':>6s}{'Brier':>8s}{heads}")
    groups = [(one.source, one.turned) for one in answers]
    for source, turned in sorted(set(groups)):
        own = [one for one in answers if (one.source, one.turned) == (source, turned)]
        told, came = (np.array([getattr(one, name) for one in own], dtype=float) for name in ("told", "came"))
        cells = []
        for low, high in BINS:
            rows = (told >= low) & (told < high)
            cells.append(
                f"{rows.sum():10d}{told[rows].mean():7.2f}{came[rows].mean():7.2f}"
                if rows.any()
                else f"{0:10d}{'':14s}"
            )
        name = f"{source}, turned" if turned else source
        print(
            f"{name:28s}{len(own):7d}{told.mean():6.2f}{came.mean():6.2f}{((told - came) ** 2).mean():8.4f}"
            + "".join(cells)
        )


def summaries(answers: Sequence[Answer]) -> list[dict[str, Any]]:
    """Return how many questions each source asks, what was told of them and came in the mean, and Brier's score."""
    parts = {
        source: [one for one in answers if one.source == source] for source in sorted({one.source for one in answers})
    }
    found = []
    for source, own in {**parts, "all": answers}.items():
        told, came = (np.array([getattr(one, name) for one in own], dtype=float) for name in ("told", "came"))
        scores = {"told": told.mean(), "came": came.mean(), "brier": ((told - came) ** 2).mean()}
        found.append({"source": source, "asked": len(own), **scores})
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recordings", type=Path, nargs="+")
    parser.add_argument("--turning", type=Path)
    parser.add_argument("--each", type=int, default=40)
    parser.add_argument("--json", action="store_true", help="print means of all questions alone, as JSON")
    parser.add_argument("--priors", type=Path, help="a folder of SOURCE.json, each fitted without that source")
    options = parser.parse_args()
    found = list(recorded(recording_folders(options.recordings)))
    found += published(Path(os.environ["COTUNE_DATA"]))
    found += turning(options.turning) if options.turning else []
    kept = chosen(found, options.each)
    answers: list[Answer] = []
    for whole in kept:
        answers += asked(whole, posterior_without(PRIORS.get(whole.source, whole.source), options.priors))
    if options.json:
        print(json.dumps({"summary": summaries(answers)}))
    else:
        table(answers)


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
