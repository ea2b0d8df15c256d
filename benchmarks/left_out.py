"""joint with margins chosen on other clusters: each cluster is left out once, and judged by what the others chose.

COTUNE_DATA=... python benchmarks/left_out.py [RESULTS.json]
COTUNE_DATA=... python benchmarks/left_out.py --unseen

Fourteen settings on ten clusters: ITP's jobs with measured speeds on counted GPUs and on nodes with 30 s restarts, with
forecasts that are right and off by 0.1, and rigid jobs on overloaded clusters. Rivals are elasticflow, edf and srtf.
With a file what was played is kept there, and is not played again. `--unseen` plays joint as it is beside the rivals on
clusters, and on parts of clusters, that had no part in choosing anything; GPU hours are also told of the jobs that both
keep, since a rigid job costs what it costs.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np

from cotune import registry
from cotune.cluster.policy import Submission
from cotune.cluster.simulate import Outcome, simulate
from cotune.cluster.simulate.clusters import parse_cluster
from cotune.cluster.simulate.metrics import metrics
from cotune.cluster.simulate.world import mistaken
from cotune.cluster.traces import Trace, fitting, read
from cotune.cluster.traces.shaping import with_deadlines
from cotune.cluster.traces.speeds import malleable

RIVALS = ("elasticflow", "edf", "srtf")
MARGINS = (  # what is chosen among: the defaults, one of them changed at a time, and what they were before
    "joint",
    "joint(firm=0.1)",
    "joint(firm=0.2)",
    "joint(firm=0.5)",
    "joint(firm=0.75,revoked=4)",
    "joint(revoked=16)",
    "joint(worth=1.5)",
    "joint(widest=0.33)",
    "joint(widest=1.0)",
    "joint(slack=0.1)",
    "joint(most=0.25)",
)
LATE = 10.0  # deadlines met that one late job of the admitted is counted for, where forecasts are right


@dataclass(frozen=True)
class Part:
    """Some jobs of one cluster, and on what they are played."""

    source: str  # folder and cluster, or virtual cluster
    gpus: str
    begin: int
    end: int
    restart: float = 0.0
    noise: float = 0.0
    limits: tuple[float, float] | None = None  # of rigid jobs, whose deadlines are drawn

    @property
    def name(self) -> str:
        kind = "rigid" if self.limits else "malleable"
        return f"{self.source} on {self.gpus}, {kind}, restart {self.restart:.0f} s, noise {self.noise:g}"


PARTS = (
    Part("itp 01", "8x8", 0, 700, restart=30.0),
    Part("itp 02", "64", 1000, 1500),
    Part("itp 04", "32x8", 2000, 2400, restart=30.0),
    Part("itp 05", "16", 500, 1000, noise=0.1),
    Part("itp 08", "64", 3000, 3500),
    Part("itp 08", "8x8", 3000, 3500, restart=30.0),
    Part("itp 09", "24", 2000, 2500, limits=(1.2, 4.0)),
    Part("itp 10", "16", 0, 260, noise=0.1),
    Part("itp 10", "2x8", 0, 260, restart=30.0),
    Part("itp 02", "32", 1000, 1500, limits=(1.2, 3.0)),
    Part("philly 6c71a0", "32", 3000, 3600, limits=(1.1, 3.0)),
    Part("philly 6c71a0", "16", 3000, 3600, limits=(1.2, 3.0)),
    Part("philly b436b2", "48", 5000, 5600, noise=0.1, limits=(1.1, 3.0)),
    Part("philly 6214e9", "24", 1000, 1600, limits=(1.1, 3.0)),
)


UNSEEN = (  # the first six are of clusters that had no part in choosing, the next four other parts of some that had
    Part("philly 103959", "32", 0, 600, limits=(1.1, 3.0)),
    Part("philly 103959", "16", 1200, 1800, limits=(1.2, 3.0)),
    Part("philly ed69ec", "24", 0, 600, limits=(1.1, 4.0)),
    Part("philly ed69ec", "16", 500, 1100, noise=0.1, limits=(1.2, 3.0)),
    Part("philly e13805", "16", 0, 374, limits=(1.1, 3.0)),
    Part("tiresias", "16", 0, 60, limits=(1.2, 3.0)),
    Part("itp 09", "8x8", 6000, 6500, restart=30.0),
    Part("itp 04", "64", 9000, 9500),
    Part("itp 02", "64", 4000, 4500, noise=0.1),
    Part("itp 05", "2x8", 2500, 3000, restart=30.0),
    Part("itp 01", "64", 900, 1400),  # from here: named when promises came to be laid anew
    Part("itp 08", "8x8", 9000, 9500, restart=30.0),
    Part("itp 09", "48", 9000, 9500),
    Part("philly 6214e9", "32", 20000, 20600, limits=(1.2, 3.0)),
    Part("philly 103959", "24", 600, 1200, limits=(1.1, 3.0)),
)


@cache
def whole(source: str) -> Trace:
    folder, _, name = source.partition(" ")
    if not name:
        return read(Path(os.environ["COTUNE_DATA"]) / folder / "jobs60.csv.gz")
    column = "cluster" if folder == "itp" else "vc"
    return read(Path(os.environ["COTUNE_DATA"]) / folder / "jobs.csv.gz", {column: name})


def jobs_of(part: Part) -> tuple[Submission, ...]:
    cluster = parse_cluster(part.gpus)
    fits = fitting(whole(part.source), cluster, skip_bad=True)
    some = replace(fits, jobs=fits.jobs[part.begin : part.end])
    if part.limits is None:
        return malleable(some, Path(os.environ["COTUNE_DATA"]) / "elasticflow", cluster).jobs
    bare = replace(some, jobs=tuple(replace(job, deadline=None) for job in some.jobs))
    return with_deadlines(bare, *part.limits).jobs


def outcome_of(part: Part, policy: str) -> Outcome:
    jobs = jobs_of(part)
    return simulate(
        jobs,
        parse_cluster(part.gpus),
        registry.create("policy", policy),
        restart=part.restart,
        believe=mistaken(part.noise, len(jobs)),
    )


def played(part: Part, policy: str) -> dict[str, float]:
    return numbers(outcome_of(part, policy))


def numbers(outcome: Outcome) -> dict[str, float]:
    found = metrics(outcome)
    kept = found["deadlines"]
    return {
        "asked": kept["asked"],
        "met": kept["met"],
        "late": kept["admitted_missed"],
        "gpu_hours": found["gpu_hours"],
    }


Results = dict[str, dict[str, dict[str, float]]]  # part -> policy -> numbers


def play_all(path: Path | None) -> Results:
    results: Results = json.loads(path.read_text()) if path is not None and path.exists() else {}
    for part in PARTS:
        known = results.setdefault(part.name, {})
        for policy in (*RIVALS, *MARGINS):
            if policy not in known:
                known[policy] = played(part, policy)
                print(f"{part.name}: {policy} {known[policy]}", file=sys.stderr, flush=True)
                if path is not None:
                    path.write_text(json.dumps(results, indent=1))
    return results


def worth(part: Part, found: Mapping[str, Mapping[str, float]], margins: str) -> float:
    """Return the deadlines met against the best rival, late ones taken off where forecasts are right."""
    best = max(found[rival]["met"] for rival in RIVALS)
    late = 0.0 if part.noise else LATE * found[margins]["late"]
    return (found[margins]["met"] - late) / max(best, 1.0)


def chosen(results: Results, parts: Iterator[Part]) -> str:
    """Return the margins that are worth the most over some parts; the defaults where others are no better."""
    those = list(parts)
    score = {one: sum(worth(part, results[part.name], one) for part in those) for one in MARGINS}
    return max(MARGINS, key=lambda one: score[one])


def unseen() -> None:
    """Play joint as it is beside the rivals, and print a row for each part."""
    print(
        "| jobs | asked | best rival: met | GPU hours | joint: met | late | GPU hours | both keep | rival's | joint's |"
    )
    print("| --- " * 10 + "|")
    as_many = enough = cheaper = cheaper_for_both = 0
    for part in UNSEEN:
        outcomes = {policy: outcome_of(part, policy) for policy in (*RIVALS, "joint")}
        found = {policy: numbers(outcome) for policy, outcome in outcomes.items()}
        rival = max(RIVALS, key=lambda one: (found[one]["met"], -found[one]["gpu_hours"]))
        ours, theirs = found["joint"], found[rival]
        limits = np.array([job.deadline or np.inf for job in outcomes[rival].jobs])
        both = (outcomes["joint"].end <= limits) & (outcomes[rival].end <= limits)
        hours = {policy: outcomes[policy].service[both].sum() / 3600 for policy in (rival, "joint")}
        as_many += ours["met"] >= theirs["met"]
        enough += ours["met"] >= 0.95 * theirs["met"]
        cheaper += ours["gpu_hours"] <= theirs["gpu_hours"]
        cheaper_for_both += hours["joint"] <= hours[rival] * (1 + 1e-6)
        print(
            f"| {part.name} | {theirs['asked']:.0f} | {rival}: {theirs['met']:.0f} | {theirs['gpu_hours']:,.0f}"
            f" | {ours['met']:.0f} | {ours['late']:.0f} | {ours['gpu_hours']:,.0f}"
            f" | {both.sum()} | {hours[rival]:,.0f} | {hours['joint']:,.0f} |",
            flush=True,
        )
    print(f"\nof {len(UNSEEN)}: as many as the best rival in {as_many}, at least 95 % of it in {enough}, ", end="")
    print(f"with no more GPU hours in {cheaper}, for the jobs that both keep in {cheaper_for_both}")


def main() -> None:
    if sys.argv[1:] == ["--unseen"]:
        unseen()
        return
    results = play_all(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
    in_sample = chosen(results, iter(PARTS))
    print(f"in sample, all clusters together choose {in_sample}\n")
    print("| jobs | asked | best rival: met | GPU hours | left out: met | late | GPU hours | in sample | defaults |")
    print("| --- " * 9 + "|")
    as_many = enough = cheaper = 0
    for part in PARTS:
        found = results[part.name]
        rival = max(RIVALS, key=lambda one: (found[one]["met"], -found[one]["gpu_hours"]))
        margins = chosen(results, (other for other in PARTS if other.source != part.source))
        ours, theirs = found[margins], found[rival]
        as_many += ours["met"] >= theirs["met"]
        enough += ours["met"] >= 0.95 * theirs["met"]
        cheaper += ours["gpu_hours"] <= theirs["gpu_hours"]
        print(
            f"| {part.name} | {theirs['asked']:.0f} | {rival}: {theirs['met']:.0f} | {theirs['gpu_hours']:,.0f}"
            f" | {margins}: {ours['met']:.0f} | {ours['late']:.0f} | {ours['gpu_hours']:,.0f}"
            f" | {found[in_sample]['met']:.0f} | {found['joint']['met']:.0f} |"
        )
    print(f"\nof {len(PARTS)}: as many as the best rival in {as_many}, at least 95 % of it in {enough}, ", end="")
    print(f"with no more GPU hours in {cheaper}")


if __name__ == "__main__":
    main()
