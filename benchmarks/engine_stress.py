"""Many two-worker gloo groups under CPU load: none may fail, hang or leave a process.

    python benchmarks/engine_stress.py [--groups 100]

Twice as many processes as cores spin meanwhile. A false failure is a group whose script
was right but whose outcome is not `done`; a hang is one that takes longer than 60 s.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import tempfile
import time
from pathlib import Path

from cotune.run.engines.local import Local
from cotune.run.launch import Ended, Launch
from cotune.run.processes import descendants
from cotune.types import Config, Job

SCRIPT = """
import torch, torch.distributed as dist

def main():
    dist.init_process_group("gloo")
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 10))
    for _ in range(3):
        model(torch.randn(32, 64)).sum().backward()

main()
"""
PATIENCE = 60.0


def spin() -> None:
    while True:
        pass


def run(engine: Local, job: Job, folder: Path, number: int) -> Ended | None:
    """Return how a group ended, or None when it hung."""
    name = f"group-{number}"
    engine.start(Launch(name, job, Config.data_parallel(32, 2), 1, folder / name))
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        event = engine.wait(1.0)
        if isinstance(event, Ended) and event.launch == name:
            return event
    engine.stop(name, grace=0.0)
    return None


def settled(running: set[int]) -> int:
    """Return how many processes there are beyond those that run all along, a second after the last group."""
    end = time.monotonic() + 1.0
    while (left := len(set(descendants(os.getpid())) - running)) and time.monotonic() < end:
        time.sleep(0.01)  # the leader of the last group has told its end and is on its way out
    return left


def main() -> int:
    parser = argparse.ArgumentParser(description="Stress the local engine.")
    parser.add_argument("--groups", type=int, default=100)
    groups = parser.parse_args().groups
    context = multiprocessing.get_context("fork")
    load = [context.Process(target=spin, daemon=True) for _ in range(2 * (os.cpu_count() or 1))]
    for process in load:
        process.start()
    failures, hangs, warnings, seconds = 0, 0, 0, []
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        (folder / "train.py").write_text(SCRIPT)
        job = Job("stress", (sys.executable, "train.py"), folder=scratch)
        engine = Local()
        run(engine, job, folder, 0)  # the server starts with the first
        running = set(descendants(os.getpid()))
        for number in range(1, groups + 1):
            began = time.monotonic()
            ended = run(engine, job, folder, number)
            seconds.append(time.monotonic() - began)
            hangs += ended is None
            warnings += ended is not None and ended.warning is not None
            if ended is not None and ended.outcome != "done":
                failures += 1
                print(f"\nfalse failure in group {number}: {ended.failure}", file=sys.stderr)
            print(f"\r{number} of {groups} groups", end="", file=sys.stderr, flush=True)
        left_by_groups = settled(running)
        engine.close()
    for process in load:
        process.kill()
        process.join()
    left = left_by_groups + len(descendants(os.getpid()))
    seconds.sort()
    print(file=sys.stderr)
    print(f"groups            {groups} of 2 workers, beside {len(load)} spinning processes")
    print(f"false failures    {failures}")
    print(f"hangs             {hangs}")
    print(f"warnings          {warnings}")
    print(f"processes left    {left}")
    print(f"seconds a group   {seconds[len(seconds) // 2]:.2f} median, {seconds[-1]:.2f} worst")
    return 1 if failures or hangs or left else 0


if __name__ == "__main__":
    sys.exit(main())
