"""What the store costs: saving a growing sample, and loading ten thousand with their curves.

python benchmarks/store.py [URL]
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path

from cotune.store import Store, open_store
from cotune.types import Config, Evaluation, Job, Sample, Terms

SAMPLES = 10_000
POINTS = 10
JOB = Job("benchmark", ("python", "train.py"), 60000)


def _sample(number: int, points: int) -> Sample:
    config = Config.data_parallel(2 ** (number % 8), 1 + number % 4, axes=(("precision", "bf16"),))
    curve = tuple(Evaluation(epoch, 0.5, float(epoch), (("loss", 0.1),)) for epoch in range(1, points + 1))
    return Sample(config, float(points), 1 / 3, 0.5, Terms(startup=0.1), curve, 10.0, id=f"b{number}")


def _save(store: Store, number: int, points: int) -> float:
    start = time.perf_counter()
    store.save(JOB, _sample(number, points))
    return time.perf_counter() - start


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        url = sys.argv[1] if len(sys.argv) > 1 else str(Path(folder) / "store.db")
        with open_store(url) as store:
            growing = [_save(store, number, points) for number in range(100) for points in range(POINTS + 1)]
            whole = [_save(store, number, POINTS) for number in range(100, SAMPLES)]
        start = time.perf_counter()
        with open_store(url) as store:
            opened = time.perf_counter()
            loaded = len(store.samples(JOB))
            done = time.perf_counter()
    for what, seconds in (("save, one step more", growing), ("save, whole sample", whole)):
        slow = statistics.quantiles(seconds, n=100)[98]
        print(f"{what:20} median {statistics.median(seconds) * 1e3:.2f} ms, 99th percentile {slow * 1e3:.2f} ms")
    print(f"{'open':20} {opened - start:.3f} s")
    print(f"{'load':20} {done - opened:.3f} s for {loaded} samples with {POINTS} evaluations each")


if __name__ == "__main__":
    main()
