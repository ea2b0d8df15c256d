"""Layouts measured for real on emulated nodes: some fit the law, it predicts the rest and chooses.

    python benchmarks/live_layouts.py                      # 24 layouts of 8 nodes of 0.2 cores, about 10 minutes
    python benchmarks/live_layouts.py --layouts 8 --fit 4 --steps 8
    python benchmarks/live_layouts.py --times times.json   # keep the times, or judge kept ones again

Nodes stand in two machines: 2 Gbit/s a core from node to node, 0.5 shared from machine to machine. The decoder has 4
layers of width 64. Layouts are drawn from all that are right on 8 workers (and some on 4); of them the law chooses
those to fit, one after another, as `cotune profile` does. It wants a machine that nobody else uses: each layout is
measured in two rounds, and how far these differ is told beside the errors. On a busy machine a smaller share of a
core, which takes as much longer, is nearer to the truth.
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
JOB = """
run: >-
  python -m cotune.modelling.decoder.train --model config.json --sequence 32 --steps {steps} --micro-batch {micro_batch}
  --accumulate {accumulate} --tp {tp} --pp {pp} --shard {shard} --recompute {recompute} --threads 1 --device cpu
  --every 1000
model: config.json
layout: auto
sequence: 32
global_batch: 16
length: 1000000 tokens
search: {workers: [4, 8], micro_batch: [1, 2, 4, 8]}
devices: {cpu: {count: 8, per_node: 4}}
"""
ROUNDS = 2


def main() -> None:
    """Measure, fit, predict, choose."""
    parser = argparse.ArgumentParser(description="Predict layouts that were measured on emulated nodes.")
    parser.add_argument("--layouts", type=int, default=24)
    parser.add_argument("--fit", type=int, default=8)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--cores", type=float, default=0.2, help="share of a core that a node has")
    parser.add_argument("--times", type=Path, help="a file of seconds a step, written if it is not there")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "config.json").write_text(json.dumps(SHAPE))
        settings = job_settings.loads(JOB.replace("python", sys.executable, 1), {}, "the benchmark", Path(folder))
        configs = drawn(settings, asked.layouts)
        if asked.times and asked.times.exists():
            times = np.array(json.loads(asked.times.read_text()))
        else:
            times = measured(settings, configs, asked.steps, asked.cores)
            if asked.times:
                asked.times.write_text(json.dumps(times.tolist()))
        judge(settings, Configs.of(configs), times, asked.fit)


def drawn(settings: Settings, count: int) -> list[Config]:
    """Return layouts to measure: a random few, most of them on all nodes."""
    everything = list(settings.space.configs())
    random.Random(1).shuffle(everything)
    large = [config for config in everything if config.workers == 8]
    small = [config for config in everything if config.workers == 4]
    return [*large[: count - count // 4], *small[: count // 4]]


def measured(settings: Settings, configs: list[Config], steps: int, cores: float) -> Floats:
    """Return seconds a step of every layout in every round, (layouts, rounds); what failed is not a number."""
    times = np.full((len(configs), ROUNDS), np.nan)
    folder = Path(settings.job.folder)
    engine = Local(nodes=8, cores=cores, link=2e9 * cores, per_machine=4, trunk=0.5e9 * cores)
    try:
        for turn in range(ROUNDS):
            for place, config in enumerate(configs):
                name = f"{turn}-{place}"
                launch = Launch(name, settings.job, config, settings.goal.cap, folder / name)
                until = StopRule(epochs=steps * config.global_batch / (settings.job.examples or 1), grace=5.0)
                *_, sample = attempt(engine, launch, until, Sample(config))
                seconds = sample.epoch_seconds
                if seconds is not None:
                    times[place, turn] = seconds * config.global_batch / (settings.job.examples or 1)
                print(
                    f"{layouts_of(Configs.of([config]))[0]}: {times[place, turn]:.3f} s {sample.failure or ''}",
                    flush=True,
                )
    finally:
        engine.close()
    return times


def judge(settings: Settings, configs: Configs, times: Floats, fit: int) -> None:
    """Print how well the rest is predicted from a few, and how good the layout is that is chosen."""
    ran = np.flatnonzero(np.isfinite(times).all(axis=1))
    configs, times = configs.take(ran), times[ran]
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
