"""Layouts measured for real on emulated nodes: some fit the law, it predicts the rest and chooses.

    python benchmarks/live_layouts.py                      # 24 layouts of 8 nodes of 0.2 cores, about 10 minutes
    python benchmarks/live_layouts.py --layouts 8 --fit 4 --steps 8
    python benchmarks/live_layouts.py --times times.json   # keep the times, or judge kept ones again
    python benchmarks/live_layouts.py --gpu-slices         # the same on eight slices of a GPU, gloo between them

Nodes stand in two machines: 2 Gbit/s a core from node to node, 0.5 shared from machine to machine. The decoder has 4
layers of width 64; on slices of a GPU 8 of width 512. Layouts are drawn from all that are right on 8 workers (and some
on 4); of them the law chooses those to fit, one after another, as `cotune profile` does. It wants a machine that nobody
else uses: each layout is measured in two rounds, and how far these differ is told beside the errors. On a busy machine
a smaller share of a core, which takes as much longer, is nearer to the truth.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np

from cotune.jobfile import settings as job_settings
from cotune.jobfile.settings import Settings
from cotune.modelling.layout_jobs import LayoutLaw, layouts_of
from cotune.run.attempt import StopRule, attempt
from cotune.run.engines.local import Local
from cotune.run.launch import Launch
from cotune.space import Configs
from cotune.types import Config, Floats, Sample

SHAPE = {
    "model_type": "llama", "num_hidden_layers": 4, "hidden_size": 64, "num_attention_heads": 4,
    "num_key_value_heads": 4, "intermediate_size": 172, "vocab_size": 256,
}  # fmt: skip
LARGER = SHAPE | {"num_hidden_layers": 8, "hidden_size": 512, "num_attention_heads": 8, "num_key_value_heads": 8,
                  "intermediate_size": 1376, "vocab_size": 8192}  # fmt: skip
JOB = """
run: >-
  PYTHON -m cotune.modelling.decoder.train --model config.json --sequence SEQUENCE --steps {steps}
  --micro-batch {micro_batch} --accumulate {accumulate} --tp {tp} --pp {pp} --shard {shard} --recompute {recompute}
  --threads 1 --device DEVICE --every 1000
model: config.json
layout: auto
sequence: SEQUENCE
global_batch: 16
length: 1000000 tokens
search: {workers: [4, 8], micro_batch: [1, 2, 4, 8]}
devices: {KIND: {count: 8, per_node: NODE}}
"""
ROUNDS = 2
MOST = 120.0  # seconds of one start: some hang where a backend lacks what they need
TRIES = 2  # failures of pipelines, or of tensor groups, after which no more of them are tried


def main() -> None:
    """Measure, fit, predict, choose."""
    parser = argparse.ArgumentParser(description="Predict layouts that were measured on emulated nodes.")
    parser.add_argument("--layouts", type=int, default=24)
    parser.add_argument("--fit", type=int, default=8)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--cores", type=float, default=0.2, help="share of a core that a node has")
    parser.add_argument("--gpu-slices", action="store_true", help="eight slices of a GPU instead of emulated nodes")
    parser.add_argument("--times", type=Path, help="a file of seconds a step, written if it is not there")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "config.json").write_text(json.dumps(LARGER if asked.gpu_slices else SHAPE))
        settings = job_settings.loads(job_file(gpu=asked.gpu_slices), {}, "the benchmark", Path(folder))
        everything = drawn(settings)
        if asked.times and asked.times.exists():
            kept = [(int(place), times) for place, times in json.loads(asked.times.read_text())]
        else:
            kept = measured(settings, everything, asked)
            if asked.times:
                asked.times.write_text(json.dumps(kept))
        configs = Configs.of([everything[place] for place, _ in kept])
        judge(settings, configs, np.array([times for _, times in kept]), asked.fit)


def job_file(*, gpu: bool) -> str:
    """Return the job file, on cores or on slices of a GPU."""
    words = {"PYTHON": sys.executable, "SEQUENCE": "256" if gpu else "32", "DEVICE": "cuda" if gpu else "cpu"}
    words |= {"KIND": "h200" if gpu else "cpu", "NODE": "8" if gpu else "4"}
    text = JOB
    for word, value in words.items():
        text = text.replace(word, value)
    return text


def drawn(settings: Settings) -> list[Config]:
    """Return all layouts in a random order, three of all workers to one of fewer."""
    everything = list(settings.space.configs())
    random.Random(1).shuffle(everything)
    large = [config for config in everything if config.workers == 8]
    small = [config for config in everything if config.workers == 4]
    fours = zip(large[::3], large[1::3], large[2::3], small, strict=False)
    return [config for four in fours for config in four]


def measured(
    settings: Settings, everything: list[Config], asked: argparse.Namespace
) -> list[tuple[int, tuple[float, ...]]]:
    """Return seconds a step, in every round, of the first layouts that run, each with its place among all."""
    cores = asked.cores
    engine = (
        Local(gpu_slices=8)
        if asked.gpu_slices
        else Local(nodes=8, cores=cores, link=2e9 * cores, per_machine=4, trunk=0.5e9 * cores)
    )
    found: list[tuple[int, tuple[float, ...]]] = []
    failed = {"pp": 0, "tp": 0}
    try:
        for place, config in enumerate(everything):
            if len(found) == asked.layouts:
                break
            axes = dict(config.axes)
            spread_over = [name for name in failed if int(axes.get(name, 1)) > 1]
            if any(failed[name] >= TRIES for name in spread_over):
                continue
            times = tuple(timed(engine, settings, config, f"{turn}-{place}", asked.steps) for turn in range(ROUNDS))
            if all(time is not None for time in times):
                found.append((place, tuple(time or 0.0 for time in times)))
            elif len(spread_over) == 1:
                failed[spread_over[0]] += 1
    finally:
        engine.close()
    return found


def timed(engine: Local, settings: Settings, config: Config, name: str, steps: int) -> float | None:
    """Return the seconds of a step of a layout, or None where it failed."""
    launch = Launch(name, settings.job, config, settings.goal.cap, Path(settings.job.folder) / name)
    share = config.global_batch / (settings.job.examples or 1)
    *_, sample = attempt(engine, launch, StopRule(epochs=steps * share, timeout=MOST, grace=5.0), Sample(config))
    seconds = None if sample.failed or sample.epoch_seconds is None else sample.epoch_seconds * share
    print(f"{layouts_of(Configs.of([config]))[0]}: {seconds} s {sample.failure or ''}", flush=True)
    return seconds


def judge(settings: Settings, configs: Configs, times: Floats, fit: int) -> None:
    """Print how well the rest is predicted from a few, and how good the layout is that is chosen."""
    truth = np.exp(np.log(times).mean(axis=1))
    law, used = LayoutLaw(), list[int]()
    for _ in range(fit):
        model = law.fit_seconds(settings.job, [_sample(settings, configs[row], truth[row]) for row in used])
        among = np.ones(len(configs), dtype=bool)
        among[used] = False
        used.append(int(model.worth_measuring(configs, 1, among)[0]))
    model = law.fit_seconds(settings.job, [_sample(settings, configs[row], truth[row]) for row in used])
    expected = model.predict(configs) * configs.global_batch / (settings.job.examples or 1)
    rest = np.setdiff1d(np.arange(len(configs)), used)
    errors = np.abs(expected[rest] / truth[rest] - 1)
    known = np.where(np.isin(np.arange(len(configs)), used), truth, expected)
    per_worker = np.array([known, truth]) * configs.workers
    large = configs.workers == 8
    chosen = int(np.argmin(np.where(large, known, np.inf)))
    twins = np.abs(np.log(times[:, 0] / times[:, -1]))
    print(f"layouts measured {len(configs)}, fitted {len(used)}, rounds differ by {np.median(twins):.1%} in the median")
    print(f"the rest: MAPE {errors.mean():.1%}, median {np.median(errors):.1%} (asked 12 %)")
    best = truth[large].min()
    print(
        f"chosen on 8 nodes: {layouts_of(configs)[chosen]}, {truth[chosen] / best - 1:.1%} above the best (asked 5 %)"
    )
    cheapest = int(np.argmin(per_worker[0]))
    print(f"cheapest of all: {per_worker[1][cheapest] / per_worker[1].min() - 1:.1%} above the best")
    for row in np.argsort(truth):
        mark = "fitted" if row in used else f"{expected[row] / truth[row] - 1:+.1%}"
        print(f"  {truth[row]:.3f} s  {mark:>7}  {layouts_of(configs)[int(row)]}")


def _sample(settings: Settings, config: Config, seconds: float) -> Sample:
    each = seconds * (settings.job.examples or 1) / config.global_batch
    return replace(Sample(config), epoch_seconds=float(each))


if __name__ == "__main__":
    main()
