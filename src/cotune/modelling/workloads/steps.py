"""Some steps of a model on random data, alone or with others: a probe of its speed.

python -m cotune.modelling.workloads.steps --model resnet18 --batch-size 32 --steps 40

An "epoch" is all the steps, so that cotune's seconds per epoch are those of so many steps.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import cotune
from cotune.modelling.counting.timing import Stepper
from cotune.modelling.workloads.named import find
from cotune.workloads.program import exit_code, positive
from cotune.workloads.workers import join, leave


def main(arguments: Sequence[str] | None = None) -> int:
    """Take the steps the command line asks for and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m cotune.modelling.workloads.steps", description=__doc__)
    flag = parser.add_argument
    flag("--model", required=True, help="a short name or an import path")
    flag("--input", action="append", default=[], help="the shape of one example")
    flag("--batch-size", type=positive, required=True, help="examples one worker takes at once")
    flag("--steps", type=positive, default=40, help="steps to take")
    flag("--precision", default="fp32", help="fp32, bf16 or fp16")
    flag("--optimiser", default="momentum", help="sgd, momentum or adam")
    flag("--device", default="auto", help="auto, cpu or cuda")
    asked = parser.parse_args(arguments)
    return exit_code("steps", lambda: _run(asked))


def _run(asked: argparse.Namespace) -> None:
    """Take the steps among the other workers, and part."""
    workers = join(asked.device)
    stepper = Stepper(
        find(asked.model, asked.input),
        asked.batch_size,
        str(workers.device),
        precision=asked.precision,
        optimiser=asked.optimiser,
        parallel=workers.parallel,
    )
    cotune.report(0.0)
    for step in range(1, asked.steps + 1):
        stepper.step()
        if cotune.report(step / asked.steps) and workers.count == 1:
            break
    leave()


if __name__ == "__main__":
    sys.exit(main())
