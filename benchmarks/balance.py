"""What unequal workers gain by batches in proportion to their speed (LB-BSP).

    python benchmarks/balance.py

LeNet-5 on four emulated nodes of speeds 1 : 1 : 0.5 : 0.25 with a global batch of 512, with equal
batches and with balanced ones, in turn. Asked: epochs at least 1.5 times as fast, and the weights
of one process with the same global batch.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from itertools import pairwise
from pathlib import Path
from statistics import median

import torch

from cotune.run.engines.local import Local
from cotune.run.launch import Ended, Launch, Reported
from cotune.types import Config, Job

SHARES = [0.4, 0.4, 0.2, 0.1]
EPOCHS, REPEATS = 6, 3
LEAST_GAIN, MOST_APART = 1.5, 1e-4


def trained(engine: Local, folder: Path, name: str, workers: int, *flags: str) -> tuple[float, torch.Tensor]:
    """Return the median seconds of an epoch after the second, and the last weights."""
    data = "mnist" if (Path(os.environ.get("COTUNE_DATA", "")) / "mnist").is_dir() else "digits"
    words = f"-m cotune.workloads.train --data {data} --limit 4096 --test-limit 10 --lr 0.02 --threads 1"
    command = (sys.executable, *words.split(), "--batch-size", "{batch_size}", "--epochs", "{epochs}", *flags)
    job = Job("balance", command, folder=str(folder))
    engine.start(Launch(name, job, Config.data_parallel(512 // workers, workers), EPOCHS, folder / name))
    marks: list[float] = []
    while not isinstance(event := engine.wait(120.0), Ended):
        assert event is not None, "nothing happened for 120 s"
        if isinstance(event, Reported) and event.accuracy is not None:
            marks.append(event.at - sum(seconds for term, seconds in event.terms if term == "evaluation"))
    assert event.outcome == "done", event.failure
    state = torch.load(folder / name / "checkpoint" / "last.pt", weights_only=True)["model"]
    each = [later - earlier for earlier, later in pairwise(marks[1:])]
    return median(each), torch.cat([tensor.flatten() for tensor in state.values()])


def main() -> int:
    nodes, plain = Local(nodes=len(SHARES), cores=SHARES, link="1gbit"), Local()
    gains, apart = [], 0.0
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        _, alone = trained(plain, folder, "alone", 1)
        for number in range(REPEATS):
            equal, _ = trained(nodes, folder, f"equal-{number}", len(SHARES))
            balanced, weights = trained(nodes, folder, f"balanced-{number}", len(SHARES), "--balance")
            gains.append(equal / balanced)
            apart = max(apart, float((weights - alone).abs().max()))
            print(f"equal {equal:.2f} s an epoch, balanced {balanced:.2f} s: {gains[-1]:.2f} times as fast", flush=True)
        print((folder / "balanced-0" / "rank-0.log").read_text().splitlines()[-3])
    nodes.close()
    plain.close()
    met = median(gains) >= LEAST_GAIN and apart <= MOST_APART
    print(f"gain {median(gains):.2f} (asked: {LEAST_GAIN}), weights apart by {apart:.1e}:", "met" if met else "NOT met")
    print(json.dumps({"gains": gains, "weights_apart": apart, "met": met}))
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
