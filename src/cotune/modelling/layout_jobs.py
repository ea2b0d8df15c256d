"""What the core asks of this room for a job whose layout is chosen: every layout that is right, and their law.

    layout_space   devices x workers x (tp, pp, shard, recompute, accumulate); a replica's batch follows from the recipe
    LayoutLaw      the counted law of seconds, its coefficients fitted to the job's own short runs, and the process of
                   what it misses (`layouts/fitted_law.py`); several device types share coefficients

Devices of the table begin with what other models showed there. Of any other device nothing is known: its coefficients
begin with what decoders showed on cores (`cpu`) or on slices of a GPU, each resource at a pace that its own runs say.
Memory is counted where a device's is known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property

import numpy as np
import numpy.typing as npt

from cotune.devices import known
from cotune.modelling.layouts.choosing import compared, most_telling, next_to_measure
from cotune.modelling.layouts.fitted_law import GIBIBYTES, OWN_LOSS, SECONDS, STRANGE, STRANGE_PACE, FittedLaw
from cotune.modelling.layouts.fitting import most_likely
from cotune.modelling.layouts.layout import COLUMNS, LayoutLimits, LayoutRows, Layouts, enumerate_layouts
from cotune.modelling.layouts.memory import count_memory, log_memory, p_memory
from cotune.modelling.layouts.predictor import LayoutForecasts
from cotune.modelling.layouts.priors import LayoutPriors
from cotune.modelling.layouts.ranking import PART_WORDS, PARTS, largest_parts
from cotune.modelling.layouts.residual import POINT_AXES, points_of
from cotune.modelling.layouts.seconds import count_terms, step_parts
from cotune.modelling.layouts.setting import DTENSOR, GIB, Machine, Setting, Transformer
from cotune.modelling.memory.sources import read_architecture
from cotune.space import Axis, Configs, Space
from cotune.types import Cluster, Config, Floats, Ints, Job, LargeModel, Mask, Sample, Value

Names = npt.NDArray[np.object_]
_AXES = ("workers", "accumulate", "tp", "pp", "shard", "recompute")
_ONE_NODE = 1 << 30  # where nothing is said of nodes
_SHARDS = (0, 2, 3)  # torch has no ZeRO 1


def layout_space(
    model: LargeModel, cluster: Cluster, global_batch: int, allowed: Mapping[str, tuple[Value, ...]]
) -> Space:
    """Return every layout of a model that is right, of those whose values are allowed where any are named."""
    names = [device.name for device in cluster.devices]
    blocks = []
    for place, device in enumerate(cluster.devices):
        setting = setting_of(model, device.name)
        for workers in _counts(device.count or 1, dict(model.devices)[device.name], allowed.get("workers")):
            found = enumerate_layouts(setting, workers, global_batch, LayoutLimits(shards=_SHARDS))
            columns = np.stack([np.full(len(found), workers), *(getattr(found, name) for name in _AXES[1:])], axis=1)
            inside = np.all([np.isin(_column(found, name), values) for name, values in allowed.items()], axis=0)
            blocks.append(np.column_stack([columns, np.full(len(found), place)])[np.broadcast_to(inside, len(found))])
    rows = np.concatenate(blocks)
    axes, points = [], []
    for place, name in enumerate((*_AXES, "device")):
        values, codes = np.unique(rows[:, place], return_inverse=True)
        axes.append(Axis(name, tuple(names[int(v)] if name == "device" else int(v) for v in values)))
        points.append(codes)
    return Space(tuple(axes), global_batch, tuple(map(tuple, np.stack(points, axis=1).tolist())))


def _column(layouts: Layouts, name: str) -> Ints:
    return layouts.gpus if name == "workers" else np.asarray(getattr(layouts, name))


def _counts(most: int, per_node: int, asked: tuple[Value, ...] | None) -> list[int]:
    """Return the numbers of workers to consider: those asked for, else what divides a node, and whole nodes."""
    if asked is not None:
        return [int(value) for value in asked if int(value) <= most]
    node = per_node or most
    inside = [count for count in range(1, min(node, most) + 1) if node % count == 0]
    return inside + list(range(2 * node, most + 1, node))


@cache
def setting_of(model: LargeModel, device: str) -> Setting:
    """Return the model on a device: as the table has it, else one of which nothing is known but that it is a core."""
    shape = Transformer.of_architecture(read_architecture(model.shape), model.sequence)
    per_node = dict(model.devices).get(device) or _ONE_NODE
    spec = known(device)
    if spec is not None and "bf16" in spec.flops:
        return Setting(shape, Machine.of_device(device, per_node), DTENSOR)
    core = Machine(device, per_node, 2e10, 1e10, 1e9, 1e8, float("inf"), overlaps=False)
    return Setting(shape, core, DTENSOR)


def layouts_of(configs: Configs) -> Layouts:
    """Return configs as layouts; an axis that is not named is that of plain data parallelism."""
    ones, zeros = np.ones(len(configs), dtype=np.int64), np.zeros(len(configs), dtype=np.int64)
    usual = {"tp": ones, "pp": ones, "shard": zeros, "recompute": zeros}
    axes = {name: configs.columns[name].astype(np.int64) if name in configs.columns else usual[name] for name in usual}
    own = {"dp": configs.replicas, "micro_batch": configs.batch_size, "accumulate": configs.accumulate}
    return Layouts(*((axes | own)[name] for name in COLUMNS))


@dataclass(frozen=True)
class LayoutLaw:
    """Learns the seconds of layouts from a job's own short runs, beginning with what is counted."""

    def fit_seconds(self, job: Job, samples: Sequence[Sample]) -> FittedLayouts:
        """Return the law fitted to samples; without any it says what is known before."""
        assert job.large is not None
        times = [(one.config, (one.epoch_seconds or 0.0) * _share_of_unit(job, one.config)) for one in samples]
        peaks = [(one.config, one.peak_bytes / GIB) for one in samples if one.peak_bytes]
        return FittedLayouts(job.large, job.examples or 1, tuple(times), tuple(peaks))


def _share_of_unit(job: Job, config: Config) -> float:
    """Return the part of a unit of progress that one step is."""
    return config.global_batch / (job.examples or config.global_batch)


@dataclass(frozen=True)
class FittedLayouts:
    """The law with its coefficients, for every device of a job."""

    model: LargeModel
    examples: int  # of a unit of progress
    times: tuple[tuple[Config, float], ...]  # seconds of a step, as measured
    peaks: tuple[tuple[Config, float], ...]  # GiB

    @property
    def remark(self) -> str:
        devices = {config.device for config, _ in self.times}
        tables = sorted(device for device in devices if setting_of(self.model, device).machine.overlaps)
        before = f"other models on {', '.join(tables)}" if tables else "nothing known of the device before"
        return f"the law of layouts, {len({config for config, _ in self.times})} of them measured, {before}"

    @cached_property
    def _steps(self) -> FittedLaw:
        return _fitted(self.model, self.times)

    def predict(self, configs: Configs) -> Floats:
        """Return the seconds of a unit of progress of each config."""
        return self.outlook(configs)[0]

    def outlook(self, configs: Configs) -> tuple[Floats, Floats]:
        """Return the seconds of a unit of progress of each config, and the deviation of their logarithm."""
        logs, deviation = self._expected(self._steps, layouts_of(configs), configs.device)
        units = self.examples / np.maximum(configs.global_batch, 1)
        return np.asarray(np.exp(logs) * units), deviation

    def _expected(self, steps: FittedLaw, layouts: Layouts, devices: Names) -> tuple[Floats, Floats]:
        logs, deviation = np.zeros(len(layouts)), np.zeros(len(layouts))
        for device in dict.fromkeys(devices.tolist()):
            rows = devices == device
            logs[rows], deviation[rows] = steps.expected(layouts.take(rows), setting_of(self.model, device))
        return logs, deviation

    def _log_of_one(self, steps: FittedLaw, config: Config) -> float:
        one = Configs.of([config])
        return float(self._expected(steps, layouts_of(one), one.device)[0][0])

    @cached_property
    def errors(self) -> Floats:
        """Return ln(predicted / measured) of each measured config, as predicted without it."""
        configs = list(dict.fromkeys(config for config, _ in self.times))
        errors = np.zeros(len(configs))
        for place, config in enumerate(configs):
            own = [seconds for one, seconds in self.times if one == config]
            others = tuple(pair for pair in self.times if pair[0] != config)
            errors[place] = self._log_of_one(_fitted(self.model, others), config) - np.log(np.median(own))
        return errors

    def too_large(self, configs: Configs) -> Mask:
        """Return which layouts should not run: their memory does not suffice, as counted."""
        return self._p_memory(layouts_of(configs), configs.device) < 0.5

    def _p_memory(self, layouts: Layouts, devices: Names) -> Floats:
        result = np.ones(len(layouts))
        for device in dict.fromkeys(devices.tolist()):
            setting, rows = setting_of(self.model, device), devices == device
            if np.isfinite(setting.machine.memory):
                gib = log_memory(self._memory(device), count_memory(layouts.take(rows), setting))
                result[rows] = p_memory(gib, setting.machine.gib)
        return result

    def _memory(self, device: str) -> Floats:
        """Return the coefficients of memory on a device, fitted to what its runs took."""
        setting = setting_of(self.model, device)
        own = [(config, gib) for config, gib in self.peaks if config.device == device]
        counted = count_memory(layouts_of(Configs.of([config for config, _ in own])), setting)
        prior = LayoutPriors.measured_elsewhere(setting.model).memory
        return most_likely(lambda at: log_memory(at, counted), np.array([g for _, g in own]), prior, GIBIBYTES.loss)

    def worth_measuring(self, configs: Configs, count: int, among: Mask | None = None) -> Ints:
        """Return the rows of the layouts to measure next: fast, likely to run, unlike those measured.

        On a device that no table has, those with the largest information gain.
        """
        possible = configs.valid if among is None else configs.valid & among
        if any(not setting_of(self.model, name).machine.overlaps for name, _ in self.model.devices):
            return self._telling(configs, count, possible)
        measured = Configs.of(list(dict.fromkeys(config for config, _ in self.times)))
        layouts = layouts_of(measured).and_then(layouts_of(configs))
        devices = np.concatenate([measured.device, configs.device])
        seconds = np.exp(self._expected(self._steps, layouts, devices)[0])
        fits = self._p_memory(layouts, devices)
        fits[len(measured) :] *= possible
        three = np.repeat(seconds[:, None], 3, axis=1)
        forecasts = LayoutForecasts(three, np.zeros((len(layouts), 3)), fits, fits)
        _, kinds = np.unique(devices.astype(str), return_inverse=True)
        points = np.zeros((len(layouts), POINT_AXES))
        for device in dict.fromkeys(devices.tolist()):
            rows = devices == device
            points[rows] = points_of(layouts.take(rows), setting_of(self.model, device))
        groups = layouts.gpus * (kinds.max(initial=0) + 1) + kinds
        tried = list(range(len(measured)))
        while len(tried) < len(measured) + count:
            best = next_to_measure(forecasts, layouts, points, np.array(tried, dtype=np.int64), groups=groups)
            if best is None or fits[best] == 0:
                break
            tried.append(best)
        return np.array(tried[len(measured) :], dtype=np.int64) - len(measured)

    def _telling(self, configs: Configs, count: int, among: Mask) -> Ints:
        """Return the rows of the layouts with the largest information gain, of those that should run."""
        layouts, devices = layouts_of(configs), configs.device
        seconds = np.exp(self._expected(self._steps, layouts, devices)[0])
        rows = compared(seconds, np.flatnonzero(among & (self._p_memory(layouts, devices) >= 0.5)))
        if not len(rows):
            return rows
        names, kinds = np.unique(devices[rows].astype(str), return_inverse=True)
        rows, kinds = rows[np.argsort(kinds, kind="stable")], np.sort(kinds)
        parts = [
            (layouts.take(rows[kinds == kind]), setting_of(self.model, str(name))) for kind, name in enumerate(names)
        ]
        groups = np.unique(layouts.gpus[rows] * len(names) + kinds, return_inverse=True)[1]
        speed = layouts.global_batch[rows] / seconds[rows] / layouts.gpus[rows]
        return rows[most_telling(self._steps.covariance(parts), speed, groups, count)]

    def why(self, config: Config, rivals: Sequence[Config]) -> str:
        """Return where the step of a config goes, and what the nearest rival of other degrees gives up."""
        own, seconds = self._parts(config)
        shares = {name: part / seconds for name, part in own.items()}
        words = f"Of {seconds:.3g} s a step {largest_parts(shares)}{self._memory_words(config)}"
        degrees = _degrees(config)
        other = next((one for one in rivals if _degrees(one) != degrees and one.workers == config.workers), None)
        if other is None:
            return words
        there, theirs = self._parts(other)
        worst = max(there, key=lambda name: there[name] - own[name])
        layout = layouts_of(Configs.of([other]))[0]
        return f"{words}. {layout} is {theirs / seconds - 1:+.1%} in seconds, most of it {PART_WORDS[worst]}"

    def _memory_words(self, config: Config) -> str:
        setting = setting_of(self.model, config.device)
        if not np.isfinite(setting.machine.memory):
            return ""
        counted = count_memory(layouts_of(Configs.of([config])), setting)
        gib = float(np.exp(log_memory(self._memory(config.device), counted)[0]))
        return f"; {gib:.0f} of {setting.machine.gib:.0f} GiB"

    def _parts(self, config: Config) -> tuple[dict[str, float], float]:
        """Return the seconds of each part of a step, scaled to what is expected of the whole."""
        one = Configs.of([config])
        setting = setting_of(self.model, config.device)
        terms = count_terms(layouts_of(one), setting)
        parts = step_parts(self._steps.coefficients(setting.machine.name), terms)
        seconds = float(np.exp(self._log_of_one(self._steps, config)))
        scale = seconds / float(parts.total[0])
        return {name: float(getattr(parts, name)[0]) * scale for name in PARTS}, seconds


@cache
def _fitted(model: LargeModel, times: tuple[tuple[Config, float], ...]) -> FittedLaw:
    """Return the law fitted to steps as measured; where every device is a table's, beginning with other models."""
    rows = []
    for device, _ in model.devices:
        own = [(config, seconds) for config, seconds in times if config.device == device]
        seconds = np.array([seconds for _, seconds in own])
        layouts = layouts_of(Configs.of([config for config, _ in own]))
        rows.append(LayoutRows(setting_of(model, device), layouts, seconds, np.full(len(own), np.nan)))
    shape = rows[0].setting.model
    strange = [one.setting.machine.name for one in rows if not one.setting.machine.overlaps]
    if strange:
        return FittedLaw.fit(STRANGE, rows, LayoutPriors.of_strange(shape, strange[0]).seconds, STRANGE_PACE)
    law = replace(SECONDS, loss=OWN_LOSS)
    return FittedLaw.fit(law, rows, LayoutPriors.measured_elsewhere(shape).seconds)


def _degrees(config: Config) -> tuple[Value, ...]:
    axes = dict(config.axes)
    return axes.get("tp", 1), axes.get("pp", 1)
