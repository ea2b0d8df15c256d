"""Runs on a busy machine: does the forecast of seconds hold, and is a plan that was met not refused afterwards?

    python benchmarks/busy_machine.py [--runs 20] [--spinning 4]

A script that knows nothing of cotune is profiled, planned and run through the command line, again and again, while some
processes spin for a while and rest for a while. Every run has its own plan, from all that was measured before it: its
seconds, start-up included, should lie inside the 80 % interval in four of five runs. After a run that met its goal
no later than the median of its forecast, the next plan for that goal must not be refused.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SCRIPT = Path(__file__).parent.absolute() / "strangers" / "tiny.py"
JOB = """\
name: busy
run: {python} {script} --batch-size {{batch_size}} --epochs {{epochs}} --lr 0.02 --seed {{seed}}
examples: 8000
lr: {{at: 0.02, global_batch: 16, rule: fixed}}
schedule: constant
pattern: 'epoch (?P<epoch>[\\d.]+) val_acc (?P<val_acc>[\\d.]+)'
target: {{metric: val_acc, at_least: {target}}}
deadline: {deadline}s
max_epochs: 40
search: {{workers: 1, batch_size: [8, 16, 32, 64]}}
budget: {{profile: 60s}}
"""
SPINS, RESTS = (1.0, 8.0), (1.0, 8.0)  # seconds
HEAD = ("run", "config", "forecast s", "measured s", "inside", "P(met)", "met", "next plan")


@dataclass(frozen=True, slots=True)
class Row:
    """One run beside its forecast."""

    config: str
    low: float
    mid: float
    high: float
    seconds: float
    probability: float
    met: bool
    refused: bool

    @property
    def inside(self) -> bool:
        return self.low <= self.seconds <= self.high


def main() -> int:
    """Run, print the table, and say what held."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--spinning", type=int, default=4)
    parser.add_argument("--target", type=float, default=0.82)
    parser.add_argument("--deadline", type=float, default=60.0)
    asked = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="busy-machine-"))
    (folder / ".cotune").mkdir()
    text = JOB.format(python=sys.executable, script=SCRIPT, target=asked.target, deadline=asked.deadline)
    (folder / "cotune.yaml").write_text(text)
    with _busy(asked.spinning):
        _cotune(folder, "profile")
        rows = []
        planned = _cotune(folder, "plan")
        for seed in range(asked.runs):
            if "plan" not in planned:
                planned = _cotune(folder, "plan", "--deadline", f"{2 * asked.deadline:g}s")
            ran = _cotune(folder, "run", "--from-scratch", "--seed", str(100 + seed))
            after = _cotune(folder, "plan")
            rows.append(_row(planned["plan"], ran, refused="plan" not in after))
            print(_line(seed, rows[-1]), file=sys.stderr, flush=True)
            planned = after
    print("| " + " | ".join(HEAD) + " |\n|" + " --- |" * len(HEAD))
    print("\n".join(_line(number, row) for number, row in enumerate(rows)))
    inside = sum(row.inside for row in rows)
    wrongly = sum(row.refused and row.met and row.seconds <= row.mid for row in rows)
    met = sum(row.met for row in rows)
    print(f"\n{inside} of {len(rows)} inside the 80 % interval, {met} met; refused after a success no later: {wrongly}")
    return 0 if inside >= 0.7 * len(rows) and not wrongly else 6


def _row(plan: dict[str, Any], ran: dict[str, Any], *, refused: bool) -> Row:
    seconds, config = plan["forecast"]["seconds"], plan["config"]
    what = f"{config['workers']} x {config['batch_size']}"
    ends = (seconds["low"], seconds["mid"], seconds["high"])
    return Row(what, *ends, ran["run"]["seconds"], plan["probability"], bool(ran.get("met")), refused)


def _line(number: int, row: Row) -> str:
    cells = (
        str(number), row.config, f"{row.mid:.2f} ({row.low:.2f}..{row.high:.2f})", f"{row.seconds:.2f}",
        "yes" if row.inside else "no", f"{row.probability:.2f}", "yes" if row.met else "no",
        "refused" if row.refused else "made",
    )  # fmt: skip
    return "| " + " | ".join(cells) + " |"


def _cotune(folder: Path, *words: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "cotune", *words, "--json"], cwd=folder, capture_output=True, text=True, check=False
    )
    if done.returncode not in (0, 5, 6):
        raise SystemExit(f"cotune {' '.join(words)}: {done.stderr.strip()}")
    document: dict[str, Any] = json.loads(done.stdout) if done.stdout.strip() else {}
    return document


@contextlib.contextmanager
def _busy(count: int) -> Iterator[None]:
    """Let some processes spin and rest until the end."""
    spinning = [multiprocessing.Process(target=_spin, args=(seed, os.getpid()), daemon=True) for seed in range(count)]
    for process in spinning:
        process.start()
    try:
        yield
    finally:
        for process in spinning:
            process.terminate()


def _spin(seed: int, parent: int) -> None:
    chance = random.Random(seed)
    while os.getppid() == parent:
        until = time.monotonic() + chance.uniform(*SPINS)
        while time.monotonic() < until:
            pass
        time.sleep(chance.uniform(*RESTS))


if __name__ == "__main__":
    sys.exit(main())
