"""Recordings nearer to the joint paper's set-up: its server and its optimiser, every config trained by its own workers.

    COTUNE_DATA=... python benchmarks/record_published.py --out FOLDER        # about 25 minutes on 16 cores

Workers 1, 2, 4 and 8 x batches 16 to 256 of LeNet-5, with and without batch norm, on the first 10,240 pictures of
MNIST. Seconds: thirty steps on emulated nodes of a quarter of a core, each config three times; a worker's link has
200 Mbit/s and the server's 500, a tenth of the paper's. Accuracy: after every epoch of a whole training by so many
workers at full speed, three seeds. The paper's optimiser is plain SGD at 0.01 times 0.9 an epoch; ours has momentum.

On ten cores of a busy machine 144 starts were timed in 153 s and ten trainings a minute came to their end; nothing is
started after `--seconds`, a whole seed before the next. What FOLDER already holds is not measured again, so that
another call goes on where one ended.

    FOLDER/lenet5-servers       gradients averaged by one parameter server, the paper's optimiser
    FOLDER/lenet5-reduce        the same by all-reduce
    FOLDER/lenet5-norm          all-reduce, batch norm that each worker does for itself
    FOLDER/lenet5-norm-ours     the same with our optimiser
"""

from __future__ import annotations

import argparse
import csv
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from cotune.recording import AccuracyRow, TimeRow, write
from cotune.run.attempt import StopRule, attempt
from cotune.run.engines.local import Local
from cotune.run.launch import Launch
from cotune.types import Config, Job, Sample

EXAMPLES, TEST_EXAMPLES, EPOCHS = 10_240, 2_000, 12
WORKERS, BATCHES, REPEATS, STEPS = (8, 4, 2, 1), (16, 32, 64, 128, 256), 3, 30
SHARE, LINK, SERVER_LINK = 0.25, "200mbit", "500mbit"
BUSY = 0.6  # of the cores, while seconds are measured: messages take some, too
DIGITS = 5


@dataclass(frozen=True)
class Series:
    """One recording: a network, who averages its gradients, and its optimiser."""

    name: str
    model: str
    servers: int
    momentum: float
    decay: float

    def job(self, examples: int, tested: int) -> Job:
        command = (
            f"{sys.executable} -m cotune.workloads.train --model {self.model} --data mnist --limit {examples} "
            f"--test-limit {tested} --batch-size {{batch_size}} --epochs {{epochs}} --lr 0.01 --threads 1 --device cpu "
            f"--momentum {self.momentum} --decay {self.decay} --seed {{seed}}"
        )
        return Job(self.name, tuple(command.split()), examples=examples, scaling="fixed")

    def configs(self, batches: Sequence[int], workers: Sequence[int]) -> list[Config]:
        return [
            Config.data_parallel(batch, count, servers=self.servers)
            for count in sorted(workers, reverse=True)
            for batch in batches
        ]


SERIES = (
    Series("lenet5-servers", "lenet5", 1, 0.0, 0.9),
    Series("lenet5-reduce", "lenet5", 0, 0.0, 0.9),
    Series("lenet5-norm", "lenet5norm", 0, 0.0, 0.9),
    Series("lenet5-norm-ours", "lenet5norm", 0, 0.9, 1.0),
)


@dataclass(frozen=True)
class Start:
    """One start of one config of a series, to be timed for some steps or trained to its end."""

    series: Series
    config: Config
    number: int
    timed: bool


class Room:
    """So many workers at once, each start on an engine that waits for the next of its kind; servers take little."""

    def __init__(self, workers: int, engine: Callable[[Config], Local]) -> None:
        self._free, self._most = workers, workers
        self._changed = threading.Condition()
        self._engine, self._idle, self._all = engine, dict[tuple[int, int], list[Local]](), ExitStack()

    def __enter__(self) -> Room:
        return self

    def __exit__(self, *_: object) -> None:
        self._all.close()

    def enter(self, config: Config) -> Local:
        """Wait until the config has room, and return its engine."""
        with self._changed:
            self._changed.wait_for(lambda: self._free >= min(config.workers, self._most))
            self._free -= min(config.workers, self._most)
            idle = self._idle.setdefault((config.workers, config.servers), [])
            if idle:
                return idle.pop()
            engine = self._engine(config)
            self._all.callback(engine.close)
            return engine

    def leave(self, config: Config, engine: Local) -> None:
        """Give room and engine back."""
        with self._changed:
            self._idle[config.workers, config.servers].append(engine)
            self._free += min(config.workers, self._most)
            self._changed.notify_all()


@dataclass(frozen=True)
class Amount:
    """How much is measured: examples of an epoch, pictures tested on, epochs of a training."""

    examples: int
    tested: int
    epochs: int

    def sample(self, start: Start, engine: Local, folder: Path) -> Sample:
        """Return what one start measures."""
        config, job = start.config, start.series.job(self.examples, 10 if start.timed else self.tested)
        wanted = STEPS * config.global_batch / self.examples
        launch = Launch(
            f"{job.name}-{config.workers}-{config.batch_size}-{start.number}-{'timed' if start.timed else 'trained'}",
            job,
            config,
            int(wanted) + 2 if start.timed else self.epochs,
            folder,
            seed=start.number,
        )
        until = StopRule(epochs=wanted if start.timed else None, timeout=400.0)
        *_, last = attempt(engine, launch, until, Sample(config, seed=start.number))
        return last


def emulated(config: Config) -> Local:
    """Return nodes like the paper's servers, ten times slower links between them."""
    links = [LINK] * config.workers + [SERVER_LINK] * config.servers
    return Local(nodes=config.units, cores=SHARE, link=links)


def measured(starts: Sequence[Start], room: Room, amount: Amount, until: float) -> dict[Start, Sample]:
    """Return the samples of all starts that began in time and went well; say of the others why not."""
    done: dict[Start, Sample] = {}

    def one(start: Start, engine: Local, folder: Path) -> None:
        try:
            sample = amount.sample(start, engine, folder)
        finally:
            room.leave(start.config, engine)
        if sample.failed or sample.epoch_seconds is None:
            print(f"{start.series.name} {start.config}: {sample.failure}", file=sys.stderr, flush=True)
        else:
            done[start] = sample

    futures: list[Future[None]] = []
    with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor(64) as pool:
        for number, start in enumerate(starts):
            engine = room.enter(start.config)
            if time.monotonic() > until:
                room.leave(start.config, engine)
                print(f"no time for {len(starts) - number} of {len(starts)} starts", file=sys.stderr, flush=True)
                break
            folder = Path(scratch) / str(number)
            folder.mkdir()
            futures.append(pool.submit(one, start, engine, folder))
    for future in futures:
        future.result()
    return done


def recorded(folder: Path) -> tuple[list[TimeRow], list[AccuracyRow]]:
    """Return both tables as an earlier call has left them."""

    def table(name: str) -> list[dict[str, str]]:
        path = folder / name
        return list(csv.DictReader(path.read_text().splitlines())) if path.exists() else []

    times = [
        TimeRow(
            int(row["workers"]),
            int(row["batch_size"]),
            float(row["epoch_seconds"]),
            "node",
            repeat=row["repeat"],
            servers=int(row.get("servers", 0)),
        )
        for row in table("epoch_time.csv")
    ]
    points = [
        AccuracyRow(
            int(row["global_batch"]), float(row["epoch"]), float(row["accuracy"]), row["seed"], int(row["workers"])
        )
        for row in table("accuracy.csv")
    ]
    return times, points


def rows(
    series: Series, timed: dict[Start, Sample], trained: dict[Start, Sample]
) -> tuple[list[TimeRow], list[AccuracyRow]]:
    """Return both tables of a series; seconds are those of any series with its network and servers."""
    times = [
        TimeRow(
            start.config.workers,
            start.config.batch_size,
            float(f"{sample.epoch_seconds:.{DIGITS}g}"),
            "node",
            repeat=str(start.number),
            servers=series.servers,
        )
        for start, sample in timed.items()
        if (start.series.model, start.series.servers) == (series.model, series.servers)
    ]
    curves = [
        AccuracyRow(start.config.global_batch, point.epoch, point.accuracy, str(start.number), start.config.workers)
        for start, sample in trained.items()
        if start.series == series
        for point in sample.curve
    ]
    return times, curves


def main() -> None:
    """Measure all of it and write the recordings."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--series", nargs="+", choices=[series.name for series in SERIES])
    parser.add_argument("--workers", type=int, nargs="+", default=WORKERS)
    parser.add_argument("--batches", type=int, nargs="+", default=BATCHES)
    parser.add_argument("--repeats", type=int, default=REPEATS)
    parser.add_argument("--examples", type=int, default=EXAMPLES)
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--seconds", type=float, default=1800.0, help="nothing is started after so long")
    asked = parser.parse_args()
    amount = Amount(asked.examples, TEST_EXAMPLES, asked.epochs)
    chosen = [series for series in SERIES if not asked.series or series.name in asked.series]
    alike = {(series.model, series.servers): series for series in reversed(chosen)}
    until, cores = time.monotonic() + asked.seconds, len(os.sched_getaffinity(0))

    before = {series: recorded(asked.out / series.name) for series in chosen}

    def missing(of: Sequence[Series], number: int, timed: bool) -> list[Start]:
        """Return the starts of a repeat or seed that no earlier call has brought to their end."""
        return [
            Start(series, config, number, timed)
            for series in of
            for config in series.configs(asked.batches, asked.workers)
            if not held(before[series], config, str(number), timed)
        ]

    began = time.monotonic()
    numbers = range(1, asked.repeats + 1)
    with Room(max(2, int(BUSY * cores / SHARE)), emulated) as room:
        wanted = [start for number in numbers for start in missing(list(alike.values()), number, timed=True)]
        timed = measured(wanted, room, amount, until)
    print(f"{len(timed)} starts timed in {time.monotonic() - began:.0f} s", flush=True)
    trained: dict[Start, Sample] = {}
    with Room(cores, lambda _: Local()) as room:
        for number in numbers:
            trained |= measured(missing(chosen, number, timed=False), room, amount, until)
            print(f"{len(trained)} trainings, all in {time.monotonic() - began:.0f} s", flush=True)
            for series in chosen:
                old, new = before[series], rows(series, timed, trained)
                times, curves = sorted([*old[0], *new[0]], key=_order), sorted([*old[1], *new[1]], key=_order)
                job = Job(series.name, examples=asked.examples, scaling="fixed")
                write(asked.out / series.name, job, times, curves)


def held(tables: tuple[list[TimeRow], list[AccuracyRow]], config: Config, number: str, timed: bool) -> bool:
    """Return whether a start's measurement is in the tables."""
    times, points = tables
    if timed:
        return any(
            (row.workers, row.batch_size, row.repeat) == (config.workers, config.batch_size, number) for row in times
        )
    wanted = (config.workers, config.global_batch, number)
    return any((row.workers, row.global_batch, row.seed) == wanted for row in points)


def _order(row: TimeRow | AccuracyRow) -> tuple[int, int, str, float]:
    if isinstance(row, TimeRow):
        return row.workers, row.batch_size, row.repeat, 0.0
    return row.workers or 0, row.global_batch, row.seed, row.epoch


if __name__ == "__main__":
    main()
