"""Loss curves through a pipeline: one process, synchronous stages, and several batches in flight.

    python benchmarks/pipeline_losses.py

The same batches and first weights in every run but one, which shows what chance does. Synchronous stages follow
the single process to rounding; batches in flight have gradients that are a few steps old.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory

from cotune.placement.profiles import TypeEntry
from cotune.placement.staged import TRAIN, Staged, completed, engines
from cotune.types import Stage

PARTS = 5  # of the run, over each of which the mean loss is shown


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="ctrdnn(width=64, rows=50000)")
    parser.add_argument("--batches", type=int, default=400)
    parser.add_argument("--optimiser", default="adam")
    parser.add_argument("--lr", default="0.0001")
    asked = parser.parse_args()
    stages = (Stage("cpu", 2, 0, 0), Stage("cpu", 1, 1, 2), Stage("cpu", 2, 3, 4))
    types = {"cpu": TypeEntry(name="cpu", price_per_hour=0.0)}
    common = ["--model", asked.model, "--data", "zipf:125x2048", "--batch-size", "512", "--lanes", "2"]
    common += ["--batches", str(asked.batches), "--optimiser", asked.optimiser, "--lr", asked.lr]
    runs = {
        "one process": ((Stage("cpu", 1, 0, 4),), ["--mode", "sync", "--micro-batches", "1"]),
        "one process, another seed": (
            (Stage("cpu", 1, 0, 4),),
            ["--mode", "sync", "--micro-batches", "1", "--seed", "1"],
        ),
        "sync, 4 micro-batches": (stages, ["--mode", "sync", "--micro-batches", "4"]),
        "async, 4 in flight": (stages, ["--mode", "async", "--in-flight", "4"]),
        "async, 8 in flight": (stages, ["--mode", "async", "--in-flight", "8"]),
    }
    size = asked.batches // PARTS
    spans = [(part * size, (part + 1) * size) for part in range(PARTS)]
    print("| run |" + "".join(f" {begin}..{end} |" for begin, end in spans) + " largest difference of a batch |")
    print("| --- |" + " ---: |" * (PARTS + 1))
    first: list[float] = []
    with engines() as there, TemporaryDirectory() as folder:
        for number, (name, (placed, flags)) in enumerate(runs.items()):
            staged = Staged(placed, types)
            losses = completed(there, staged, (*TRAIN, *common, *flags), Path(folder) / f"run-{number}")["losses"]
            first = first or losses
            means = "".join(f" {fmean(losses[begin:end]):.4f} |" for begin, end in spans)
            worst = max(abs(mine / its - 1) for mine, its in zip(losses, first, strict=True))
            print(f"| {name} |{means} {worst:.1e} |", flush=True)


if __name__ == "__main__":
    main()
