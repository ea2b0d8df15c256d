"""Step seconds of language-model layouts never measured, and the layout chosen.

    COTUNE_DATA=... python benchmarks/layouts.py [DRAWS]

Truth: vTrain's measured multi-node table (GPT of 3.6B and 175B parameters, tensor x pipeline x
data) and LLM Foundry's (MPT under FSDP on 8 to 512 GPUs). From 16 rows, drawn at random DRAWS
times or chosen by the product, `gaussian` predicts all other rows: MAPE, its median over draws, and the coverage of the
80 % interval. Beside it the non-negative ring law with named axes as factors. For each job (a model
on so many GPUs and one sequence length) with at least three layouts, the layout predicted fastest is compared with
the fastest measured one.
"""

from __future__ import annotations

import csv
import os
import statistics
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from cotune.predict.learn import forecaster
from cotune.probe.gain import ProbeGain
from cotune.space import Configs
from cotune.types import Cluster, Config, Device, Floats, Job, Sample, axes_of

ROWS = 16
EXAMPLES = 1_000_000
JOB = Job("layouts", examples=EXAMPLES)
CLUSTER = Cluster(tuple(Device(name, per_node=8) for name in ("a100", "a100_40gb", "a100_80gb", "h100_80gb")))
EIGHTY = 1.2816
ONE_JOB = ("hidden", "layers", "seq_len")


def vtrain(path: Path) -> list[Sample]:
    """Return every measured row: workers are all GPUs, the batch is that of each."""
    samples: dict[Config, Sample] = {}
    for row in _rows(path):
        gpus, batch = int(row["gpus"]), int(row["global_batch"])
        names = ("hidden", "layers", "seq_len", "tensor", "pipeline", "micro_batch")
        config = Config.data_parallel(
            batch // gpus, gpus, "a100", axes=axes_of({name: int(row[name]) for name in names})
        )
        samples[config] = Sample(config, 1.0, float(row["iteration_ms"]) / 1000 * EXAMPLES / batch)
    return list(samples.values())


def llm_foundry(path: Path) -> list[Sample]:
    """Return every row: the micro-batch is the batch of a worker."""
    numbers = ("params", "layers", "hidden", "seq_len", "activation_checkpointing")
    words = ("precision", "mp_mode", "sharding")
    samples: dict[Config, Sample] = {}
    for row in _rows(path):
        axes = {name: int(row[name]) for name in numbers} | {name: row[name] for name in words}
        config = Config.data_parallel(
            int(row["micro_batch"]), int(row["gpus"]), row["gpu"], accumulate=int(row["grad_accum"]), axes=axes_of(axes)
        )
        samples[config] = Sample(config, 1.0, float(row["step_time_s"]) * EXAMPLES / int(row["global_batch"]))
    return list(samples.values())


def _hidden(sample: Sample) -> str:
    return f"hidden {dict(sample.config.axes)['hidden']}"


def _device(sample: Sample) -> str:
    return sample.config.device


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open() as file:
        return list(csv.DictReader(file))


def predicted(samples: Sequence[Sample], seen: Sequence[int], predictor: str) -> tuple[Floats, Floats]:
    """Return the median seconds and the spread of every row, learnt from some."""
    known = [samples[row] for row in seen]
    outlook = forecaster(JOB, known, CLUSTER, predictor=predictor, accuracy=None)(
        Configs.of([sample.config for sample in samples]), 1
    )
    return outlook.epoch_seconds, outlook.spread


def telling(samples: Sequence[Sample]) -> list[int]:
    """Return the rows that the product would measure."""
    design = ProbeGain(Configs.of([sample.config for sample in samples]), 8)
    rows: list[int] = []
    for _ in range(ROWS):
        gains = design.gains(np.array(rows, dtype=np.int64))
        gains[rows] = -np.inf
        rows.append(int(np.argmax(gains)))
    return rows


def score(samples: Sequence[Sample], seen: Sequence[int], predictor: str) -> tuple[float, float, float]:
    """Return MAPE and coverage on rows not seen, and how much slower the chosen layouts are than the best."""
    truth = np.array([sample.epoch_seconds for sample in samples])
    middle, spread = predicted(samples, seen, predictor)
    unseen = np.setdiff1d(np.arange(len(samples)), seen)
    off = np.abs(middle / truth - 1)[unseen]
    inside = np.abs(np.log(middle / truth))[unseen] <= EIGHTY * spread[unseen]
    jobs: dict[object, list[int]] = defaultdict(list)
    for row, sample in enumerate(samples):
        axes = dict(sample.config.axes)
        jobs[(sample.config.device, sample.config.workers, *(axes.get(name) for name in ONE_JOB))].append(row)
    regrets = [
        float(truth[rows[int(np.argmin(middle[rows]))]] / truth[rows].min() - 1)
        for rows in jobs.values()
        if len(rows) >= 3
    ]
    return float(off.mean()), float(inside.mean()), max(regrets, default=0.0)


def main() -> None:
    if "COTUNE_DATA" not in os.environ:
        sys.exit("set COTUNE_DATA to the folder that holds vtrain/ and llm_foundry/")
    draws = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    folder = Path(os.environ["COTUNE_DATA"])
    whole = {
        "vtrain": vtrain(folder / "vtrain" / "multi_node.csv"),
        "llm_foundry": llm_foundry(folder / "llm_foundry" / "throughput.csv"),
    }
    tables = dict(whole)
    for name, part in (("vtrain", _hidden), ("llm_foundry", _device)):
        for value in sorted({part(sample) for sample in whole[name]}):
            tables[f"{name} {value}"] = [sample for sample in whole[name] if part(sample) == value]
    print(f"{'table':28s}{'rows':>5s}{'predictor':>11s}{'MAPE, median':>14s}{'worst':>8s}{'coverage':>10s}"
          f"{'own design':>12s}{'slower than best: median, worst, own':>38s}")  # fmt: skip
    for name, samples in tables.items():
        if len(samples) < ROWS + 4:
            continue
        for predictor in ("gaussian", "ring"):
            found = [
                score(samples, np.random.default_rng(draw).permutation(len(samples))[:ROWS].tolist(), predictor)
                for draw in range(draws)
            ]
            own = score(samples, telling(samples), predictor)
            errors, inside, regrets = zip(*found, strict=True)
            print(
                f"{name:28s}{len(samples):5d}{predictor:>11s}{statistics.median(errors):14.1%}{max(errors):8.1%}"
                f"{statistics.fmean(inside):10.0%}{own[0]:12.1%}"
                f"{statistics.median(regrets):22.1%}{max(regrets):8.1%}{own[2]:8.1%}"
            )


if __name__ == "__main__":
    main()
