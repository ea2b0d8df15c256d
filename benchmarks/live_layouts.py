"""Layouts measured for real on emulated nodes: some fit the law, it predicts the rest and chooses.

    python benchmarks/live_layouts.py                      # 24 layouts of 8 nodes of 0.2 cores, one after another
    python benchmarks/live_layouts.py --at-once 4 --seconds 480 --times times.json   # on 16 cores; keeps the times
    python benchmarks/live_layouts.py --times recordings/layouts-nodes-small.json   # judge kept ones again
    python benchmarks/live_layouts.py --setting deeper --times deeper.json   # another decoder, network and draw
    python benchmarks/live_layouts.py --layouts 8 --fit 4 --steps 8
    python benchmarks/live_layouts.py --gpu-slices --setting deeper --rounds 1 --times FILE   # on slices of a GPU

Nodes stand in two machines: 2 Gbit/s a core from node to node, 0.5 shared from machine to machine. The decoder has 4
layers of width 64; `--setting deeper` has 8 of width 48 and 0.2 Gbit/s from machine to machine, `wider` 6 of width 96
and 1 from node to node, 0.3 from machine to machine; `fresh` no prior was made of; on slices of a GPU they are larger,
and exchange tensors in the host's memory. Layouts are drawn from all that are right on 8 workers (and some on 4); of
them the law chooses those to fit, one after another, as `cotune profile` does. It wants a machine that nobody else
uses: each layout is measured in two rounds, and how far these differ is told beside the errors. On a busy machine a
smaller share of a core, which takes as much longer, is nearer to the truth. `--at-once` has as many layouts measured
side by side, each on nodes and links of its own; eight nodes of 0.2 cores want two cores. `--seconds` is when to stop
measuring; what was measured by then is written after every layout, and judged. A run that was cut is judged by the same
command: layouts that are in the file are not measured again.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import numpy as np

from cotune.jobfile import settings as job_settings
from cotune.jobfile.settings import Settings
from cotune.modelling.layout_jobs import LayoutLaw, layouts_of, setting_of
from cotune.modelling.layouts.layout import LayoutRows
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
ON_SLICES = {  # of the settings' names
    "small": LARGER,
    "deeper": LARGER | {"num_hidden_layers": 16, "hidden_size": 384, "intermediate_size": 1024, "vocab_size": 4096},
    "fresh": LARGER
    | {
        "num_hidden_layers": 12,
        "hidden_size": 640,
        "num_attention_heads": 8,
        "num_key_value_heads": 8,
        "intermediate_size": 1728,
        "vocab_size": 4096,
    },
    "wider": LARGER | {"num_hidden_layers": 8, "hidden_size": 768, "intermediate_size": 2048, "vocab_size": 4096},
}
EXAMPLE = Path(__file__).parents[1] / "examples" / "decoder"
JOB = """
run: >-
  PYTHON EXAMPLE/train.py --model config.json --sequence SEQUENCE --steps {steps}
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


@dataclass(frozen=True)
class Setting:
    """A decoder, the bits a second of links for each core of a node, and the draw of its layouts."""

    shape: dict[str, object]
    link: float
    trunk: float
    seed: int


SETTINGS = {
    "small": Setting(SHAPE, 2e9, 0.5e9, 1),
    "deeper": Setting(SHAPE | {"num_hidden_layers": 8, "hidden_size": 48, "intermediate_size": 128}, 2e9, 0.2e9, 2),
    "fresh": Setting(SHAPE | {"num_hidden_layers": 6, "hidden_size": 80, "intermediate_size": 216}, 1.5e9, 0.3e9, 4),
    "wider": Setting(SHAPE | {"num_hidden_layers": 6, "hidden_size": 96, "intermediate_size": 256}, 1e9, 0.3e9, 3),
}
SLICE = "slice"  # a device that no table has
MOST = 120.0  # seconds of one start: some hang where a backend lacks what they need
TRIES = 2  # failures of pipelines, or of tensor groups, after which no more of them are tried


def main() -> None:
    """Measure, fit, predict, choose."""
    parser = argparse.ArgumentParser(description="Predict layouts that were measured on emulated nodes.")
    parser.add_argument("--layouts", type=int, default=24)
    parser.add_argument("--fit", type=int, default=8)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=2, help="starts of each layout")
    parser.add_argument("--cores", type=float, default=0.2, help="share of a core that a node has")
    parser.add_argument("--gpu-slices", action="store_true", help="eight slices of a GPU instead of emulated nodes")
    parser.add_argument("--setting", choices=SETTINGS, default="small", help="decoder, network and draw of layouts")
    parser.add_argument("--at-once", type=int, default=1, help="layouts measured side by side")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="measure no further layout after these")
    parser.add_argument("--times", type=Path, help="a file of seconds a step, written if it is not there")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        setting = SETTINGS[asked.setting]
        settings = settings_of(
            ON_SLICES[asked.setting] if asked.gpu_slices else setting.shape, Path(folder), gpu=asked.gpu_slices
        )
        everything = drawn(settings, seed=setting.seed)
        if asked.times and asked.times.exists():
            rows = json.loads(asked.times.read_text())
        else:
            kept: list[tuple[int, tuple[float, ...]]] = []
            for one in measured(settings, everything, asked):
                kept = sorted([*kept, one])
                rows = [as_row(everything[place], times) for place, times in kept]
                if asked.times:
                    keep(asked.times, rows)
        configs, times = measured_rows(rows[: asked.layouts], settings)
        judge(settings, configs, times, asked.fit)


def settings_of(shape: dict[str, object], folder: Path, *, gpu: bool) -> Settings:
    """Return the job of a decoder, its files in a folder."""
    (folder / "config.json").write_text(json.dumps(shape))
    return job_settings.loads(job_file(gpu=gpu), {}, "the benchmark", folder)


def layout_rows(shape: dict[str, object], file: Path, *, gpu: bool) -> LayoutRows:
    """Return the layouts of a file as rows of a table, the mean of the rounds as their seconds."""
    with tempfile.TemporaryDirectory() as folder:
        settings = settings_of(shape, Path(folder), gpu=gpu)
        configs, times = measured_rows(json.loads(file.read_text()), settings)
        assert settings.job.large is not None
        setting = setting_of(settings.job.large, SLICE if gpu else "cpu")
    seconds = np.exp(np.log(times).mean(axis=1))
    return LayoutRows(setting, layouts_of(configs), seconds, np.full(len(configs), np.nan))


Row = dict[str, Any]  # a layout's axes, and the seconds of a step in each round


def as_row(config: Config, times: tuple[float, ...]) -> Row:
    """Return a measured layout as its file has it."""
    axes = {"micro_batch": config.batch_size, "accumulate": config.accumulate, **dict(config.axes)}
    return {"workers": config.workers, **axes, "seconds": [round(seconds, 4) for seconds in times]}


def measured_rows(rows: list[Row], settings: Settings) -> tuple[Configs, Floats]:
    """Return the layouts of a file, and their seconds of a step in every round."""
    by_axes = {_axes(as_row(config, ())): config for config in settings.space.configs()}
    return Configs.of([by_axes[_axes(row)] for row in rows]), np.array([row["seconds"] for row in rows])


def _axes(row: Row) -> tuple[tuple[str, Any], ...]:
    return tuple(sorted((name, value) for name, value in row.items() if name != "seconds"))


def keep(times: Path, rows: list[Row]) -> None:
    """Write what was measured, whole or not at all: a run may be cut at any moment."""
    beside = times.with_suffix(".new")
    beside.write_text("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n")
    beside.replace(times)


def job_file(*, gpu: bool) -> str:
    """Return the job file, on cores or on slices of a GPU."""
    words = {
        "PYTHON": sys.executable,
        "EXAMPLE": str(EXAMPLE),
        "SEQUENCE": "256" if gpu else "32",
        "DEVICE": "cuda" if gpu else "cpu",
    }
    words |= {"KIND": SLICE if gpu else "cpu", "NODE": "8" if gpu else "4"}
    text = JOB
    for word, value in words.items():
        text = text.replace(word, value)
    return text


def drawn(settings: Settings, seed: int) -> list[Config]:
    """Return all layouts in a random order, three of all workers to one of fewer."""
    everything = list(settings.space.configs())
    random.Random(seed).shuffle(everything)
    large = [config for config in everything if config.workers == 8]
    small = [config for config in everything if config.workers == 4]
    fours = zip(large[::3], large[1::3], large[2::3], small, strict=False)
    return [config for four in fours for config in four]


Times = tuple[float | None, ...]


def measured(
    settings: Settings, everything: list[Config], asked: argparse.Namespace
) -> Iterator[tuple[int, tuple[float, ...]]]:
    """Yield seconds a step, in every round, of the first layouts that run, each with its place among all."""
    until = time.monotonic() + asked.seconds
    failed = {"pp": 0, "tp": 0}
    engines: SimpleQueue[Local] = SimpleQueue()

    def rounds(place: int) -> Times:
        if time.monotonic() > until:
            return (None,)
        engine = engines.get()
        try:
            names = [f"{turn}-{place}" for turn in range(asked.rounds)]
            return tuple(timed(engine, settings, everything[place], name, asked.steps) for name in names)
        finally:
            engines.put(engine)

    with ExitStack() as stack:
        for _ in range(asked.at_once):
            engines.put(stack.enter_context(closing(_engine(asked))))
        pool = stack.enter_context(ThreadPoolExecutor(asked.at_once))
        places, count = iter(range(len(everything))), 0
        while count < asked.layouts and time.monotonic() < until:
            wave = _next(places, everything, failed, 1 if asked.at_once == 1 else asked.layouts - count)
            if not wave:
                return
            tasks = {pool.submit(rounds, place): place for place in wave}
            for task in as_completed(tasks):
                place, times = tasks[task], task.result()
                ran = tuple(time for time in times if time is not None)
                if len(ran) == asked.rounds:
                    count += 1
                    yield place, ran
                elif len(spread_over := _spread_over(everything[place])) == 1:
                    failed[spread_over[0]] += 1


def _engine(asked: argparse.Namespace) -> Local:
    if asked.gpu_slices:
        return Local(gpu_slices=8)
    cores, setting = asked.cores, SETTINGS[asked.setting]
    return Local(nodes=8, cores=cores, link=setting.link * cores, per_machine=4, trunk=setting.trunk * cores)


def _spread_over(config: Config) -> list[str]:
    axes = dict(config.axes)
    return [name for name in ("pp", "tp") if int(axes.get(name, 1)) > 1]


def _next(places: Iterator[int], everything: list[Config], failed: dict[str, int], count: int) -> list[int]:
    """Return the next places to try, without those of a kind that failed too often."""
    found: list[int] = []
    for place in places:
        if all(failed[name] < TRIES for name in _spread_over(everything[place])):
            found.append(place)
        if len(found) == count:
            break
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
    if len(times) <= fit:
        sys.exit(f"{len(times)} layouts were measured; to fit {fit} and predict others takes more")
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
