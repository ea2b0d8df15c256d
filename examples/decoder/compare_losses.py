"""Do all layouts of one global batch train equally? The decoder in each, from the same weights, on the same sequences.

    python compare_losses.py              # 50 steps of six layouts, about a minute of two idle cores
    python compare_losses.py --all        # of all ten, about a minute and a half
    python compare_losses.py --steps 8
    python compare_losses.py --backend host              # through the host's memory, as on a shared GPU
    python compare_losses.py --device cuda --tolerance 1e-2    # all on one GPU, in bfloat16

Each layout's losses are compared with one process's, and printed when it is done; the last resumes as fsdp 4 from the
checkpoint of tp 2 x pp 2. Workers are forked from a process that has imported torch and computed nothing. Nearly all of
the time is Python's: DTensor and FSDP2 dispatch every operation of every micro-batch, so these are few.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import socket
import sys
import tempfile
import traceback
from pathlib import Path

import spread
from train import parse, train

SHAPE = {
    "model_type": "llama", "num_hidden_layers": 4, "hidden_size": 32, "num_attention_heads": 4,
    "num_key_value_heads": 2, "intermediate_size": 64, "vocab_size": 64,
}  # fmt: skip
BATCH = 8
LAYOUTS = {  # workers, tp, pp, shard, micro-batch, recompute, schedule
    "one process": (1, 1, 1, 0, 4, 0, None),
    "dp 4": (4, 1, 1, 0, 2, 0, None),
    "fsdp 4": (4, 1, 1, 3, 1, 0, None),
    "fsdp 4, gradients alone, recompute": (4, 1, 1, 2, 1, 1, None),
    "tp 2 x dp 2": (4, 2, 1, 0, 4, 0, None),
    "tp 2 x fsdp 2": (4, 2, 1, 3, 4, 0, None),
    "pp 2 x dp 2": (4, 1, 2, 0, 2, 0, None),
    "pp 2 x fsdp 2, interleaved": (4, 1, 2, 3, 1, 0, "interleaved_1f1b"),
    "tp 2 x pp 2": (4, 2, 2, 0, 4, 0, None),
    "tp 2 x pp 2, zero bubble": (4, 2, 2, 0, 2, 0, "interleaved_zero_bubble"),
    "pp 4, gpipe": (4, 1, 4, 0, 4, 0, "gpipe"),
}
MOVED = "tp 2 x pp 2, then fsdp 4"
SIX = ("dp 4", "fsdp 4", "tp 2 x dp 2", "tp 2 x fsdp 2", "pp 2 x fsdp 2, interleaved", "tp 2 x pp 2")
LOSS = re.compile(r"step (\d+) .*loss (\S+)")


def main() -> int:
    """Print a table and return 1 where a layout is off by more than rounding."""
    parser = argparse.ArgumentParser(description="Compare the losses of layouts.")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--layouts", help="names with ; between, instead of the six")
    parser.add_argument("--all", action="store_true", help="every layout there is")
    parser.add_argument("--tolerance", type=float, default=2e-5, help="of a loss, relative")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--backend", help="what exchanges tensors, instead of what suits the device")
    asked = parser.parse_args()
    if asked.backend:
        spread.backend = lambda _: asked.backend
    names = asked.layouts.split(";") if asked.layouts else list(LAYOUTS)[1:] if asked.all else SIX
    worst = 0.0
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "config.json"
        config.write_text(json.dumps(SHAPE))
        alone = run(config, "one process", asked)
        print("| layout | last loss | largest difference of any step |\n| --- | --- | --- |", flush=True)
        for name in (*names, MOVED):
            losses = moved(config, asked) if name == MOVED else run(config, name, asked)
            off = max(abs(losses[step] / alone[step] - 1) for step in alone)
            worst = max(worst, off)
            print(f"| {name} | {losses[asked.steps]:.6f} | {off:.1e} |", flush=True)
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"one process: first loss {alone[1]:.6f}, last {alone[asked.steps]:.6f}", end="; ")
    print(f"all: {spent.ru_utime + spent.ru_stime:.0f} processor-seconds")
    return int(worst > asked.tolerance)


def moved(config: Path, asked: argparse.Namespace) -> dict[int, float]:
    """Return the losses of a training that resumes as fsdp 4 where tp 2 x pp 2 was stopped half way."""
    where = {"COTUNE_CHECKPOINT": str(config.parent / "checkpoint")}
    half = argparse.Namespace(**{**vars(asked), "steps": asked.steps // 2})
    return run(config, "tp 2 x pp 2", half, where) | run(config, "fsdp 4", asked, where | {"COTUNE_RESUME": "1"})


def run(config: Path, name: str, asked: argparse.Namespace, env: dict[str, str] | None = None) -> dict[int, float]:
    """Return the loss of every step of a layout, by step."""
    workers, tp, pp, shard, micro, recompute, schedule = LAYOUTS[name]
    accumulate = BATCH * tp * pp // workers // micro
    flags = f"--model {config} --sequence 16 --tp {tp} --pp {pp} --shard {shard} --micro-batch {micro} --threads 1"
    flags += f" --accumulate {accumulate} --recompute {recompute} --steps {asked.steps} --lr 0.003 --every 1"
    words = [*flags.split(), "--device", asked.device, *(["--schedule", schedule] if schedule else [])]
    said = config.with_name("said")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    place = {"WORLD_SIZE": str(workers), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    children = [_forked(rank, words, {**place, **(env or {})}, said) for rank in range(workers)]
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    if any(codes):
        raise SystemExit(f"{name}: workers ended with {codes}\n{said.read_text()}")
    return {int(step): float(loss) for step, loss in LOSS.findall(said.read_text())}


def _forked(rank: int, words: list[str], env: dict[str, str], said: Path) -> int:
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        os.environ.update(env, RANK=str(rank), LOCAL_RANK=str(rank))
        if rank == 0:
            os.dup2(os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 1)
        train(parse(words))
        code = 0
    except Exception:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)  # gloo may abort at an ordinary exit after a good run


if __name__ == "__main__":
    sys.exit(main())
