"""What the joint paper headlines, ours beside theirs: cost saved over each rival, accuracy in a fixed time (Fig. 2a).

    python benchmarks/paper_savings.py [figure] [savings] [--recordings DIR]

savings   the paper's "at most 34.83 / 24.9 / 26.89 / 16.6 %" less cost than manual, LB-BSP, Bayesian and Cynthia:
          recomputed from its own Table 11, all rows and those that keep their deadline, and found on our recordings
figure    Figure 2a: accuracy that every batch on every number of workers reaches in one fixed time

Goals, halves and labs are those of `benchmarks/paper.py`. Markdown on stdout.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

import paper_numbers
from paper import METHODS, Workload, decide, table

HEADLINES = {"manual": 34.83, "lb_bsp": 24.9, "bayesian": 26.89, "cynthia": 16.6}  # per cent, at most
SHARE = 1 / 4  # of the time that a middling config takes for all epochs


def savings(works: Sequence[Workload]) -> Iterator[str]:
    """Yield what joint saves over each rival: as printed, as Table 11 gives it, and here."""
    chosen = {name: [_cost(work, name) for work in works] for name in (*HEADLINES, "joint")}
    rows = []
    for name, headline in HEADLINES.items():
        pairs = [pair for costs in zip(chosen[name], chosen["joint"], strict=True) for pair in zip(*costs, strict=True)]
        ours = [1 - mine / theirs for theirs, mine in pairs if np.isfinite(theirs) and np.isfinite(mine)]
        won = sum(np.isfinite(mine) and not np.isfinite(theirs) for theirs, mine in pairs)
        lost = sum(np.isfinite(theirs) and not np.isfinite(mine) for theirs, mine in pairs)
        rows.append((METHODS[name], f"{headline} %", *_printed(name), len(ours), _most(ours), _median(ours), won, lost))
    heads = (
        "rival",
        "the paper says: at most",
        "its Table 11: at most",
        "rows in time: at most",
        "goals that both meet",
    )
    yield table((*heads, "saved here: at most", "median", "joint alone in time", "rival alone"), rows)


def _printed(name: str) -> tuple[str, str]:
    """Return the most that Table 11 lets joint save over a rival: over all rows, and over those in time."""
    parts = [part for both in paper_numbers.COSTS.values() for part in both]
    saved = []
    for part in parts:
        (_, its_workers, its_seconds), (_, workers, seconds) = part.chosen[name], part.chosen["joint"]
        saved.append((1 - workers * seconds / (its_workers * its_seconds), its_seconds <= part.deadline))
    return _most([each for each, _ in saved]), _most([each for each, in_time in saved if in_time])


def _cost(work: Workload, name: str) -> list[float]:
    """Return what a method's choice costs for each goal of Table 11, infinite where it is refused, late or never."""
    costs = []
    for target in work.truth.targets[-2:]:
        goal = work.goal(target)
        config = decide(work, name, goal)[0].config
        seconds = np.inf if config is None else work.seconds_to(config, target)
        costs.append(seconds * config.units if config and seconds <= (goal.deadline or np.inf) else np.inf)
    return costs


def _most(shares: Sequence[float]) -> str:
    return f"{100 * max(shares):.1f} %" if shares else "none"


def _median(shares: Sequence[float]) -> str:
    return f"{100 * float(np.median(shares)):.1f} %" if shares else "none"


def figure(work: Workload) -> str:
    """Return the accuracy within one fixed time for each batch and number of workers, the best in bold."""
    known = {(config.workers, config.batch_size): config for config in work.truth.space.configs()}
    seconds = SHARE * work.recording.last_epoch * float(np.median(work.truth.epoch_seconds))
    batches = sorted({batch for _, batch in known})
    rows = []
    for workers in sorted({workers for workers, _ in known}):
        there = [known.get((workers, batch)) for batch in batches]
        found = [None if config is None else work.accuracy(config, seconds) for config in there]
        best = max((value for value in found if value is not None), default=None)
        rows.append((workers, *("" if v is None else f"**{v:.3f}**" if v == best else f"{v:.3f}" for v in found)))
    return f"{work.name}, {seconds:,.3g} s:\n\n" + table(("workers", *map(str, batches)), rows)


def main() -> None:
    """Print all of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=["figure", "savings"], help="figure, savings")
    parser.add_argument("--recordings", type=Path, default=Path(__file__).parents[1] / "recordings")
    asked = parser.parse_args()
    works = [Workload.of(job.parent) for job in sorted(asked.recordings.glob("*/job.yaml"))]
    works = [work for work in works if work.paper in paper_numbers.ERRORS]
    for work in works if "figure" in asked.parts else ():
        print(f"{figure(work)}\n", flush=True)
    for block in savings(works) if "savings" in asked.parts else ():
        print(f"{block}\n")


if __name__ == "__main__":
    main()
