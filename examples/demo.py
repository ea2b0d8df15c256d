"""The whole flow on one real job: LeNet-5 on handwritten digits, one or two worker processes.

    make demo

profiles the job, predicts every config, plans for a target and a deadline, runs the plan,
and shows the forecast beside what was measured. It takes one to three minutes.
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
target: {metric: accuracy, at_least: 0.97}
deadline: 30s
max_epochs: 30
search: {workers: 1..2, batch_size: [16, 32, 64, 128, 256]}
lr: {at: 0.01, global_batch: 32, rule: sqrt}
budget: {profile: 60s}
"""


def cotune(folder: Path, *words: str, stdout: int | None = None) -> str:
    # The job says `python`: let that be the one this demo runs with.
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    command = [sys.executable, "-m", "cotune", *words]
    done = subprocess.run(command, cwd=folder, check=True, stdout=stdout, text=True, env={**os.environ, "PATH": path})
    return done.stdout or ""


def main() -> None:
    folder = Path(tempfile.mkdtemp(prefix="cotune-demo-"))
    begun = time.monotonic()
    try:
        (folder / ".cotune").mkdir()
        (folder / "cotune.yaml").write_text(JOB)
        print(JOB)
        for verb in ("profile", "predict", "plan", "run"):
            print(f"\n$ cotune {verb}", flush=True)
            cotune(folder, verb)
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
