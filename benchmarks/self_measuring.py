"""The constants of a run that measures itself, chosen with each source of recordings left out.

    python benchmarks/self_measuring.py RECORDINGS ... [--every N] [--only NAME ...] [--networks]

Each constant is varied by itself around the shipped values, on each n-th goal. A goal's score is everything spent over
the static oracle, plus two where it is missed, at deadlines of 2 and 1.25 x the frontier's time. Variants are compared
with the shipped constants goal by goal: the difference is told with its standard error. For each source (Pollux, MLPerf
v0.6, recent MLPerf, the project's own) the variant that scores best on the others, each source counting the same, is
shown on it: that is the left-out figure. With `--networks` those that were trained at one fixed learning rate are left
out one by one instead, for what is expected of such jobs (`--only fixed_critical`).
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from cotune.cli.output import say, table
from cotune.lab.bench.running import MISSED, SLACKS, self_trained, usable
from cotune.lab.bench.tasks import recording_folders
from cotune.lab.bench.truth import SLACK, halves_of
from cotune.probe.self_measuring_constants import SELF_MEASURING, SelfMeasuringConstants
from cotune.recording import read

VARIANTS: dict[str, dict[str, tuple[float, ...]]] = {
    "fixed_way": {"critical": (0.02, 0.1, 0.2)},
    "way": {"share": (0.25, 0.5), "critical": (0.15, 0.6), "witnesses": (4.0, 16.0)},
    "moving": {"penalty": (4.0, 9.0), "learnt": (0.35, 0.65), "margin": (0.04, 0.15), "looks": (0.0, 2.0)},
    "timing": {"first": (0.03, 0.3), "cost": (0.015, 0.06), "tight": (1.1, 1.4), "spare": (0.02, 0.1)},
}


@dataclass(frozen=True)
class Tried:
    """One goal by one variant."""

    source: str
    slack: float
    met: bool
    ratio: float

    @property
    def score(self) -> float:
        return self.ratio + MISSED * (not self.met)


def variants() -> dict[str, SelfMeasuringConstants]:
    """Return the shipped constants, and each of them varied."""
    found = {"shipped": SELF_MEASURING}
    for part, fields in VARIANTS.items():
        for name, values in fields.items():
            for value in values:
                changed = replace(getattr(SELF_MEASURING, part), **{name: value})
                label = f"fixed_{name}" if part == "fixed_way" else name
                found[f"{label} {value:g}"] = replace(SELF_MEASURING, **{part: changed})
    return {**found, "fixed_critical as usual": replace(SELF_MEASURING, fixed_way=SELF_MEASURING.way)}


def source_of(name: str) -> str:
    """Return where a recording comes from."""
    known = ("mlperf-recent", "mlperf", "pollux")
    return next((source for source in known if name.startswith(f"{source}-")), "own")


def network_of(name: str) -> str:
    """Return what was trained, by the name of a recording."""
    words = name.split("-")
    return "-".join(words[:2]) if words[0] == "zeus" else words[0]


def answered(task: tuple[Path, SelfMeasuringConstants, int, bool]) -> list[Tried]:
    """Return the goals of one recording by one variant."""
    folder, constants, every, networks = task
    probed, truth = halves_of(folder)
    found = []
    for goal in truth.goals()[::every]:
        for slack in SLACKS:
            asked = replace(goal, deadline=(goal.deadline or 0.0) * slack / SLACK)
            spent, _ = self_trained(probed, truth, asked, seed=0, constants=constants)
            row = truth.best(asked)
            assert row is not None
            oracle = truth.outcome(truth.configs[row], goal.max_epochs, asked).cost
            source = (network_of if networks else source_of)(truth.recording.name)
            found.append(Tried(source, slack, spent.met, spent.cost / oracle))
    return found


def cells(rows: list[Tried]) -> list[str]:
    """Return what goals came to, at each slack."""
    told = []
    for slack in SLACKS:
        own = [row for row in rows if row.slack == slack]
        ratios = [row.ratio for row in own]
        told.append(f"{np.mean([row.met for row in own]):.0%} {np.median(ratios):.2f} {np.mean(ratios):.2f}")
    return [*told, f"{np.mean([row.score for row in rows]):.2f}"]


def differences(rows: list[Tried], shipped: list[Tried]) -> str:
    """Return by how much goals score higher than with the shipped constants, on average, and how sure that is."""
    off = np.array([row.score - before.score for row, before in zip(rows, shipped, strict=True)])
    return f"{off.mean():+.3f} ± {off.std() / np.sqrt(len(off)):.3f}"


def main() -> None:
    """Print every variant, and what is chosen with each source left out."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recordings", nargs="+", type=Path)
    parser.add_argument("--every", type=int, default=8)
    parser.add_argument("--only", nargs="*", default=(), help="constants to vary")
    parser.add_argument("--networks", action="store_true", help="those at a fixed learning rate, left out one by one")
    parser.add_argument("--processes", type=int, default=2)
    given = parser.parse_args()
    folders = [folder for folder in recording_folders(given.recordings) if usable(folder)]
    if given.networks:
        folders = [folder for folder in folders if read(folder).job.scaling == "fixed"]
    sources = sorted({(network_of if given.networks else source_of)(folder.name) for folder in folders})
    tried: dict[str, list[Tried]] = {}
    with ProcessPoolExecutor(given.processes) as pool:
        for name, constants in variants().items():
            if given.only and name != "shipped" and name.split()[0] not in given.only:
                continue
            parts = pool.map(answered, [(folder, constants, given.every, given.networks) for folder in folders])
            tried[name] = [row for part in parts for row in part]
            told = [
                f"{source} {differences(_of(source, tried[name]), _of(source, tried['shipped']))}" for source in sources
            ]
            say(f"{name}: {' | '.join(told)}")
    lines = []
    for source in sources:
        scores = {name: _mean_of_sources([r for r in rows if r.source != source]) for name, rows in tried.items()}
        chosen = min(scores, key=lambda name: scores[name])
        here, before = _of(source, tried[chosen]), _of(source, tried["shipped"])
        lines.append((source, len(here), chosen, *cells(here), *cells(before), differences(here, before)))
    columns = ("left out", "runs", "chosen on the others", "2 x: met, median, mean", "1.25 x", "score")
    beside = ("shipped: 2 x", "1.25 x", "score", "difference")
    table((*columns, *beside), lines, title="met, and everything spent over the static oracle")


def _of(source: str, rows: list[Tried]) -> list[Tried]:
    return [row for row in rows if row.source == source]


def _mean_of_sources(rows: list[Tried]) -> float:
    """Return the mean score, in which every source weighs the same."""
    by_source = defaultdict(list)
    for row in rows:
        by_source[row.source].append(row.score)
    return float(np.mean([np.mean(scores) for scores in by_source.values()]))


if __name__ == "__main__":
    main()
