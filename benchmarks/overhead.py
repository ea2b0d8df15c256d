"""What cotune costs a step: steady-state step time under the local engine against plain torchrun.

    python benchmarks/overhead.py

LeNet-5 by DistributedDataParallel on two workers, the same unmodified script, in ten pairs that
take turns. Each script times 200 steps after 50 of warming up. Asked: the median ratio at most 1.03.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from cotune.run.engines.local import Local
from cotune.run.environment import MALLOC
from cotune.run.launch import Ended, Launch
from cotune.types import Config, Job

PAIRS, WORKERS = 10, 2
MOST = 1.03
SCRIPT = """
import os, sys, time
import torch, torch.distributed as dist
from torch import nn
from cotune.workloads.models import Shape, build

torch.set_num_threads(1)
dist.init_process_group("gloo")
model = nn.parallel.DistributedDataParallel(build("lenet5", Shape(1, 28)))
optimiser = torch.optim.SGD(model.parameters(), 0.01, 0.9)
inputs, labels = torch.randn(64, 1, 28, 28), torch.randint(10, (64,))
times = []
for _ in range(250):
    began = time.perf_counter()
    optimiser.zero_grad()
    nn.functional.cross_entropy(model(inputs), labels).backward()
    optimiser.step()
    times.append(time.perf_counter() - began)
dist.barrier()
if dist.get_rank() == 0:
    with open(sys.argv[1], "w") as file:
        file.write(str(sorted(times[50:])[100]))
sys.stdout.flush()
if "TORCHRUN_HARD_EXIT" in os.environ:
    os._exit(0)  # without this torchrun fails at random, as gloo aborts
"""


def under_cotune(engine: Local, folder: Path, name: str) -> float:
    job = Job("overhead", (sys.executable, "train.py", name), folder=str(folder))
    engine.start(Launch(name, job, Config.data_parallel(64, WORKERS), 1, folder / f"run-{name}"))
    while not isinstance(event := engine.wait(60.0), Ended):
        assert event is not None, "nothing happened for 60 s"
    assert event.outcome == "done", event.failure
    return float((folder / name).read_text())


def under_torchrun(folder: Path, name: str) -> float:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(WORKERS)]
    env = {**os.environ, **MALLOC, "OMP_NUM_THREADS": "1", "TORCHRUN_HARD_EXIT": "1"}
    subprocess.run([*command, "train.py", name], cwd=folder, env=env, check=True, capture_output=True)
    return float((folder / name).read_text())


def main() -> int:
    ratios = []
    engine = Local()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        (folder / "train.py").write_text(SCRIPT)
        for number in range(PAIRS):
            # The one that goes first changes from pair to pair, so that a drift of the machine cancels.
            if number % 2:
                theirs, ours = under_torchrun(folder, f"t{number}"), under_cotune(engine, folder, f"c{number}")
            else:
                ours, theirs = under_cotune(engine, folder, f"c{number}"), under_torchrun(folder, f"t{number}")
            ratios.append(ours / theirs)
            print(f"cotune {ours * 1e3:.2f} ms, torchrun {theirs * 1e3:.2f} ms a step: {ratios[-1]:.3f}", flush=True)
    engine.close()
    met = median(ratios) <= MOST
    print(f"median of {PAIRS} pairs {median(ratios):.3f} (asked: at most {MOST}):", "met" if met else "NOT met")
    print(json.dumps({"ratios": ratios, "median": median(ratios), "met": met}))
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
