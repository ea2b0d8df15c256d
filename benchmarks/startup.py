"""What starting workers costs: a 12-config profile through the local engine and through torchrun.

    python benchmarks/startup.py

Three worker counts times four batch sizes of a tiny DDP script, each config started
anew, both ways in the same run. Counted are the seconds outside the job's own code:
all that passes from the first start to the last end, less what rank 0 notes as its own.
Importing torch is start-up, so under torchrun the script's own time begins after it;
under the fork server it is over before the script begins.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from cotune.run.engines.local import Local
from cotune.run.launch import Ended, Launch
from cotune.run.local.messages import Record
from cotune.types import Config, Job

WORKERS = (1, 2, 4)
BATCHES = (16, 32, 64, 128)
MAX_SECONDS = 5.0
MIN_RATIO = 10.0
SCRIPT = """
import os, sys, time
import torch, torch.distributed as dist
import torch._dynamo

began = time.monotonic()
batch = int(sys.argv[1])
dist.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 10))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for _ in range(50):
    optimizer.zero_grad()
    model(torch.randn(batch, 64)).square().mean().backward()
    optimizer.step()
dist.barrier()
if dist.get_rank() == 0:
    with open(sys.argv[2], "w") as file:
        file.write(str(time.monotonic() - began))
sys.stdout.flush()
if "TORCHRUN_HARD_EXIT" in os.environ:
    os._exit(0)  # without this torchrun fails at random, as gloo aborts
"""


def show(engine: str, done: int, seconds: float) -> None:
    total = len(WORKERS) * len(BATCHES)
    print(
        f"\r{engine}: {done} of {total} configs, {seconds:.1f} s outside the job", end="", file=sys.stderr, flush=True
    )


def through_engine(folder: Path) -> tuple[float, float]:
    """Return the seconds outside and inside the job's own code, the server's start and end included."""
    began = time.monotonic()
    engine = Local()
    own = 0.0
    job = Job("startup", (sys.executable, "train.py", "{batch_size}", "own-{workers}-{batch_size}"), folder=str(folder))
    for done, (workers, batch) in enumerate((w, b) for w in WORKERS for b in BATCHES):
        name = f"{workers}-{batch}"
        engine.start(Launch(name, job, Config.data_parallel(batch, workers), 1, folder / name))
        while not isinstance(event := engine.wait(60.0), Ended):
            assert event is not None, "nothing happened for 60 s"
        assert event.outcome == "done", event.failure
        record = Record.read(folder / name, 0)
        assert record is not None
        own += record.ended - record.started
        show("local", done + 1, time.monotonic() - began - own)
    engine.close()
    return time.monotonic() - began - own, own


def through_torchrun(folder: Path) -> tuple[float, float]:
    """Return the same for torchrun; its script's own code starts after its imports."""
    outside = inside = 0.0
    threads = str(max(1, len(os.sched_getaffinity(0)) // max(WORKERS)))
    env = {**os.environ, "OMP_NUM_THREADS": threads, "TORCHRUN_HARD_EXIT": "1"}
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    for done, (workers, batch) in enumerate((w, b) for w in WORKERS for b in BATCHES):
        own = folder / f"torchrun-{workers}-{batch}"
        command = [*torchrun, "--nproc-per-node", str(workers), "train.py", str(batch), str(own)]
        began = time.monotonic()
        subprocess.run(command, cwd=folder, env=env, check=True, capture_output=True)
        took = float(own.read_text())
        inside += took
        outside += time.monotonic() - began - took
        show("torchrun", done + 1, outside)
    return outside, inside


def main() -> int:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        (folder / "train.py").write_text(SCRIPT)
        ours, our_job = through_engine(folder)
        print(file=sys.stderr)
        theirs, their_job = through_torchrun(folder)
        print(file=sys.stderr)
    met = ours < MAX_SECONDS and theirs / ours >= MIN_RATIO
    print("12 configs (1, 2, 4 workers x 4 batch sizes), seconds outside and inside the job's own code")
    print(f"local      {ours:7.2f} s outside (server start included)  {our_job:7.2f} s inside")
    print(f"torchrun   {theirs:7.2f} s outside                           {their_job:7.2f} s inside")
    asked = f"asked: at least {MIN_RATIO:g}, and under {MAX_SECONDS:g} s"
    print(f"ratio      {theirs / ours:7.1f}   ({asked}): {'met' if met else 'NOT met'}")
    print(json.dumps({"local_seconds": ours, "torchrun_seconds": theirs, "ratio": theirs / ours, "met": met}))
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
