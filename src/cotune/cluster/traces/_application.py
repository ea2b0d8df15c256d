"""What Pollux's authors measured of an application: step times by placement, and learning curves by global batch.

A step takes step + (step - sync) * (accumulate - 1) seconds on a placement. Progress is counted in
steps of the smallest batch M0. In epoch e at global batch M a step is worth

    gain = (var + sqr) / (var * M0 / M + sqr)

of them, with the squared norm and the variance of the gradient measured there.
"""

from __future__ import annotations

import csv
import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np

from cotune.cluster.policy import COUNTED, Nodes
from cotune.errors import InvalidFile
from cotune.types import Config, Floats

Split = tuple[int, ...]  # GPUs on each node used
_PER_NODE = 4
_MOST = 64  # GPUs that were measured
_LOCAL_LIMIT = {"yolov3": 8}  # memory of a T4; elsewhere the largest local batch measured


_PLACEMENTS = ("placement", "local_bsz", "step_time", "sync_time")
_SCALABILITY = ("num_nodes", "num_replicas", "local_bsz", "step_time", "sync_time")


@dataclass(frozen=True)
class Application:
    """What was measured of one application."""

    folder: Path
    _steps: dict[tuple[Config, Split], float] = field(default_factory=dict, repr=False, compare=False)
    _to: dict[float, tuple[Floats, Floats]] = field(default_factory=dict, repr=False, compare=False)

    @cached_property
    def curves(self) -> dict[int, dict[str, Floats]]:
        """Return the validation runs by global batch."""
        found = {int(path.stem.partition("-")[2]): _columns(path) for path in self.folder.glob("validation-*.csv")}
        if not found:
            raise InvalidFile(f"{self.folder} has no validation-*.csv; a Pollux workload needs its measurements there")
        return dict(sorted(found.items()))

    @cached_property
    def _placed(self) -> dict[Split, tuple[Floats, Floats]]:
        """Return (local batches, [step, sync] seconds) of each measured placement."""
        table: defaultdict[Split, list[tuple[float, float, float]]] = defaultdict(list)
        columns = _columns(self.folder / "placements.csv")
        for placement, *row in zip(*(columns[name] for name in _PLACEMENTS), strict=True):
            table[tuple(int(digit) for digit in str(int(placement)))].append(tuple(row))
        return {nodes: (np.array(rows)[:, 0], np.array(rows)[:, 1:]) for nodes, rows in table.items()}

    @cached_property
    def _elsewhere(self) -> Callable[[float, float, float], Floats]:
        """Return an interpolation over (nodes, replicas, local batch) for placements not measured."""
        from scipy.interpolate import LinearNDInterpolator

        means: defaultdict[tuple[float, ...], list[Floats]] = defaultdict(list)
        for nodes, (locals_, times) in self._placed.items():
            for local, time in zip(locals_, times, strict=True):
                means[len(nodes), sum(nodes), float(local)].append(time)
        points = {key: np.mean(times, axis=0) for key, times in means.items()}
        more = _columns(self.folder / "scalability.csv")
        for row in zip(*(more[name] for name in _SCALABILITY), strict=True):
            points[row[:3]] = np.array(row[3:])
        between: Callable[[float, float, float], Floats] = LinearNDInterpolator(
            np.array(list(points)), np.array(list(points.values()))
        )
        return between

    @property
    def smallest_batch(self) -> int:
        return min(self.curves)

    @property
    def largest_batch(self) -> int:
        return max(self.curves)

    @cached_property
    def local_batches(self) -> tuple[int, int]:
        """Return the least and the most that one GPU takes in one step."""
        every = np.concatenate([locals_ for locals_, _ in self._placed.values()])
        return int(every.min()), _LOCAL_LIMIT.get(self.folder.name, int(every.max()))

    @cached_property
    def progress(self) -> Floats:
        """Return the progress at the start and after each epoch."""
        epochs = min(len(curve["progress"]) for curve in self.curves.values())
        slowest = np.min([curve["progress"][:epochs] for curve in self.curves.values()], axis=0)
        return np.concatenate([[0.0], slowest])

    def step_seconds(self, nodes: Split, local: float) -> tuple[float, float]:
        """Return the seconds of a step and of its synchronisation."""
        used = tuple(gpus for gpus in nodes if gpus)
        turned = min(used[i:] + used[:i] for i in range(len(used)))
        if turned in self._placed:
            locals_, times = self._placed[turned]
            step, sync = (float(np.interp(local, locals_, times[:, column])) for column in (0, 1))
        else:
            step, sync = map(float, np.ravel(self._elsewhere(min(len(used), 16), sum(used), local)))
        if math.isnan(step):
            raise ValueError(f"{self.folder.name} was not measured with {local} per GPU on nodes {used}")
        return step, sync

    def gain(self, batch: int) -> Floats:
        """Return what a step at a global batch is worth in each epoch, in steps of the smallest batch."""
        batches = list(self.curves)
        sqr, var = (
            _between(batch, batches, [self.curves[b][name] for b in batches]) for name in ("grad_sqr", "grad_var")
        )
        epochs = len(self.progress) - 1
        return ((var + sqr) / (var * self.smallest_batch / batch + sqr))[:epochs]

    def seconds(self, config: Config, nodes: Nodes = COUNTED) -> float:
        """Return the seconds of a step of a config; without nodes, on as few as possible."""
        placed = nodes.gpus or consolidated(config.workers)
        if (config, placed) not in self._steps:
            step, sync = self.step_seconds(placed, config.batch_size)
            self._steps[config, placed] = step + (step - sync) * (config.accumulate - 1)
        return self._steps[config, placed]

    def layouts(self, batch: int) -> tuple[Config, ...]:
        """Return how a global batch is spread over any number of GPUs, as far as that was measured."""
        most = min(batch // self.local_batches[0], _MOST)
        found = dict.fromkeys(self.layout(batch, gpus) for gpus in range(1, most + 1))
        return tuple(config for config in found if self._measured(config))

    def _measured(self, config: Config) -> bool:
        try:
            self.seconds(config)
        except ValueError:
            return False
        return True

    @cached_property
    def _sign(self) -> float:
        """Return 1 if the metric rises as the application learns, -1 if it falls."""
        return 1.0 if sum(curve["metric"][-1] - curve["metric"][0] for curve in self.curves.values()) > 0 else -1.0

    @cached_property
    def common_target(self) -> float:
        """Return the metric that every recorded batch gets to."""
        return float(self._sign * min((self._sign * curve["metric"]).max() for curve in self.curves.values()))

    def steps_to(self, target: float, batch: int) -> float:
        """Return the steps to the first evaluation that meets a target; between recorded batches a power law."""
        if target not in self._to:
            met = {b: np.flatnonzero(self._sign * (curve["metric"] - target) >= 0) for b, curve in self.curves.items()}
            steps = {b: self.curves[b]["iteration"][rows[0]] for b, rows in met.items() if len(rows)}
            self._to[target] = np.log(list(steps)), np.log(list(steps.values()))
        return float(np.exp(np.interp(np.log(batch), *self._to[target])))

    def layout(self, batch: int, gpus: int) -> Config:
        """Return how a global batch is spread over GPUs, by accumulation where memory is short."""
        local = math.ceil(batch / gpus - 1e-8)
        accumulate = math.ceil(local / self.local_batches[1] - 1e-8)
        if gpus == 1 and batch > self.smallest_batch:
            accumulate = max(2, accumulate)
        atomic = math.ceil(local / accumulate - 1e-8)
        atomic = min(atomic, self.largest_batch // (gpus * accumulate))
        return Config.data_parallel(atomic, gpus, "gpu", accumulate=accumulate)


def consolidated(gpus: int) -> Split:
    """Return so many GPUs on as few nodes as possible."""
    full, rest = divmod(gpus, _PER_NODE)
    return (_PER_NODE,) * full + ((rest,) if rest else ())


def _between(batch: int, batches: Sequence[int], values: Sequence[Floats]) -> Floats:
    """Return the values at a batch, linear between the two neighbouring ones."""
    if not batches[0] <= batch <= batches[-1]:
        raise ValueError(f"batch {batch} lies outside of {batches[0]}..{batches[-1]}")
    above = next(place for place, known in enumerate(batches) if known >= batch)
    if batches[above] == batch:
        return values[above]
    epochs = min(len(values[above]), len(values[above - 1]))
    weight = (batch - batches[above - 1]) / (batches[above] - batches[above - 1])
    return values[above][:epochs] * weight + values[above - 1][:epochs] * (1 - weight)


def _columns(path: Path) -> dict[str, Floats]:
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        return {name: np.array([float(row[name]) for row in rows]) for name in rows[0]}
    except (OSError, ValueError, IndexError) as error:
        raise InvalidFile(f"{path} cannot be read as measurements: {error}") from None


@lru_cache(maxsize=64)
def application(folder: Path) -> Application:
    """Return the measurements in a folder, read once."""
    return Application(folder)
