"""How training scales on emulated nodes: epoch time over workers and batch sizes, against theory.

    python benchmarks/scaling.py              # or with fewer: --workers 1 2 8 --batches 128

LeNet-5, 8,192 pictures of MNIST an epoch, 32,768 at batch 512 (without COTUNE_DATA the 1,437 digits),
each node 0.2 of a core and 100 Mbit/s. Every config starts three times; the first epoch of a start
warms up and is dropped, the median of the others counts: one of many steps, up to eight of few. Asked:

    spread of the epoch time over the repeats       (max - min) / mean at most 10 %
    compute per step at 8 nodes against one         within 10 %
    all-reduce per step against the ring bound      at least 0.97 x 2 (r - 1) / r x bytes / rate

All workers of a batch size follow each other, so that one node and eight meet the same machine.
A repeat whose compute per step is over 10 % off the median of its config is done again, twice at
most, since somebody else was using the machine.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from statistics import mean, median

from cotune.run.engines.local import Local
from cotune.run.launch import Ended, Launch, Reported
from cotune.types import Config, Job

EXAMPLES = {"mnist": 8192, "digits": 1437}
STEPS = 64  # of one worker, so that eight take enough for their mean
SHARE, RATE = 0.2, 100e6
REPEATS, RETRIES, ENOUGH_STEPS = 3, 2, 32
GRADIENT_BYTES = 61_706 * 4
MOST_SPREAD, MOST_OFF, LEAST_RING = 0.10, 0.10, 0.97
TRAIN = "--model lenet5 --batch-size {batch_size} --epochs {epochs} --lr 0.01 --threads 1 --test-limit 10"


@dataclass(frozen=True)
class Repeat:
    """Seconds of one epoch, and of its compute and its all-reduce per step."""

    epoch: float
    compute: float
    communication: float


def measured(engine: Local, job: Job, config: Config, folder: Path, name: str) -> Repeat:
    """Start a config for an epoch to warm up and some more, and return the typical one of these."""
    assert job.examples is not None
    steps = -(-job.examples // config.global_batch)
    engine.start(Launch(name, job, config, 1 + min(8, max(1, ENOUGH_STEPS // steps)), folder / name))
    since, spent, found = 0.0, dict[str, float](), list[Repeat]()
    while not isinstance(event := engine.wait(120.0), Ended):
        assert event is not None, "nothing happened for 120 s"
        if not isinstance(event, Reported) or event.epoch is None:
            continue
        for term, seconds in event.terms:
            spent[term] = spent.get(term, 0.0) + seconds
        if event.accuracy is not None:
            paused = spent["evaluation"] + spent.get("checkpoint", 0.0)
            each = [spent.get(term, 0.0) / steps for term in ("compute", "communication")]
            found.append(Repeat(event.at - since - paused, each[0], each[1]))
            since, spent = event.at, {}
    assert event.outcome == "done", event.failure
    return Repeat(*(median(column) for column in zip(*(astuple(epoch) for epoch in found[1:]), strict=True)))


def repeated(engine: Local, job: Job, config: Config, folder: Path) -> tuple[list[Repeat], int]:
    """Return the repeats of a config, disturbed ones done again, and how many were."""
    name = f"{config.workers}-{config.batch_size}"
    repeats = [measured(engine, job, config, folder, f"{name}-{number}") for number in range(REPEATS)]
    retries = 0
    while retries < RETRIES:
        typical = median(repeat.compute for repeat in repeats)
        worst = max(repeats, key=lambda repeat: abs(repeat.compute - typical))
        if abs(worst.compute - typical) <= MOST_OFF * typical:
            break
        repeats.remove(worst)
        repeats.append(measured(engine, job, config, folder, f"{name}-again-{retries}"))
        retries += 1
    return repeats, retries


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4, 8, 10])
    parser.add_argument("--batches", type=int, nargs="+", default=[32, 128, 512])
    return parser.parse_args()


@dataclass(frozen=True)
class Row:
    """What was found of one config: medians over the repeats, and what of it is not as asked."""

    workers: int
    batch_size: int
    examples: int
    epoch_seconds: list[float]
    spread: float
    compute: float
    against_one: float
    all_reduce: float
    ring_bound: float
    again: int

    @property
    def missed(self) -> list[str]:
        found = {
            "spread": self.spread > MOST_SPREAD,
            "compute": self.workers == 8 and abs(self.against_one) > MOST_OFF,
            "ring": self.all_reduce < LEAST_RING * self.ring_bound,
        }
        return [word for word, holds in found.items() if holds]

    def __str__(self) -> str:
        cells = [self.workers, self.batch_size, f"{median(self.epoch_seconds):.2f}", f"{self.spread:.1%}"]
        cells += [f"{self.compute * 1e3:.1f}", f"{self.against_one:+.1%}"]
        cells += [f"{self.all_reduce * 1e3:.1f}", f"{self.ring_bound * 1e3:.1f}"]
        verdict = "NOT met: " + ", ".join(self.missed) if self.missed else "met"
        return "  ".join([*(f"{cell:>13}" for cell in cells), verdict, f"({self.again} again)" * bool(self.again)])


def rows_of(engine: Local, data: str, batch: int, workers: Sequence[int], scratch: Path) -> Iterator[Row]:
    """Yield a row for each number of workers; the first is what the others are held against."""
    examples = EXAMPLES[data] if data == "digits" else max(EXAMPLES[data], STEPS * batch)
    command = f"{sys.executable} -m cotune.workloads.train --data {data} --limit {examples} {TRAIN}".split()
    job = Job("scaling", tuple(command), examples=examples)
    alone: float | None = None
    for count in workers:
        repeats, again = repeated(engine, job, Config.data_parallel(batch, count), scratch)
        epochs = [repeat.epoch for repeat in repeats]
        compute = median(repeat.compute for repeat in repeats)
        alone = alone or compute
        yield Row(
            count,
            batch,
            examples,
            epochs,
            spread=(max(epochs) - min(epochs)) / mean(epochs),
            compute=compute,
            against_one=compute / alone - 1,
            all_reduce=median(repeat.communication for repeat in repeats),
            ring_bound=2 * (count - 1) / count * GRADIENT_BYTES * 8 / RATE,
            again=again,
        )


def main() -> int:
    asked = parsed()
    data = "mnist" if (Path(os.environ.get("COTUNE_DATA", "")) / "mnist").is_dir() else "digits"
    print(f"LeNet-5 on {data}, {SHARE:g} core and {RATE / 1e6:g} Mbit/s a node; load {os.getloadavg()[0]:.1f} at first")
    head = ("workers", "batch", "epoch s", "spread", "compute ms", "against one", "all-reduce ms", "ring bound ms")
    print("  ".join(f"{word:>13}" for word in head))
    rows = list[Row]()
    engine = Local(nodes=max(asked.workers), cores=SHARE, link=RATE)
    with closing(engine), tempfile.TemporaryDirectory() as scratch:
        for batch in asked.batches:
            for row in rows_of(engine, data, batch, asked.workers, Path(scratch)):
                print(row, flush=True)
                rows.append(row)
    failures = [f"{word} of {row.workers} x {row.batch_size}" for row in rows for word in row.missed]
    print(f"load {os.getloadavg()[0]:.1f} at last; {'NOT met: ' + '; '.join(failures) if failures else 'all met'}")
    print(json.dumps({"rows": [{**asdict(row), "missed": row.missed} for row in rows], "met": not failures}))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
