"""Small real jobs for the command line's tests, and a way to call it like a user does."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cli import forking

# Softmax regression on the digits, in plain numpy: real training, a tenth of a second an epoch.
TRAIN = """
import gzip, importlib.util, os, sys, time
from pathlib import Path
import numpy as np
import cotune

batch, epochs = int(sys.argv[1]), int(sys.argv[2])
rank, workers = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
folder = Path(importlib.util.find_spec("sklearn").submodule_search_locations[0])
table = np.loadtxt(gzip.open(folder / "datasets" / "data" / "digits.csv.gz"), delimiter=",")
x, y = table[:, :64] / 16, table[:, 64].astype(int)
train, test = slice(0, 1440), slice(1440, None)
weights = np.zeros((64, 10))
{setup}
cotune.report(epoch=0)
for epoch in range(1, epochs + 1):
    {each}
    for begin in range(0, 1440, batch):
        rows = slice(begin, begin + batch)
        scores = np.exp(x[rows] @ weights)
        chance = scores / scores.sum(axis=1, keepdims=True)
        chance[np.arange(len(chance)), y[rows]] -= 1
        weights -= 0.5 * x[rows].T @ chance / len(chance)
        cotune.report(epoch=epoch - 1 + min(begin + batch, 1440) / 1440)
    accuracy = float((np.argmax(x[test] @ weights, axis=1) == y[test]).mean())
    {after}
    if cotune.report(epoch=epoch, accuracy=accuracy):
        break
"""


@dataclass(frozen=True)
class Done:
    """A finished command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self.out)
        return document


def script(folder: Path, *, setup: str = "", each: str = "", after: str = "") -> Path:
    """Write the training script with some code put in, and a job file beside it."""
    (folder / ".cotune").mkdir(exist_ok=True)
    file = folder / "train.py"
    file.write_text(
        TRAIN.replace("{setup}", setup).replace("{each}", each or "pass").replace("{after}", after or "pass")
    )
    return file


def checkpointing(folder: Path, *, setup: str = "", after: str = "") -> Path:
    """Write the training script so that it keeps its weights after each epoch, and goes on with them when asked."""
    load = (
        "first, kept = 0, Path(os.environ['COTUNE_CHECKPOINT']) / 'w.npy'\n"
        "if os.environ.get('COTUNE_RESUME') and kept.exists():\n"
        "    saved = np.load(kept)\n"
        "    weights, first = saved[:-1].reshape(64, 10), int(saved[-1])\n"
    )
    save = "began = time.perf_counter(); np.save(kept, np.append(weights, epoch))"
    file = script(folder, setup=load + setup, after=f"{save}\n    {after or 'pass'}")
    told = "report(epoch=epoch, accuracy=accuracy, checkpoint=time.perf_counter() - began)"
    text = file.read_text().replace("range(1, epochs + 1)", "range(first + 1, epochs + 1)")
    text = text.replace("report(epoch=0)", "report(epoch=first)").replace(
        "report(epoch=epoch, accuracy=accuracy)", told
    )
    file.write_text(text)
    return file


def environment(folder: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("COTUNE")}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return kept | {"PATH": path, "XDG_DATA_HOME": str(folder / "data")}


def on_terminal(folder: Path, *words: str, answer: str) -> tuple[int, str]:
    """Run the command line on a terminal, answer its question, and return its exit code and all that it said."""
    ours, theirs = pty.openpty()
    argv = [sys.executable, "-m", "cotune", *words]
    with subprocess.Popen(
        argv, cwd=folder, env=environment(folder), stdin=theirs, stdout=theirs, stderr=theirs
    ) as done:
        os.close(theirs)
        os.write(ours, f"{answer}\n".encode())
        said = b""
        with contextlib.suppress(OSError):  # the end of a terminal
            while part := os.read(ours, 4096):
                said += part
    os.close(ours)
    return done.returncode, said.decode(errors="replace")


def cotune(folder: Path, *words: str) -> Done:
    """Run the command line in a folder, as a process of its own."""
    return Done(*forking.run(words, folder, environment(folder)))


JOB = ("--name", "digits", "--examples", "1440", "--workers", "1", "--batch-size", "16,48")
TRAINING = ("--", "python", "train.py", "{batch_size}", "{epochs}")
