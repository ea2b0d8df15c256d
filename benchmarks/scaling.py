"""How training scales on emulated nodes: epoch time over workers and batch sizes, against theory.

    python benchmarks/scaling.py              # or with fewer: --workers 1 2 8 --batches 128

LeNet-5, 8,192 pictures of MNIST an epoch, 32,768 at batch 512 (without COTUNE_DATA the 1,437 digits),
each node 0.2 of a core and 100 Mbit/s. Every config starts three times; the first epoch of a start warms up and is
dropped, the median of the others counts: one of many steps, up to eight of few. Asked:

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
from dataclasses import astuple, dataclass
from pathlib import Path
from statistics import mean, median

from cotune.run import Ended, Launch, Reported
from cotune.run.local import Local
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
    assert event.outcome == "done", event.reason
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


def main() -> int:
    asked = parsed()
    data = "mnist" if (Path(os.environ.get("COTUNE_DATA", "")) / "mnist").is_dir() else "digits"
    rows, alone, failures = [], {}, []
    engine = Local(nodes=max(asked.workers), cores=SHARE, link=RATE)
    with tempfile.TemporaryDirectory() as scratch:
        load = f"load {os.getloadavg()[0]:.1f} at the start"
        print(f"LeNet-5 on {data}, {SHARE:g} core and {RATE / 1e6:g} Mbit/s a node; {load}")
        head = ("workers", "batch", "epoch s", "spread", "compute ms", "against one", "all-reduce ms", "ring bound ms")
        print("  ".join(f"{word:>13}" for word in head))
        for batch in asked.batches:
            examples = EXAMPLES[data] if data == "digits" else max(EXAMPLES[data], STEPS * batch)
            command = f"{sys.executable} -m cotune.workloads.train --data {data} --limit {examples} {TRAIN}".split()
            job = Job("scaling", tuple(command), examples=examples, folder=scratch)
            for workers in asked.workers:
                config = Config.data_parallel(batch, workers)
                repeats, retries = repeated(engine, job, config, Path(scratch))
                epochs = [repeat.epoch for repeat in repeats]
                spread = (max(epochs) - min(epochs)) / mean(epochs)
                compute = median(repeat.compute for repeat in repeats)
                sent = median(repeat.communication for repeat in repeats)
                bound = 2 * (workers - 1) / workers * GRADIENT_BYTES * 8 / RATE
                alone.setdefault(batch, compute)
                off = compute / alone[batch] - 1
                missed = [
                    *(["spread"] if spread > MOST_SPREAD else []),
                    *(["compute"] if workers == 8 and asked.workers[0] == 1 and abs(off) > MOST_OFF else []),
                    *(["ring"] if sent < LEAST_RING * bound else []),
                ]
                failures += [f"{word} of {config}" for word in missed]
                cells = (f"{median(epochs):.2f}", f"{spread:.1%}", f"{compute * 1e3:.1f}", f"{off:+.1%}")
                cells += (f"{sent * 1e3:.1f}", f"{bound * 1e3:.1f}")
                verdict = ("NOT met: " + ", ".join(missed) if missed else "met") + (
                    f" ({retries} again)" * bool(retries)
                )
                print("  ".join(f"{cell:>13}" for cell in (workers, batch, *cells)), verdict, sep="  ", flush=True)
                rows.append(
                    {
                        "workers": workers,
                        "batch_size": batch,
                        "examples": examples,
                        "epoch_seconds": epochs,
                        "spread": spread,
                    }
                )
                rows[-1] |= {"compute": compute, "all_reduce": sent, "ring_bound": bound, "missed": missed}
    engine.close()
    print(
        f"load {os.getloadavg()[0]:.1f} at the end; {'all met' if not failures else 'NOT met: ' + '; '.join(failures)}"
    )
    print(json.dumps({"rows": rows, "met": not failures}))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
