"""Seconds of a stage over the batch size: where communication ends to be the longer part, measured and predicted.

    python benchmarks/placement_crossover.py

CTRDNN in two stages on emulated nodes: the embedding on one with a fast link, the dense layers on two with a
slow one. Per batch the dense stage computes c0 + c1 B, all-reduces its gradients (the same for every
batch) and moves the activations and gradients of the cut (in proportion to B). Both are profiled at two
batch sizes; the others are predicted from the forms, run for real with one batch in flight, and put side by side.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from cotune.placement.fits import fitted
from cotune.placement.profiles import TypeEntry
from cotune.placement.staged import TRAIN, Staged, Wanted, completed, engines, measured
from cotune.types import Stage

DENSE = 1  # the stage in question, and its one layer


def crossing(batches: Sequence[float], compute: Sequence[float], communication: Sequence[float]) -> float | None:
    """Return the batch at which compute overtakes communication, between the batches given (on logarithms)."""
    ahead = np.log(np.array(compute) / np.array(communication))
    for place in range(1, len(ahead)):
        if ahead[place - 1] < 0 <= ahead[place]:
            part = -ahead[place - 1] / (ahead[place] - ahead[place - 1])
            low, high = np.log(batches[place - 1]), np.log(batches[place])
            return float(np.exp(low + part * (high - low)))
    return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--link", default="100mbit")
    parser.add_argument("--share", type=float, default=0.05, help="of a core, for a unit of the dense stage")
    parser.add_argument("--profiled", default="128,1024", help="batch sizes that are profiled")
    parser.add_argument("--batches", default="128,256,512,1024,2048", help="batch sizes that are run")
    parser.add_argument("--steps", type=int, default=20, help="batches of each run")
    asked = parser.parse_args()
    model = f"ctrdnn(width={asked.width}, rows=10000, groups=[1,4])"
    near = TypeEntry(name="near", device="cpu", price_per_hour=0.0, cores=0.2, link="1gbit", limit=1)
    far = TypeEntry(name="far", device="cpu", price_per_hour=0.0, cores=asked.share, link=asked.link, limit=2)
    profiled = [int(word) for word in asked.profiled.split(",")]
    batches = [int(word) for word in asked.batches.split(",")]
    layers = [{"name": "embedding"}, {"name": "dense"}]
    with engines() as there, TemporaryDirectory() as folder:
        found = measured(there, Wanted(model, layers, [far], [2], profiled, 2.0), Path(folder))
        alone = [each for each in found.timings if each.layer == DENSE]
        computing = fitted([(each.batch / found.batch, each.units, each.compute) for each in alone])
        synchronising = fitted([(each.batch / found.batch, each.units, each.sync) for each in alone])
        cut = fitted([(each.batch / found.batch, 1, each.seconds) for each in found.transfers])
        print("| batch | compute, s: predicted | measured | communication, s: predicted | measured | longer |")
        print("| ---: | ---: | ---: | ---: | ---: | --- |")
        real: list[tuple[float, float]] = []
        told: list[tuple[float, float]] = []
        staged = Staged((Stage("near", 1, 0, 0), Stage("far", 2, DENSE, DENSE)), {"near": near, "far": far})
        for batch in batches:
            flags = ["--model", model, "--batch-size", batch, "--batches", asked.steps, "--data", "zipf:1x4096"]
            flags += ["--in-flight", 1]  # else messages share the link, and each looks longer
            result = completed(there, staged, (*TRAIN, *map(str, flags)), Path(folder) / f"run-{batch}")
            spent = result["stages"][DENSE]
            scale = batch / found.batch
            told.append((computing.at(2, scale), synchronising.at(2, scale) + cut.at(1, scale) / 2))
            real.append((spent["compute"], spent["sync"] + max(spent["sending"], spent["receiving"])))
            cells = " | ".join(f"{number:.4f}" for pair in zip(told[-1], real[-1], strict=True) for number in pair)
            print(f"| {batch} | {cells} | {'compute' if real[-1][0] >= real[-1][1] else 'communication'} |", flush=True)
    for words, pairs in (("predicted", told), ("measured", real)):
        compute, communication = zip(*pairs, strict=True)
        at = crossing(batches, compute, communication)
        print(f"{words} crossover: " + ("none between these batches" if at is None else f"batch {at:.0f}"))


if __name__ == "__main__":
    main()
