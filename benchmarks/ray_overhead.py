"""What the Ray engine costs in a training step, against plain torchrun.

    python benchmarks/ray_overhead.py [--pairs 10] [--workers 2]

The same DDP script, once under each, pair by pair with the order changed each time. A
script tells the median of its own step times after a warm-up; compared is the median
over the pairs of the ratio of the two. The engine has no hook in a step, so what could
be seen is the actors' looking at files. Exit code 1 if the ratio is above 1.03.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from cotune.run.engines.ray import Ray
from cotune.run.launch import Ended, Launch
from cotune.types import Config, Job

MOST = 1.03
SCRIPT = """
import os, statistics, sys, time
import torch, torch.distributed as dist
import cotune

dist.init_process_group("gloo")
torch.manual_seed(0)
layers = [torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 512), torch.nn.ReLU()]
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(*layers, torch.nn.Linear(512, 10)))
optimizer = torch.optim.SGD(model.parameters(), 0.01)
data, steps = torch.randn(256, 256), []
for step in range(250):
    began = time.perf_counter()
    optimizer.zero_grad()
    model(data).square().mean().backward()
    optimizer.step()
    steps.append(time.perf_counter() - began)
    if step % 50 == 49:
        cotune.report(epoch=step / 250)
dist.barrier()
if dist.get_rank() == 0:
    with open(sys.argv[1], "w") as file:
        file.write(str(statistics.median(steps[50:])))
sys.stdout.flush()
if "HARD_EXIT" in os.environ:
    os._exit(0)  # without this torchrun fails at random, as gloo aborts
"""


def under_ray(engine: Ray, folder: Path, workers: int, name: str) -> float:
    answer = folder / f"{name}.txt"
    job = Job("overhead", (sys.executable, "train.py", str(answer)), folder=str(folder))
    engine.start(Launch(name, job, Config.data_parallel(256, workers), 1, folder / name))
    while not isinstance(event := engine.wait(120), Ended):
        assert event is not None, "nothing happened for 120 s"
    assert event.outcome == "done", event
    return float(answer.read_text())


def under_torchrun(folder: Path, workers: int) -> float:
    answer = folder / "torchrun.txt"
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={workers}"]
    env = {**os.environ, "OMP_NUM_THREADS": "1", "HARD_EXIT": "1"}
    subprocess.run([*command, "train.py", str(answer)], cwd=folder, env=env, check=True, capture_output=True)
    return float(answer.read_text())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--workers", type=int, default=2)
    asked = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="cotune-bench-"))
    (folder / "train.py").write_text(SCRIPT)
    engine, ratios = Ray(private={"num_cpus": asked.workers}), []
    print("pair  ray ms  torchrun ms  ratio")
    try:
        for pair in range(asked.pairs):
            if pair % 2:
                plain = under_torchrun(folder, asked.workers)
                ours = under_ray(engine, folder, asked.workers, f"pair-{pair}")
            else:
                ours = under_ray(engine, folder, asked.workers, f"pair-{pair}")
                plain = under_torchrun(folder, asked.workers)
            ratios.append(ours / plain)
            print(f"{pair + 1:4}  {1e3 * ours:6.2f}  {1e3 * plain:11.2f}  {ratios[-1]:5.3f}", flush=True)
    finally:
        engine.close()
    found = median(ratios)
    print(f"median of {asked.pairs} pairs on {asked.workers} workers: {found:.3f} (at most {MOST} is wanted)")
    sys.exit(found > MOST)


if __name__ == "__main__":
    main()
