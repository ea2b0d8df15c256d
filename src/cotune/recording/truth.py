"""A recording and the rules by which it is replayed.

1. The space is recorded worker counts x recorded batch sizes, as far as the truth is
   defined there.
2. Seconds per epoch at a recorded worker count: log t is linear in log b between the two
   neighbouring recorded batches. At another worker count: log t is linear in log w between
   the two neighbouring recorded counts, both of which must cover that batch.
3. Accuracy at the end of a whole epoch: linear in the epoch on each curve, linear in the
   logarithm of the global batch between the two neighbouring curves; unknown before the
   first or after the last point of either curve. As recorded, not best so far.
4. A run stops at the first whole epoch that meets the target and costs up to there.
5. A probe costs  workers x epoch_seconds x max(its epochs, 30 x global_batch / examples).
6. A run may move to another config: `moving.py` says where it lands and what that costs.

Several repeats or seeds: a probe draws one of them, the truth is the median of the
repeats and all of the seeds. Where rows tell nodes, the fewest nodes count.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TypeVar

import numpy as np

from cotune.errors import InvalidFile
from cotune.space import Axis, Configs, Space
from cotune.types import Axes, Cluster, Config, Floats, Ints, Job, Value

PROBE_STEPS = 30
MOST_CONFIGS = 5_000_000
USUAL: Mapping[str, object] = {"accumulate": 1, "servers": 0}  # columns that are left out where all rows have these

_Kind = TypeVar("_Kind")
Layout = tuple[str, int, int, Axes]  # device, accumulate, servers, named axes
Cells = Mapping[int, Mapping[int, tuple[float, ...]]]  # workers -> batch size -> repeats
Curves = Mapping[int, tuple["RecordedCurve", ...]]  # global batch -> seeds
OfRepeats = Callable[[tuple[float, ...]], float]  # the seconds that count of several repeats
RecipeKey = tuple[int | None, int]  # workers where the recording tells them, global batch


@dataclass(frozen=True, slots=True)
class RecordedCurve:
    """Accuracy over epochs as recorded in one run."""

    epochs: tuple[float, ...]
    accuracy: tuple[float, ...]

    def at_whole_epochs(self, last: int) -> Floats:
        """Return the accuracy after epochs 1, 2, ..., last; nan where it is unknown."""
        wanted = np.arange(1, last + 1, dtype=np.float64)
        return np.interp(wanted, self.epochs, self.accuracy, left=np.nan, right=np.nan)


@dataclass(frozen=True)
class Recording:
    """Measured truth of one job: seconds per epoch, learning curves, or both."""

    job: Job
    cluster: Cluster
    times: Mapping[Layout, Cells]
    curves: Mapping[int | None, Curves]  # by workers where the recording tells them, else None
    restart_seconds: float | None = None  # of a run that moves to another config, where it is told

    @property
    def name(self) -> str:
        return self.job.name

    @property
    def examples(self) -> int:
        assert self.job.examples is not None  # the reader asks for it
        return self.job.examples

    @cached_property
    def last_epoch(self) -> int:
        """Return the last whole epoch that any curve tells of."""
        ends = [curve.epochs[-1] for seeds in self.all_curves for curve in seeds]
        return int(max(ends, default=0.0))

    @property
    def all_curves(self) -> list[tuple[RecordedCurve, ...]]:
        """Return the seeds of every recipe that was recorded."""
        return [seeds for curves in self.curves.values() for seeds in curves.values()]

    def space(self, *, with_accuracy: bool) -> Space:
        """Return what may be chosen: where seconds (and accuracy, if asked for) are defined."""
        every = self._product()
        defined = np.isfinite(self.epoch_seconds(every))
        if with_accuracy:
            keys = self._recipe_keys(every)
            known = {key for key in set(keys) if self._neighbours(key)}
            defined &= np.array([key in known for key in keys], dtype=bool)
        return _listed(every.take(defined))

    def epoch_seconds(self, configs: Configs) -> Floats:
        """Return the true seconds per epoch of each config; nan where the truth is not defined."""
        return self._seconds(configs, lambda repeats: float(np.median(repeats)))

    def epoch_seconds_by_start(self, configs: Configs) -> Floats:
        """Return the seconds per epoch of each config (columns) in every start (rows) that was recorded."""
        most = max(self._repeats.values(), default=1)
        return np.array([self._seconds(configs, partial(_at_turn, start)) for start in range(most)])

    def _seconds(self, configs: Configs, of_repeats: OfRepeats) -> Floats:
        found = np.full(len(configs), np.nan)
        layouts = np.array([self._order.get(layout, -1) for layout in _layouts(configs)], dtype=np.int64)
        for place, cells in enumerate(self.times.values()):
            rows = np.flatnonzero(layouts == place)
            if len(rows):
                found[rows] = _interpolated(cells, of_repeats, configs.workers[rows], configs.batch_size[rows])
        return found

    def draw_epoch_seconds(self, config: Config, rng: np.random.Generator) -> float | None:
        """Return the seconds per epoch that one probe sees, or None where the truth is not defined."""
        layout = _layout(config)
        if layout not in self.times:
            return None
        repeat = int(rng.integers(self._repeats[layout]))
        key = (config, repeat)
        if key not in self._drawn:
            column = np.array([config.workers]), np.array([config.batch_size])
            self._drawn[key] = float(_interpolated(self.times[layout], partial(_at_turn, repeat), *column)[0])
        seconds = self._drawn[key]
        return seconds if np.isfinite(seconds) else None

    @cached_property
    def _repeats(self) -> dict[Layout, int]:
        """Return the most repeats that any config of a layout has."""
        return {
            layout: max(len(repeats) for by in cells.values() for repeats in by.values())
            for layout, cells in self.times.items()
        }

    @cached_property
    def _drawn(self) -> dict[tuple[Config, int], float]:
        return {}

    def accuracy(self, config: Config) -> Floats | None:
        """Return the accuracy after whole epochs 1, 2, ... (columns) in every seed (rows); None where undefined."""
        return self._accuracy_of((config.workers if config.workers in self.curves else None, config.global_batch))

    def draw_accuracy(self, config: Config, rng: np.random.Generator) -> Floats | None:
        """Return the curve that one probe follows, or None where accuracy is not defined."""
        seeds = self.accuracy(config)
        return None if seeds is None else np.asarray(seeds[int(rng.integers(len(seeds)))])

    def halves(self) -> tuple[Recording, Recording]:
        """Return two recordings of different repeats and seeds, wherever there are several."""
        return self._part(lambda count: range(0, count, 2)), self._part(lambda count: range(1, count, 2))

    @property
    def fewest_seeds(self) -> int:
        """Return how many runs every recipe has at least."""
        return min((len(seeds) for seeds in self.all_curves), default=0)

    def apart(self, seed: int) -> tuple[Recording, Recording]:
        """Return a recording of one run of each recipe and one start of each config, and one of all others."""
        job = replace(self.job, seeds=1)  # whoever measures does not know of the others
        shown = self._part(lambda count: [seed % count])
        others = self._part(lambda count: [place for place in range(count) if place != seed % count])
        return replace(shown, job=job), replace(others, job=job)

    def _part(self, places: Callable[[int], Sequence[int]]) -> Recording:
        """Return a recording of the repeats and seeds at some places of so many; the only one where there are none."""
        times = {
            layout: {w: {b: _at(repeats, places) for b, repeats in by.items()} for w, by in cells.items()}
            for layout, cells in self.times.items()
        }
        curves = {
            workers: {batch: _at(seeds, places) for batch, seeds in by.items()} for workers, by in self.curves.items()
        }
        return replace(self, times=times, curves=curves)

    @cached_property
    def _order(self) -> Mapping[Layout, int]:
        return {layout: place for place, layout in enumerate(self.times)}

    def _product(self) -> Configs:
        """Return every recorded worker count x every recorded batch size, for each layout."""
        rows: list[tuple[Layout, int, int]] = []
        for layout, cells in self.times.items():
            batches = sorted({batch for by in cells.values() for batch in by})
            if len(rows) + len(cells) * len(batches) > MOST_CONFIGS:
                raise InvalidFile(
                    f"recording {self.name}: more than {MOST_CONFIGS:,} configs; record fewer batch sizes"
                )
            rows += [(layout, w, b) for w, b in itertools.product(sorted(cells), batches)]
        return _columns(rows)

    def _recipe_keys(self, configs: Configs) -> list[RecipeKey]:
        return [
            (int(w) if int(w) in self.curves else None, int(g))
            for w, g in zip(configs.workers, configs.global_batch, strict=True)
        ]

    def _neighbours(self, key: RecipeKey) -> tuple[int, int] | None:
        """Return the recorded global batches on both sides of one (twice itself when recorded)."""
        workers, batch = key
        recorded = sorted(self.curves.get(workers, {}))
        if not recorded or not recorded[0] <= batch <= recorded[-1]:
            return None
        above = int(np.searchsorted(recorded, batch))
        return (batch, batch) if recorded[above] == batch else (recorded[above - 1], recorded[above])

    @cached_property
    def _known_curves(self) -> dict[RecipeKey, Floats | None]:
        return {}

    def _accuracy_of(self, key: RecipeKey) -> Floats | None:
        if key not in self._known_curves:
            self._known_curves[key] = self._between(key)
        return self._known_curves[key]

    def _between(self, key: RecipeKey) -> Floats | None:
        workers, batch = key
        around = self._neighbours(key)
        if around is None:
            return None
        below, above = around
        if below == above:
            return np.array([curve.at_whole_epochs(self.last_epoch) for curve in self.curves[workers][batch]])
        low, high = self._accuracy_of((workers, below)), self._accuracy_of((workers, above))
        assert low is not None
        assert high is not None
        share = np.log(batch / below) / np.log(above / below)
        most = max(len(low), len(high))
        return np.asarray((1 - share) * low[np.arange(most) % len(low)] + share * high[np.arange(most) % len(high)])


def least_epochs(config: Config, examples: int) -> float:
    """Return the epochs that even the shortest probe pays for."""
    return PROBE_STEPS * config.global_batch / examples


def first_meeting(curves: Floats, level: float) -> Floats:
    """Return for each curve (rows) the first whole epoch at or above a level, infinite where there is none."""
    with np.errstate(invalid="ignore"):
        meets = curves >= level
    return np.where(meets.any(axis=1), meets.argmax(axis=1) + 1.0, np.inf)


def _interpolated(cells: Cells, of_repeats: OfRepeats, workers: Ints, batches: Ints) -> Floats:
    """Return exp of log seconds interpolated by rule 2; nan where it is not defined."""
    counts = np.array(sorted(cells), dtype=np.int64)
    logs = np.log(np.maximum(batches, 1).astype(np.float64))
    found = np.full(len(workers), np.nan)

    def at(count: int, rows: Ints) -> Floats:
        recorded = sorted(cells[count])
        xs, ys = np.log(recorded), np.log([of_repeats(cells[count][batch]) for batch in recorded])
        inside = (batches[rows] >= recorded[0]) & (batches[rows] <= recorded[-1])
        return np.where(inside, np.interp(logs[rows], xs, ys), np.nan)

    for count in np.unique(workers):
        rows = np.flatnonzero(workers == count)
        place = int(np.searchsorted(counts, count))
        if place < len(counts) and counts[place] == count:
            found[rows] = at(int(count), rows)
        elif 0 < place < len(counts):
            low, high = int(counts[place - 1]), int(counts[place])
            share = np.log(count / low) / np.log(high / low)
            found[rows] = (1 - share) * at(low, rows) + share * at(high, rows)
    return np.asarray(np.exp(found))


def _at_turn(start: int, repeats: tuple[float, ...]) -> float:
    return repeats[start % len(repeats)]


def _at(values: tuple[_Kind, ...], places: Callable[[int], Sequence[int]]) -> tuple[_Kind, ...]:
    return tuple(values[place] for place in places(len(values))) or values


def _layout(config: Config) -> Layout:
    return config.device, config.accumulate, config.servers, config.axes


def _layouts(configs: Configs) -> list[Layout]:
    if not configs.named:
        return [
            (str(device), int(accumulate), int(servers), ())
            for device, accumulate, servers in zip(configs.device, configs.accumulate, configs.servers, strict=True)
        ]
    return [_layout(config) for config in configs]


def _columns(rows: Sequence[tuple[Layout, int, int]]) -> Configs:
    names = sorted({name for (_, _, _, axes), _, _ in rows for name, _ in axes})
    numbers = np.array([(workers, batch, *layout[1:3]) for layout, workers, batch in rows], dtype=np.int64)
    workers, batches, accumulate, servers = numbers.reshape(-1, 4).T
    columns: dict[str, np.ndarray] = {
        "workers": workers,
        "batch_size": batches,
        "device": np.array([layout[0] for layout, _, _ in rows], dtype=object),
        "accumulate": accumulate,
        "servers": servers,
    }
    for name in names:
        values = np.empty(len(rows), dtype=object)
        values[:] = [dict(layout[3]).get(name, "") for layout, _, _ in rows]
        columns[name] = values
    return Configs(columns, len(rows))


def _listed(configs: Configs) -> Space:
    """Return the space of exactly these configs: only the axes that differ, and the device."""
    axes, points = [], []
    for name, column in configs.columns.items():
        values: list[Value] = sorted(set(column.tolist()), key=lambda value: (str(type(value)), value))
        if values == [USUAL.get(name)]:
            continue
        places = {value: place for place, value in enumerate(values)}
        axes.append(Axis(name, tuple(values)))
        points.append([places[value] for value in column.tolist()])
    return Space(tuple(axes), only=tuple(sorted(zip(*points, strict=True))))
