"""The commands whose way through the tree is counted, and the small job that they are run on."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import cotune
from budget.counts import ROOT
from cotune.types import Config, Evaluation, Sample, Terms

TRACER = Path(__file__).with_name("traced.py")
RECORDING = ROOT / "recordings" / "lenet5-mnist-nodes"
MEASURED = ((1, 16), (1, 64), (2, 32), (2, 64), (4, 32), (1, 64))  # workers, batch size
JOB = """
name: traced
run: python train.py {batch_size} {epochs}
examples: 10000
search: {workers: [1, 2, 4], batch_size: [16, 32, 64]}
"""
SCRIPT = """
import sys
import cotune

batch, epochs = int(sys.argv[1]), int(sys.argv[2])
for epoch in range(1, epochs + 1):
    if cotune.report(epoch=epoch, accuracy=1 - 1 / (1 + epoch)):
        break
"""
GOAL = ("--target", "accuracy=0.98", "--deadline", "2h")
REPLAYED_GOAL = ("--target", "accuracy=0.97", "--deadline", "1h")
FLOWS: Mapping[str, tuple[str, ...]] = {
    "plan": ("plan", *GOAL),
    "profile": ("plan", "--recording", str(RECORDING), *REPLAYED_GOAL, "--max-samples", "6"),
    "run": ("run", "--recording", str(RECORDING), *REPLAYED_GOAL),
    "submit": ("submit", "cotune.yaml", *GOAL, "--store", "sqlite:///queue.db"),
    "place": ("place", str(ROOT / "tests" / "golden" / "inputs" / "placement.json"), "--throughput", "20000"),
    "memory": ("model", "memory", "mistral-7b", "--device", "a100", "--seq", "4096", "--gpus", "4"),
}


def prepare(folder: Path) -> None:
    """Write a job of five configs with six samples in its store, two of them of the same config."""
    (folder / ".cotune").mkdir()
    (folder / "cotune.yaml").write_text(JOB)
    (folder / "train.py").write_text(SCRIPT)
    project = cotune.open(folder / "cotune.yaml")
    for place, (workers, batch) in enumerate(MEASURED):
        epoch_seconds = (8.0 + 100.0 / batch) / workers + 0.3 * workers + 0.05 * place
        curve = tuple(_evaluations(batch * workers, epoch_seconds, seed=place))
        project.keep(
            Sample(
                Config.data_parallel(batch, workers),
                epochs=len(curve),
                epoch_seconds=epoch_seconds,
                accuracy=curve[-1].accuracy,
                terms=Terms(engine=0.1, startup=0.5, evaluation=0.1),
                curve=curve,
                seconds=curve[-1].seconds,
                id=f"sample-{place}",
            )
        )


def _evaluations(batch: int, epoch_seconds: float, seed: int) -> Iterator[Evaluation]:
    """Yield a power law of epochs with a small wave in place of chance."""
    for epoch in range(1, 9):
        accuracy = 0.995 - 0.3 * (1 + epoch / (1 + batch / 400)) ** -1.6 + 0.001 * math.sin(7 * epoch + seed)
        yield Evaluation(epoch, accuracy, 0.6 + epoch * epoch_seconds)


def trace(flow: str, folder: Path) -> Mapping[str, int]:
    """Run a command in a prepared folder and return the functions and files of cotune that it ran through."""
    report = folder / f"{flow}.json"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COTUNE")}
    done = subprocess.run(
        [sys.executable, str(TRACER), str(report), *FLOWS[flow]],
        cwd=folder,
        env=environment | {"XDG_DATA_HOME": str(folder / "data")},
        capture_output=True,
        text=True,
        check=False,
    )
    if not report.exists() or "traced: exit" in done.stderr:
        raise AssertionError(f"cotune {' '.join(FLOWS[flow])} failed:\n{done.stderr}")
    found = json.loads(report.read_text())
    return {"functions": found["functions"], "files": found["files"]}
