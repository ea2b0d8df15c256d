"""The whole flow on one real job: LeNet-5 on handwritten digits, on a cluster of eight small nodes.

    make demo

The nodes are emulated on this machine: each has a fifth of a core and a link of 100 Mbit/s,
so more workers compute less and talk more, as on a real cluster. The demo profiles 1 to 8
workers, shows where more of them stop paying, predicts every config, plans for a target and
a deadline, runs the plan, and puts the forecast beside what was measured. It takes two to
four minutes.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

JOB = """\
name: lenet5-digits
run: python -m cotune.workloads.train --model lenet5 --data digits --batch-size {batch_size} --epochs {epochs} --lr {lr}
examples: 1437
target: {metric: accuracy, at_least: 0.95}
deadline: 60s
max_epochs: 30
search: {workers: [1, 2, 4, 8], batch_size: [16, 32, 64]}
lr: {at: 0.02, global_batch: 32, rule: sqrt}
budget: {profile: 90s}
engine: {local: {nodes: 8, cores: 0.2, link: 100mbit}}
"""


def cotune(folder: Path, *words: str, stdout: int | None = None) -> str:
    # The job says `python`: let that be the one this demo runs with.
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    command = [sys.executable, "-m", "cotune", *words]
    done = subprocess.run(command, cwd=folder, check=True, stdout=stdout, text=True, env={**os.environ, "PATH": path})
    return done.stdout or ""


def knee(folder: Path) -> None:
    """Show seconds per epoch over workers and batch sizes as measured, and what each worker then costs."""
    starts = json.loads(cotune(folder, "samples", "--json", stdout=subprocess.PIPE))["samples"]
    known = {}
    for start in starts:
        if start["epoch_seconds"] is not None:
            known[start["config"]["workers"], start["config"]["batch_size"]] = start["epoch_seconds"]
    batches = sorted({batch for _, batch in known})
    print("\nmeasured seconds per epoch (device-seconds), where more workers stop paying:")
    print("workers " + "".join(f"{f'batch {batch}':>16}" for batch in batches))
    for workers in sorted({workers for workers, _ in known}):
        took = [known.get((workers, batch)) for batch in batches]
        cells = ["" if each is None else f"{each:.2f} ({each * workers:.1f})" for each in took]
        print(f"{workers:7d} " + "".join(f"{cell:>16}" for cell in cells))
    if any(start["modelled"] for start in starts):
        print("this system forbids network namespaces, so the links were modelled by sleeping")


def main() -> None:
    folder = Path(tempfile.mkdtemp(prefix="cotune-demo-"))
    begun = time.monotonic()
    try:
        (folder / ".cotune").mkdir()
        (folder / "cotune.yaml").write_text(JOB)
        print(JOB)
        # A probe may have met the target by now; the demo trains from scratch, to hold the forecast against all of it.
        for words in (("profile",), ("predict",), ("plan",), ("run", "--from-scratch")):
            print(f"\n$ cotune {' '.join(words)}", flush=True)
            cotune(folder, *words)
            if words == ("profile",):
                knee(folder)
        starts = json.loads(cotune(folder, "samples", "--json", stdout=subprocess.PIPE))["samples"]
        spent = sum(start["device_seconds"] for start in starts if start["purpose"] == "probe")
        print(f"\nmeasured with {len(starts) - 1} probes for {spent:.0f} device-seconds", end="; ")
        print(f"the whole demo took {time.monotonic() - begun:.0f} s")
    except subprocess.CalledProcessError as error:
        sys.exit(error.returncode)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
