"""Learning curves of networks that know nothing of cotune, several seeds each, on one GPU shared by many processes.

    python benchmarks/record_networks.py curves --data FOLDER --out FOLDER        one CSV for each network
    python benchmarks/record_networks.py changes --data FOLDER --out FOLDER       changes of batch on the way
    python benchmarks/record_networks.py seconds --data FOLDER --out FOLDER       one recording of times for each

Each training is one process of `benchmarks/strangers`; CUDA's multi-process service lets them share the GPU. The rate
of a global batch follows the network's own rule, as in its row of NETWORKS. Seconds are probes of `cotune profile` on
eight slices of the GPU, all over the space. `--networks second` takes three others.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

STRANGERS = Path(__file__).parent / "strangers"
LINE = re.compile(r"^epoch (\S+) (?:accuracy|val_loss) (\S+)$", re.MULTILINE)
BATCHES = (16, 48, 128, 384, 1024)
SPACE = {"workers": [1, 2, 4, 8], "batch_size": [16, 32, 64, 128, 256]}
CHANGES = ((16, 128, 0.3), (48, 384, 0.5), (128, 1024, 0.4), (128, 16, 0.3))  # from, to, at which part of the way


@dataclass(frozen=True)
class Network:
    """A training, its length, and the rate of its smallest batch with the power by which it grows."""

    name: str
    words: tuple[str, ...]
    epochs: int
    rate: float
    power: float
    examples: int

    def rate_at(self, batch: int) -> float:
        """Return the learning rate of a global batch."""
        return float(self.rate * (batch / BATCHES[0]) ** self.power)

    def command(self, data: Path, batch: int, seed: int, switch: str | None = None) -> list[str]:
        """Return the command of one training."""
        script, *more = (word.format(data=data) for word in self.words)
        own = ["--batch-size", str(batch), "--epochs", str(self.epochs), "--lr", f"{self.rate_at(batch):.6g}"]
        changed = ["--switch", switch] if switch else []
        return [sys.executable, str(STRANGERS / script), *more, *own, "--seed", str(seed), *changed]

    def job_file(self, data: Path) -> str:
        """Return the job file that its seconds are measured by."""
        script, *more = (word.format(data=data) for word in self.words)
        flags = ["--batch-size", "{batch_size}", "--epochs", "{epochs}"]
        metric = "val_loss" if script == "lm.py" else "accuracy"
        known = {
            "name": self.name,
            "run": " ".join([sys.executable, str(STRANGERS / script), *more, *flags]),
            "examples": self.examples,
            "pattern": rf"epoch (?P<epoch>\S+) {metric} (?P<{metric}>\S+)",
            "search": SPACE,
            "devices": {"slice": {"count": 8}},
            "engine": {"local": {"gpu_slices": 8}},
        }
        return json.dumps(known)  # JSON is YAML


NETWORKS = {
    "first": (
        Network("lm-text", ("lm.py", "--text", "{data}/text.txt", "--examples", "12288"), 7, 5e-4, 0.5, 12288),
        Network("vit-fashion", ("vision.py", "--net", "vit", "--data", "{data}/fashion.npz"), 9, 5e-4, 0.5, 12000),
        Network(
            "mobile-svhn",
            ("vision.py", "--net", "mobile", "--data", "{data}/svhn.npz", "--optimiser", "sgd"),
            12,
            0.01,
            1.0,
            5000,
        ),
    ),
    "second": (
        Network(
            "gru-text",
            ("lm.py", "--net", "gru", "--text", "{data}/text.txt", "--examples", "8192", "--width", "192"),
            14,
            2e-3,
            0.0,
            8192,
        ),
        Network(
            "residual-cifar10",
            ("vision.py", "--net", "residual", "--data", "{data}/cifar.npz", "--optimiser", "sgd"),
            14,
            0.01,
            0.5,
            6000,
        ),
        Network("mixer-fashion", ("vision.py", "--net", "mixer", "--data", "{data}/fashion.npz"), 14, 1e-3, 0.0, 10000),
    ),
}


def main() -> None:
    """Run what is asked for and write its tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("curves", "changes", "seconds"))
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--networks", default="first", choices=NETWORKS)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--processes", type=int, default=14)
    parser.add_argument("--seconds", type=float, default=600.0, help="nothing is started after so long")
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    networks = NETWORKS[asked.networks]
    if asked.what == "seconds":
        for network in networks:
            record_seconds(network, asked.data.absolute(), asked.out.absolute(), asked.seconds / len(networks))
        return
    until = time.monotonic() + asked.seconds
    tasks = [
        (network, batch, seed, switch)
        for network in networks
        for batch, switch in (switches(network) if asked.what == "changes" else [(one, None) for one in BATCHES])
        for seed in range(1 if asked.what == "changes" else asked.seeds)
    ]
    tasks.sort(key=lambda task: (task[1] > 64, task[2], task[1]))  # long ones first, a whole seed before the next

    def trained(task: tuple[Network, int, int, str | None]) -> list[tuple[str, str]]:
        network, batch, seed, switch = task
        if time.monotonic() > until:
            return []
        return run(network.command(asked.data.absolute(), batch, seed, switch))

    with ThreadPoolExecutor(asked.processes) as pool:
        curves = list(pool.map(trained, tasks))
    for network in networks:
        rows = [
            (*((batch, switch) if asked.what == "changes" else (batch,)), epoch, value, seed)
            for (of, batch, seed, switch), curve in zip(tasks, curves, strict=True)
            for epoch, value in curve
            if of is network
        ]
        write(asked.out / f"{network.name}.{asked.what}.csv", asked.what, rows)


def record_seconds(network: Network, data: Path, out: Path, budget: float) -> None:
    """Measure a network all over the space, and write its times as a recording."""
    folder = out / f"{network.name}-slices"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "cotune.yaml").write_text(network.job_file(data))
    starts = str(len(SPACE["workers"]) * len(SPACE["batch_size"]))
    store = ("--store", str(folder / "store.db"))
    for words in (
        ("profile", "--cover", "--budget", f"{budget:.0f}s", "--max-samples", starts, *store),
        ("record", "-o", "recording", *store),
    ):
        subprocess.run([sys.executable, "-m", "cotune", *words], cwd=folder, check=False)


def switches(network: Network) -> list[tuple[int, str]]:
    """Return the changes of batch that are tried: the first batch, and EPOCH:BATCH:RATE."""
    return [
        (before, f"{max(1, round(part * network.epochs))}:{after}:{network.rate_at(after):.6g}")
        for before, after, part in CHANGES
    ]


def run(command: Sequence[str]) -> list[tuple[str, str]]:
    """Return (epoch, value) as a training printed them; what went wrong is shown."""
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    if done.returncode:
        print(done.stderr[-500:], file=sys.stderr)
    return LINE.findall(done.stdout)


def write(file: Path, what: str, rows: Sequence[Sequence[object]]) -> None:
    """Write one network's table."""
    head = ["global_batch", *(["switch"] if what == "changes" else []), "epoch", "accuracy", "seed"]
    with file.open("w", newline="") as out:
        csv.writer(out).writerows(
            [head, *sorted(rows, key=lambda row: (row[0], str(row[1]), row[-1], float(str(row[-3]))))]
        )


if __name__ == "__main__":
    main()
