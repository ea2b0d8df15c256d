"""Fit the prior of `predict/learning` on recorded tasks, and the same with each source left out.

    COTUNE_DATA=... python benchmarks/learning_prior.py RECORDINGS... --tables FOLDER --annealed FILE --turning FILE OUT

OUT/prior.json is of all sources, OUT/SOURCE.json without one of them. RECORDINGS are folders with recordings (what
`cotune import` makes of shared data as well), FOLDER has the tables that `cotune bench curves` reads, the files are
those of `annealed_ends.py` and `turning_curves.py`. Names of the folders are names of sources.

Expectation maximisation over views, each some runs of a task. Expectation: draws of the parameters given the whole
runs. Maximisation: their mean, linear in the features, and covariance. What is left to learn is relative to what was
seen, so every draw counts as it would be told after the first few evaluations of its runs, after more, and after all:
forecasts are asked when little was seen. Families of tasks weigh the same, whatever their number of runs. What was
never seen is drawn to the first guess as if ten families had shown it.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from cotune.lab.bench.curves import read_curves
from cotune.lab.bench.tasks import grouped, recording_folders, worked_off
from cotune.predict.learning import CurvePrior, JobFacts, Run
from cotune.predict.learning.family import NAMES, Curves
from cotune.predict.learning.job_runs import facts_of
from cotune.predict.learning.observations import Observations
from cotune.predict.learning.prior import FEATURES
from cotune.predict.learning.sampler import draws_of
from cotune.predict.predictors.posterior import Posterior
from cotune.recording import read
from cotune.types import Floats, Job

CUTS = (2, 4, 8, 1000)  # evaluations after which the parameters of a view are told
MOST_RUNS, FEWEST_EVALUATIONS, DRAWS = 8, 4, 150
LARGEST_RISE = (-2.0, 3.0)  # ln of what is left to learn over what was seen, where almost nothing was
GUESSED = 10.0  # families by which the first guess counts
RIDGE = np.array([0.3, 6.0, 1.0, *[6.0] * 4])  # families by which each feature is drawn to have no effect
# What only runs with a schedule show: constant rates would draw it to the guess of the round before.
ANNEALING = np.array([name in ("anneal", "fade", "length_level", "calm") for name in NAMES])
UNKNOWN = 0.25  # share of views of scheduled runs that are shown without their schedule


def posterior_without(source: str, priors: Path | None) -> Posterior:
    """Return the predictor whose prior leaves a source out, from a folder of such; as shipped where there is none."""
    path = None if priors is None else priors / f"{source}.json"
    return Posterior(str(path) if path is not None and path.exists() else "")


@dataclass(frozen=True, eq=False)
class Task:
    """Runs that one posterior may see together, by what a recipe is (a batch, a length)."""

    source: str
    family: str
    facts: JobFacts
    recipes: Sequence[Sequence[Run]]


@dataclass(frozen=True, eq=False)
class View:
    """Some runs of a task."""

    source: str
    family: str
    facts: JobFacts
    runs: Sequence[Run]


@dataclass(frozen=True, eq=False)
class Expected:
    """The posterior of a view, as draws."""

    source: str
    family: str
    features: Floats
    theta: Floats
    usual: Floats
    """Probability of each draw to be of a job like the recorded ones."""

    evidence: float


def recorded(folders: Sequence[Path]) -> Iterator[Task]:
    """Yield recordings; those of the same curves count once."""
    known = set()
    for folder in folders:
        one = read(folder)
        seeds = {batch: runs for by in one.curves.values() for batch, runs in by.items()}
        if not seeds or str(seeds) in known:
            continue
        known.add(str(seeds))
        recipes = [
            [Run(batch, np.array(curve.epochs), one.job.sign * np.array(curve.accuracy)) for curve in runs]
            for batch, runs in seeds.items()
        ]
        every = [run for runs in recipes for run in runs]
        facts = facts_of(one.job, np.concatenate([run.values for run in every]), every)
        name = one.name.removeprefix("mlperf-recent-").removeprefix("mlperf-")
        family = name.split("-")[0] if folder.parent.name.startswith("mlperf") else "-".join(name.split("-")[:3])
        yield Task(folder.parent.name, family, facts, recipes)


def tabled(folder: Path) -> Iterator[Task]:
    """Yield the runs of a folder of tables, those of a schedule and a variant together."""
    for (name, _, schedule), runs in grouped(read_curves(folder), lambda run: run.recipe[:3]).items():
        recipes = [[run.run for run in own] for own in grouped(runs, lambda run: run.recipe).values()]
        yield Task(folder.name, f"{name} {schedule}", runs[0].facts(), recipes)


def annealed(file: Path) -> Iterator[Task]:
    """Yield the annealed runs of two small networks: each length is a recipe."""
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    for (task, shape), own in grouped(rows, lambda row: (row["task"], row["shape"])).items():
        schedule = "one_cycle" if shape == "one cycle" else shape.split(",")[0]
        recipes = [
            [Run(row["batch"], np.arange(1.0, row["length"] + 1), np.array(row["curve"]), row["length"]) for row in of]
            for of in grouped(own, lambda row: (row["batch"], row["length"])).values()
        ]
        yield Task("annealed", task, JobFacts(1.0, 0.0, examples=3000, schedule=schedule), recipes)


def turned(file: Path) -> Iterator[Task]:
    """Yield curves that turn."""
    with file.open() as text:
        rows = list(csv.DictReader(text))
    for (name, metric, better), own in grouped(rows, lambda row: (row["task"], row["metric"], row["better"])).items():
        job = Job(name, metric=metric, better="lower" if better == "lower" else "higher")
        recipes = [
            [_turned_run(job, of) for of in grouped(batch, lambda row: row["seed"]).values()]
            for batch in grouped(own, lambda row: row["global_batch"]).values()
        ]
        every = [run for runs in recipes for run in runs]
        facts = facts_of(job, np.concatenate([run.values for run in every]), every)
        yield Task("turning", f"{name} {metric}", facts, recipes)


def speedruns(file: Path) -> Iterator[Task]:
    """Yield the records of NanoGPT, whose rates are constant and then fall."""
    with gzip.open(file, "rt") as text:
        rows = [row for row in csv.DictReader(text) if row["val_loss"] and int(row["step"])]
    for record, own in grouped(rows, lambda row: row["record"]).items():
        runs = []
        for of in grouped(own, lambda row: row["run"]).values():
            steps, losses = np.array([(float(row["step"]), float(row["val_loss"])) for row in of]).T
            runs.append(Run(1.0, steps, -losses, float(of[0]["steps_total"])))
        yield Task("nanogpt", record, JobFacts(falls=True, schedule="wsd"), [runs])


def _turned_run(job: Job, rows: Sequence[Mapping[str, str]]) -> Run:
    epochs, values = np.array([(float(row["epoch"]), float(row["value"])) for row in rows]).T
    return Run(float(rows[0]["global_batch"]), epochs, job.sign * values)


def views_of(tasks: Sequence[Task], each: int, rng: np.random.Generator) -> Iterator[View]:
    """Yield some views of each family."""
    for own in grouped(tasks, lambda task: (task.source, task.family)).values():
        for _ in range(each):
            task = own[rng.integers(len(own))]
            few = rng.permutation(len(task.recipes))[: rng.integers(1, 5)]
            runs = [
                task.recipes[place][seed]
                for place in few
                for seed in rng.permutation(len(task.recipes[place]))[: rng.integers(1, 4)]
            ]
            told = [replace(run, length=run.length or run.epochs[-1]) for run in runs[:MOST_RUNS]]
            facts = task.facts
            if facts.schedule != "constant" and rng.random() < UNKNOWN:
                facts = replace(facts, schedule=None)
            every = np.concatenate([run.values for run in told])
            if len(every) >= FEWEST_EVALUATIONS and np.ptp(every) > 0:
                yield View(task.source, task.family, facts, told)


def expected(view: View, prior: CurvePrior) -> list[Expected]:
    """Return the posterior of a view, as it would be told after the first evaluations of its runs and after all."""
    whole = Observations(view.runs, view.facts)
    found = draws_of(whole, prior, DRAWS, np.random.default_rng(0))
    usual, unusual = prior.around(whole.features).log_parts(found.theta)
    share = np.exp(usual - np.logaddexp(usual, unusual))
    rows = []
    for count in CUTS:
        runs = [run.until(count) for run in view.runs]
        seen = Observations(runs, view.facts)
        theta = found.theta.copy()
        unit = Curves(theta, found.shape, seen).unit[:, 0]
        rise = np.log(found.given.curves.g[:, 0] / unit)
        theta[:, NAMES.index("rise")] = np.clip(rise, *LARGEST_RISE)
        rows.append(Expected(view.source, view.family, seen.features, theta, share, found.evidence))
    return rows


def maximised(found: Sequence[Expected]) -> CurvePrior:
    """Return the prior under which these posteriors are the most likely, drawn to the first guess."""
    first = CurvePrior.first()
    families = grouped(found, lambda one: (one.source, one.family))
    share = np.array([1 / len(families[one.source, one.family]) / DRAWS for one in found])
    features = np.repeat([one.features for one in found], DRAWS, axis=0)
    theta = np.concatenate([one.theta for one in found])
    usual = np.repeat(share, DRAWS) * np.concatenate([one.usual for one in found])
    scheduled = features[:, FEATURES.index("scheduled") :].any(axis=1)
    weights, off, covariance = first.weights.copy(), np.empty_like(theta), first.covariance.copy()
    for columns, seen in ((~ANNEALING, np.ones(len(theta))), (ANNEALING, scheduled)):
        weight = (usual * seen)[:, None]
        gram = (features * weight).T @ features + np.diag(RIDGE)
        missed = theta[:, columns] - features @ first.weights[:, columns]
        weights[:, columns] += np.linalg.solve(gram, (features * weight).T @ missed)
        off[:, columns] = theta[:, columns] - features @ weights[:, columns]
        block = np.ix_(columns, columns)
        covariance[block] = _covariance(weight[:, 0], off[:, columns], first.covariance[block])
    return CurvePrior(weights, covariance)


def _covariance(weight: Floats, off: Floats, first: Floats) -> Floats:
    return np.asarray(((off * weight[:, None]).T @ off + GUESSED * first) / (weight.sum() + GUESSED))


def fit(views: Sequence[View], prior: CurvePrior, rounds: int, processes: int) -> tuple[CurvePrior, list[Expected]]:
    """Return the prior after some rounds, and the posteriors of the last."""
    found: list[Expected] = []
    for turn in range(rounds):
        found = [one for rows in worked_off(partial(expected, prior=prior), views, processes) for one in rows]
        prior = maximised(found)
        evidence = np.mean([one.evidence for one in found])
        print(f"round {turn}: {len(views)} views, evidence {evidence:.3f}", flush=True)
    return prior, found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recordings", type=Path, nargs="+")
    parser.add_argument("out", type=Path)
    parser.add_argument("--tables", type=Path, required=True)
    parser.add_argument("--annealed", type=Path, required=True)
    parser.add_argument("--turning", type=Path, required=True)
    parser.add_argument("--views", type=int, default=4, help="of each family")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--refits", type=int, default=1, help="rounds after a source was left out")
    parser.add_argument("--processes", type=int, default=2)
    asked = parser.parse_args()
    tasks = [*speedruns(Path(os.environ["COTUNE_DATA"]) / "nanogpt_logs" / "runs.csv.gz")]
    tasks += [*recorded(recording_folders(asked.recordings)), *annealed(asked.annealed), *turned(asked.turning)]
    tables = sorted(path.parent for path in asked.tables.glob("*/curves.csv"))
    known = {task.source for task in tasks}
    tasks += [task for folder in tables if folder.name not in known for task in tabled(folder)]
    views = list(views_of(tasks, asked.views, np.random.default_rng(0)))
    prior, found = fit(views, CurvePrior.first(), asked.rounds, asked.processes)
    asked.out.mkdir(parents=True, exist_ok=True)
    (asked.out / "prior.json").write_text(prior.document() + "\n")
    begun = {name: maximised([one for one in found if one.source != name]) for name in {one.source for one in found}}
    for source, without in sorted(begun.items()):
        others = [view for view in views if view.source != source]
        refitted, _ = fit(others, without, asked.refits, asked.processes)
        (asked.out / f"{source}.json").write_text(refitted.document() + "\n")


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
