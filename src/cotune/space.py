"""What may be chosen: axes with their values, and many configs at once as columns.

A `Space` is a product of axes, or the part of it that can be had; a point is one index
per axis. `Configs` holds the same columns for many configs, so that a hundred thousand of
them are predicted in one numpy expression; its rows are ordinary `Config` records.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from cotune.errors import UsageError
from cotune.types import ASYNCHRONOUS, MODEL_PARALLEL, Config, Floats, Goal, Ints, Mask, Value, axes_of

LAYOUT = ("workers", "batch_size", "accumulate", "servers", "device")
SHARDING = ("fsdp", "shards", "tensor", "pipeline", "zero", "tp")  # named axes that cut a model into so many parts


@dataclass(frozen=True, slots=True)
class Axis:
    """A named choice among some values."""

    name: str
    values: tuple[Value, ...]


@dataclass(frozen=True)
class Space:
    """The product of some axes; with `global_batch` fixed the batch per worker follows from it.

    `only` lists the points there are when they are not all of the product.
    """

    axes: tuple[Axis, ...]
    global_batch: int | None = None
    only: tuple[tuple[int, ...], ...] | None = None

    def needs_accuracy(self, goal: Goal) -> bool:
        """Return whether planning for a goal takes a forecast of accuracy: it asks for one, and recipes differ.

        With the global batch fixed the recipe is the user's, who answers for what it learns.
        """
        return self.global_batch is None and (goal.target is not None or goal.prefer == "accurate")

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(len(axis.values) for axis in self.axes)

    def __len__(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64)) if self.only is None else len(self.only)

    @cached_property
    def points(self) -> Ints:
        """Return every point, one row of indices each, in rising order."""
        if self.only is not None:
            return np.array(sorted(self.only), dtype=np.int64).reshape(-1, len(self.axes))
        grids = np.indices(self.shape, dtype=np.int64)
        return grids.reshape(len(self.axes), -1).T

    @cached_property
    def _all(self) -> Configs:
        return self.configs(self.points)

    @cached_property
    def _codes(self) -> Ints:
        return np.asarray(np.ravel_multi_index(tuple(self.points.T), self.shape), dtype=np.int64)

    def rows(self, points: Ints) -> Ints:
        """Return the place of each point among `points`, or -1 where the space does not have it."""
        codes = np.asarray(np.ravel_multi_index(tuple(points.T), self.shape), dtype=np.int64)
        if self.only is None:
            return codes
        places = np.minimum(np.searchsorted(self._codes, codes), len(self._codes) - 1)
        return np.where(self._codes[places] == codes, places, -1)

    def row(self, config: Config) -> int | None:
        """Return the place of a config among `points`, or None when it lies outside the space."""
        values: dict[str, Value] = {name: getattr(config, name) for name in LAYOUT} | dict(config.axes)
        chosen = {axis.name: values.get(axis.name) for axis in self.axes}
        inside = all(chosen[axis.name] in axis.values for axis in self.axes)
        if not inside or self.global_batch not in (None, config.global_batch):
            return None
        point = tuple(axis.values.index(values[axis.name]) for axis in self.axes)
        one = np.array([point], dtype=np.int64)
        row = int(self.rows(one)[0])
        return row if row >= 0 and self.configs(one)[0] == config else None

    def pinned(self, **values: Collection[Value]) -> Space:
        """Return the part of the space where the named axes take one of these values."""
        points = self.points
        kept = np.ones(len(points), dtype=bool)
        for place, axis in enumerate(self.axes):
            if axis.name in values:
                allowed = np.array([value in values[axis.name] for value in axis.values], dtype=bool)
                kept &= allowed[points[:, place]]
        return replace(self, only=tuple(map(tuple, points[kept].tolist())))

    def with_axes(self, axes: Mapping[str, tuple[Value, ...]]) -> Space:
        """Return the space with other values of some axes, and with those that it lacks."""
        values = {axis.name: axis.values for axis in self.axes} | dict(axes)
        return replace(self, axes=tuple(Axis(name, choice) for name, choice in values.items()), only=None)

    def config(self, **values: Value) -> Config:
        """Return the config of these values, in the space or not; an axis that is not given takes its first."""
        first = {axis.name: axis.values[0] for axis in self.axes} | values
        if self.global_batch is not None:
            first.pop("batch_size", None)
        alone = replace(self, axes=()).with_axes({name: (value,) for name, value in first.items()})
        return alone.configs()[0]

    def configs(self, points: Ints | None = None) -> Configs:
        """Return the configs of some points (of all of them by default), as columns."""
        if points is None:
            return self._all
        columns: dict[str, npt.NDArray[np.generic]] = {
            axis.name: np.asarray(axis.values, dtype=_dtype(axis))[points[:, place]]
            for place, axis in enumerate(self.axes)
        }
        if self.global_batch is not None:
            layout = Configs(columns, len(points))
            spread = layout.replicas * layout.accumulate
            # A batch that does not divide evenly becomes 0 and `Configs.valid` rules it out.
            whole = (spread > 0) & (self.global_batch % np.maximum(spread, 1) == 0)
            columns["batch_size"] = np.where(whole, self.global_batch // np.maximum(spread, 1), 0)
        return Configs(columns, len(points))


def check_counts(values: Mapping[str, Value]) -> None:
    """Refuse numbers of workers, servers or examples that no config can have."""
    for name, least in (("workers", 1), ("batch_size", 1), ("accumulate", 1), ("servers", 0)):
        value = values.get(name, least)
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise UsageError(f"{name} is a whole number of at least {least}, not {value!r}")


def _dtype(axis: Axis) -> type:
    return np.int64 if all(type(value) is int for value in axis.values) else object


@dataclass(frozen=True, eq=False)
class Configs(Sequence[Config]):
    """Many configs as columns; rows are `Config` records. Equal when all columns are."""

    columns: Mapping[str, npt.NDArray[np.generic]]
    length: int

    @classmethod
    def of(cls, configs: Sequence[Config]) -> Configs:
        """Return the columns of some records."""
        if isinstance(configs, Configs):
            return configs
        names = sorted({name for config in configs for name, _ in config.axes})
        columns: dict[str, npt.NDArray[np.generic]] = {
            "workers": np.array([config.workers for config in configs], dtype=np.int64),
            "batch_size": np.array([config.batch_size for config in configs], dtype=np.int64),
            "accumulate": np.array([config.accumulate for config in configs], dtype=np.int64),
            "servers": np.array([config.servers for config in configs], dtype=np.int64),
            "device": np.array([config.device for config in configs], dtype=object),
        }
        for name in names:
            columns[name] = np.array([dict(config.axes).get(name, "") for config in configs], dtype=object)
        return cls(columns, len(configs))

    @cached_property
    def _content(self) -> tuple[object, ...]:
        return tuple(
            (name, tuple(column.tolist()) if column.dtype == object else column.tobytes())
            for name, column in self.columns.items()
        )

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Configs) and self._content == other._content)

    def __hash__(self) -> int:
        return hash(self._content)

    def _integers(self, name: str, default: int) -> Ints:
        if name in self.columns:
            return self.columns[name].astype(np.int64)
        return np.full(self.length, default, dtype=np.int64)

    @cached_property
    def workers(self) -> Ints:
        return self._integers("workers", 1)

    @cached_property
    def batch_size(self) -> Ints:
        return self._integers("batch_size", 1)

    @cached_property
    def accumulate(self) -> Ints:
        return self._integers("accumulate", 1)

    @cached_property
    def servers(self) -> Ints:
        return self._integers("servers", 0)

    @property
    def units(self) -> Ints:
        """Return the workers and servers, all of which are held and paid for."""
        return self.workers + self.servers

    @property
    def per_step(self) -> Ints:
        """Return the examples that one worker takes between two synchronisations."""
        return self.batch_size * self.accumulate

    @cached_property
    def replicas(self) -> Ints:
        """Return how many copies of the model take a batch each; 0 where the workers do not share them evenly."""
        split = np.ones(self.length, dtype=np.int64)
        for column in (self.columns[name] for name in MODEL_PARALLEL if name in self.columns):
            whole = column if column.dtype != object else [one if type(one) is int else 1 for one in column.tolist()]
            split *= np.maximum(np.asarray(whole, dtype=np.int64), 1)
        return np.where(self.workers % split == 0, self.workers // split, 0)

    @cached_property
    def global_batch(self) -> Ints:
        return self.per_step * self.replicas

    def recipes(self, *, workers_matter: bool) -> Ints:
        """Return a number for each config, the same where accuracy depends on the same (see `Job.recipe`)."""
        told = np.where(self._waits & (not workers_matter), 0, self.workers)
        _, numbers = np.unique(self.global_batch * (1 + told.max(initial=0)) + told, return_inverse=True)
        return numbers.astype(np.int64)

    @cached_property
    def _waits(self) -> Mask:
        if ASYNCHRONOUS not in self.columns or not (self.servers > 0).any():
            return np.ones(self.length, dtype=bool)
        return np.array([config.waits for config in self], dtype=bool)

    @cached_property
    def device(self) -> npt.NDArray[np.object_]:
        if "device" in self.columns:
            return self.columns["device"].astype(object)
        return np.full(self.length, "cpu", dtype=object)

    @property
    def named(self) -> dict[str, npt.NDArray[np.generic]]:
        """Return the columns of the axes that the user named."""
        return {name: column for name, column in self.columns.items() if name not in LAYOUT}

    @property
    def valid(self) -> Mask:
        """Return which rows can be run at all."""
        return (self.batch_size > 0) & (self.replicas > 0) & (self.accumulate > 0)

    def same(self, config: Config) -> Mask:
        """Return which rows are this config."""
        alike = (self.batch_size == config.batch_size) & (self.workers == config.workers)
        rows = np.flatnonzero(alike & (self.accumulate == config.accumulate) & (self.servers == config.servers))
        result = np.zeros(self.length, dtype=bool)
        result[[row for row in rows if self[int(row)] == config]] = True
        return result

    def at_least(self, config: Config) -> Mask:
        """Return which rows need as much memory of a worker or more: as large a batch, cut into no more shards."""
        alike = (self.device == config.device) & (self.servers == config.servers)
        for name, value in config.axes:
            if name not in self.columns:
                return np.zeros(self.length, dtype=bool)
            column = self.columns[name]
            if name in SHARDING and isinstance(value, int) and not isinstance(value, bool):
                alike &= np.array([type(shards) is int and shards <= value for shards in column.tolist()])
            else:
                alike &= column == value
        if any((name in SHARDING and value is True) or (name == "shard" and value) for name, value in config.axes):
            # over all workers
            alike &= self.workers <= config.workers
        return np.asarray(alike & (self.batch_size >= config.batch_size))

    def steps(self, examples: int) -> Floats:
        """Return the optimiser steps in an epoch, which need not be whole."""
        return examples / np.maximum(self.global_batch, 1).astype(np.float64)

    def take(self, rows: Ints | Mask) -> Configs:
        """Return some of the rows."""
        columns = {name: column[rows] for name, column in self.columns.items()}
        return Configs(columns, int(np.count_nonzero(rows)) if rows.dtype == bool else len(rows))

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, row: int) -> Config:  # type: ignore[override]  # rows only, slices by `take`
        if not -self.length <= row < self.length:
            raise IndexError(row)
        axes = {name: plain(column[row]) for name, column in self.named.items() if column[row] != ""}
        return Config.data_parallel(
            int(self.batch_size[row]),
            int(self.workers[row]),
            str(self.device[row]),
            servers=int(self.servers[row]),
            accumulate=int(self.accumulate[row]),
            axes=axes_of(axes),
        )

    def __iter__(self) -> Iterator[Config]:
        return (self[row] for row in range(self.length))


def plain(value: object) -> Value:
    """Return a value of a column as Python's own, which JSON and a command line can hold."""
    return value.item() if isinstance(value, np.generic) else value  # type: ignore[return-value]
