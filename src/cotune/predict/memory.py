"""How much memory a worker takes at a batch, and which configs will not fit.

    peak = a + c b                   a, c >= 0; b examples per worker, device, servers and named axes the same
    too large where  peak + margin > limit
    margin = (5 % + the largest miss of the line) of the peak + 20 % of what it grows beyond the batches measured

    several batches measured         the line of least relative squares
    one batch                        through it with the counted slope; without one  a = 0, the safe side
    none, but the job names a model  counted (fake tensors): state / shards + activations x b
    a slope that was only counted    75 % instead of 20

The margin is taken as what 95 of 100 stay below, so a peak is normal around the line, and

    P(fits) = Phi((limit - peak) / (margin / 1.645))      too large where it is below 0.95; none on CPUs, whose
                                                          machines have no limit of a worker's own
What ran fits, and so do smaller batches on no more workers. The limit is that of the samples. Where
workers share a machine, that of n is at least that of more workers, and at least m / n of that of m < n: so
it is on CPUs of the local engine, and wherever limits were seen to differ.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import nnls
from scipy.special import ndtr

from cotune.devices import known
from cotune.forecast import MemoryOutlook
from cotune.space import SHARDING, Configs
from cotune.types import Axes, Config, CountedModel, Floats, Job, Mask, Sample
from cotune.units import counted, gibibytes

Kind = tuple[str, int, Axes]
_MARGIN = 0.05  # of all: a GPU's context, a neighbour
_GROWTH = 0.2  # of what lies beyond the batches measured: buffers of libraries, and what an allocator cannot reuse
_SURE = 1.645  # deviations that the margin is
_TENTH = 1.2816  # deviations to the 10th and the 90th percentile
_LEAST_FIT = 0.95  # chance of fitting below which a config is left out
_RAN = 0.99  # the chance of one that has run, or is smaller than one that has
_COUNTED = 0.75  # real workers grew 1.0 to 1.75 times as much as counted (benchmarks/memory.py)


@dataclass(frozen=True, slots=True)
class MemoryLine:
    """a + c b, how far it may be off, and the batches it rests on."""

    fixed: float
    slope: float
    miss: float
    largest: int
    growth: float
    guessed: bool

    @classmethod
    def through(cls, points: Sequence[tuple[int, int]], counted: CountedModel | None) -> MemoryLine:
        """Return the line through (batch, peak) as measured."""
        batches, peaks = (np.array(column, dtype=np.float64) for column in zip(*points, strict=True))
        largest = int(batches.max())
        if len(set(batches)) == 1:
            peak = float(peaks.max())
            slope = peak / largest if counted is None else min(counted.bytes_per_example, peak / largest)
            growth = _GROWTH if counted is None else _COUNTED
            return cls(peak - slope * largest, slope, 0.0, largest, growth, guessed=counted is None)
        (fixed, slope), _ = nnls(np.column_stack([1 / peaks, batches / peaks]), np.ones(len(peaks)))
        miss = float((peaks / (fixed + slope * batches)).max()) - 1
        return cls(float(fixed), float(slope), max(miss, 0.0), largest, _GROWTH, guessed=False)

    def most(self, batches: Floats) -> Floats:
        """Return the bytes that a worker takes at most."""
        peak = self.fixed + self.slope * batches
        beyond = self.slope * np.maximum(batches - self.largest, 0.0)
        return np.asarray(peak * (1 + _MARGIN + self.miss) + self.growth * beyond)


@dataclass(frozen=True)
class MemoryLaw:
    """What is known of memory, by kind of config."""

    ran: tuple[Sample, ...]  # which tell their peak
    counted: CountedModel | None = None
    on_one_machine: bool = False

    @classmethod
    def of(cls, job: Job, samples: Sequence[Sample]) -> MemoryLaw:
        """Return what some samples tell, and the model where the job names it."""
        ran = (one for one in samples if one.tells_pace)
        told = tuple(one for one in ran if one.peak_bytes and one.limit_bytes)
        return cls(told, job.model, job.where.startswith("local"))

    def too_large(self, configs: Configs) -> Mask:
        """Return which configs are expected to need more memory than a worker has."""
        if not self.ran and self.counted is None:
            return np.zeros(configs.length, dtype=bool)
        most = self.most_bytes(configs)
        return np.asarray(~np.isnan(most) & (most > self.limit_bytes(configs)) & ~self._fitted(configs))

    def outlook(self, configs: Configs) -> MemoryOutlook:
        """Return the peak of each config with its interval, and the chance that it fits; NaN where nothing tells."""
        mid, most = self._lines_of(configs)
        deviation = (most - mid) / _SURE
        limit = np.where(configs.device == "cpu", np.nan, self.limit_bytes(configs))
        limit[np.isinf(limit)] = np.nan
        with np.errstate(divide="ignore", invalid="ignore"):
            fits = ndtr((limit - mid) / deviation)
        fits = np.where(self._fitted(configs) & ~np.isnan(fits), np.maximum(fits, _RAN), fits)
        return MemoryOutlook(mid - _TENTH * deviation, mid, mid + _TENTH * deviation, fits, self._sources(configs))

    def _sources(self, configs: Configs) -> npt.NDArray[np.object_]:
        """Return where the peak of each config is known from."""
        found = np.full(configs.length, "assumed", dtype=object)
        for kind, line in self.lines().items():
            found[_alike(configs, kind)] = "extrapolated"
            found[_alike(configs, kind) & (configs.batch_size <= line.largest)] = "interpolated"
        for sample in self.ran:
            same = configs.batch_size == sample.config.batch_size
            found[_alike(configs, _kind(sample.config)) & same] = "measured"
        return found

    def may_hang(self, configs: Configs) -> Mask:
        """Return which configs of a model in parts may not fit: one rank that runs out lets the others wait for ever.

        Where nothing tells, only the smallest batch of a kind is tried.
        """
        parted = np.asarray((_shards(configs) > 1) & (configs.device != "cpu"), dtype=bool)
        if not parted.any():
            return parted
        fits = self.outlook(configs).p_fits
        first = configs.batch_size == configs.batch_size[parted].min()
        return np.asarray(parted & np.where(np.isnan(fits), ~first, fits < _LEAST_FIT))

    def worth_a_try(self, configs: Configs, growth: int) -> Mask:
        """Return which configs are within reach of a batch that alone says too little of them.

        That is `growth` times it, or where there is none the next batch up to its square.
        """
        result = np.zeros(configs.length, dtype=bool)
        for kind, line in self.lines().items():
            alike = _alike(configs, kind) & line.guessed
            larger = configs.batch_size[alike & (configs.batch_size > line.largest)]
            following = int(larger.min(initial=growth**2 * line.largest))
            result |= alike & (configs.batch_size <= max(growth * line.largest, following))
        return result

    def note(self, configs: Configs, too_large: Mask) -> str:
        """Return in words why these configs are left out."""
        rows = np.flatnonzero(too_large)
        row = int(rows[np.lexsort((configs.workers[rows], configs.batch_size[rows]))[0]])
        most, limit = (float(column[row]) for column in (self.most_bytes(configs), self.limit_bytes(configs)))
        need = f"would need about {gibibytes(most)} of the {gibibytes(limit)} a worker has"
        usual = float(self.limit_bytes(configs).max())
        where = f" when {configs.workers[row]} share a machine" if limit < usual else ""
        return f"batch {configs.batch_size[row]} and above {need}{where}: {counted(len(rows), 'config')} left out"

    def most_bytes(self, configs: Configs) -> Floats:
        """Return what a worker of each config takes at most; NaN where nothing tells."""
        return self._lines_of(configs)[1]

    def _lines_of(self, configs: Configs) -> tuple[Floats, Floats]:
        """Return what a worker of each config takes, and at most; NaN where nothing tells."""
        batches = np.maximum(configs.batch_size, 1).astype(np.float64)
        peak, most = np.full(configs.length, np.nan), np.full(configs.length, np.nan)
        if self.counted is not None:
            state = self.counted.fixed_bytes / _shards(configs)
            growing = self.counted.bytes_per_example * batches
            peak = state + growing
            most = peak * (1 + _MARGIN) + _COUNTED * growing
        for kind, line in self.lines().items():
            alike = _alike(configs, kind)
            peak[alike], most[alike] = line.fixed + line.slope * batches[alike], line.most(batches[alike])
        return peak, most

    def limit_bytes(self, configs: Configs) -> Floats:
        """Return what a worker of each config may have; infinite where nothing tells."""
        result = np.full(configs.length, np.inf)
        processes = configs.units
        for device in dict.fromkeys(configs.device.tolist()):
            result[configs.device == device] = self._limits(device, processes[configs.device == device])
        return result

    def _limits(self, device: str, processes: npt.NDArray[np.int64]) -> Floats:
        told: dict[int, int] = {}
        for sample in self.ran:
            if sample.config.device == device and sample.limit_bytes:
                there = sample.config.units
                told[there] = min(sample.limit_bytes, told.get(there, sample.limit_bytes))
        if not told:
            spec = known(device)
            return np.full(len(processes), spec.memory if spec is not None and spec.kind == "gpu" else np.inf)
        shared = self.on_one_machine and device == "cpu"
        if not shared and len(set(told.values())) == 1:
            return np.full(len(processes), float(min(told.values())))
        least = [np.where(processes <= there, limit, limit * there / processes) for there, limit in told.items()]
        return np.asarray(np.max(least, axis=0), dtype=np.float64)

    def lines(self) -> dict[Kind, MemoryLine]:
        """Return the line of every kind of config that was measured."""
        points: dict[Kind, list[tuple[int, int]]] = defaultdict(list)
        for sample in self.ran:
            assert sample.peak_bytes is not None
            points[_kind(sample.config)].append((sample.config.batch_size, sample.peak_bytes))
        return {kind: MemoryLine.through(one, self.counted) for kind, one in points.items()}

    def _fitted(self, configs: Configs) -> Mask:
        result = np.zeros(configs.length, dtype=bool)
        for sample in self.ran:
            within = (configs.batch_size <= sample.config.batch_size) & (configs.workers <= sample.config.workers)
            result |= _alike(configs, _kind(sample.config)) & within
        return result


def _kind(config: Config) -> Kind:
    return config.device, config.servers, config.axes


def _alike(configs: Configs, kind: Kind) -> Mask:
    device, servers, axes = kind
    alike = (configs.device == device) & (configs.servers == servers)
    for name, value in axes:
        alike &= configs.columns[name] == value if name in configs.columns else False
    return np.asarray(alike, dtype=bool)


def _shards(configs: Configs) -> Floats:
    """Return into how many parts the state of the model is cut."""
    parts = np.ones(configs.length)
    for name in SHARDING:
        for row, value in enumerate(configs.columns.get(name, np.ones(0)).tolist()):
            parts[row] *= configs.workers[row] if value is True else max(value, 1) if type(value) is int else 1
    return parts
