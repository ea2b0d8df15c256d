"""What may be chosen by a job file: the axes of its `search`, or every layout of a large model that is right.

Axes that the file leaves out have defaults: as many workers as there are devices, powers of two as batch sizes.
What the command cannot take is refused here, before anything is measured.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from cotune.errors import InvalidFile, suggestion
from cotune.jobfile.command import require_settable, takes
from cotune.jobfile.file import MOST_VALUES, JobFile
from cotune.layouts import layout_space
from cotune.space import LAYOUT, Axis, Space
from cotune.types import ASYNCHRONOUS, SPREADING, Cluster, Job, LargeModel, Value

BATCH_SIZES = (16, 32, 64, 128, 256, 512)
MOST_CONFIGS = 500_000  # to search: their forecasts take some 3 GB


def space_of(file: JobFile, cluster: Cluster, job: Job, source: str) -> Space:
    """Return what may be chosen for a job, or raise what of it cannot be."""
    return _axes(file, cluster, job, source) if job.large is None else _layouts(file, cluster, job, source)


def _axes(file: JobFile, cluster: Cluster, job: Job, source: str) -> Space:
    axes: dict[str, tuple[Value, ...]] = {"workers": tuple(range(1, _most_workers(file, cluster) + 1))}
    axes |= {"batch_size": BATCH_SIZES} if file.global_batch is None else {}
    axes |= {"device": tuple(device.name for device in cluster.devices)}
    for name, values in file.search.items():
        check_axis(name, job, source)
        axes[name] = values
    _check_asynchronous(axes, source)
    if file.global_batch is not None and "batch_size" in file.search:
        raise InvalidFile(f"{source}: global_batch fixes the recipe, so search.batch_size cannot be chosen; drop one")
    if job.command:
        require_settable(job, source, axes)
    if (configs := math.prod(map(len, axes.values()))) > MOST_CONFIGS:
        raise InvalidFile(f"{source}: search: {configs:,} configs; search at most {MOST_CONFIGS:,}")
    return _distinct(Space(tuple(Axis(name, values) for name, values in axes.items()), file.global_batch))


def large_model(file: JobFile, cluster: Cluster, folder: Path, source: str) -> LargeModel:
    """Return the model whose layout is to be chosen, or raise what is missing to know its layouts."""
    given = {"model": file.model, "sequence": file.sequence, "global_batch": file.global_batch, "run": file.run}
    missing = [name for name, value in given.items() if value is None]
    if missing or file.model is None or file.sequence is None:
        raise InvalidFile(
            f"{source}: layout: auto needs {', '.join(missing)} too; `model` is a config.json or a name (llama-3-8b), "
            "`sequence` the tokens of an example"
        )
    shape = str(folder / file.model) if (folder / file.model).exists() else file.model
    nodes = tuple((device.name, device.per_node or 0) for device in cluster.devices)
    return LargeModel(shape, file.sequence, nodes)


def _layouts(file: JobFile, cluster: Cluster, job: Job, source: str) -> Space:
    """Return every layout that is right: on as many workers as there are, with what the command takes."""
    assert job.large is not None
    assert file.global_batch is not None
    require_settable(job, source, file.search)
    strange = set(file.search) - {"workers", "accumulate", "micro_batch", *SPREADING}
    if strange:
        raise InvalidFile(
            f"{source}: search.{min(strange)}: with layout: auto only workers, accumulate, micro_batch, "
            f"{', '.join(SPREADING)} are searched"
        )
    fixed: dict[str, tuple[Value, ...]] = {"tp": (1,), "pp": (1,), "shard": (0,), "recompute": (0,), "accumulate": (1,)}
    allowed = {name: values for name, values in fixed.items() if not takes(job, name)}
    for name, values in file.search.items():
        check_axis("accumulate" if name == "micro_batch" else name, job, source)
        allowed[name] = values
    most = _most_workers(file, cluster)
    counted = Cluster(tuple(replace(device, count=device.count or most) for device in cluster.devices))
    space = layout_space(job.large, counted, file.global_batch, allowed)
    if not len(space):
        raise InvalidFile(f"{source}: no layout of {file.model} on up to {most} workers is right for this global batch")
    return space


def _most_workers(file: JobFile, cluster: Cluster) -> int:
    counts = [device.count for device in cluster.devices if device.count]
    if isinstance(file.engine, dict) and not counts:
        counts = [nodes for settings in file.engine.values() if (nodes := whole(settings.get("nodes")))]
    return min(max(counts), MOST_VALUES) if counts else len(os.sched_getaffinity(0))


def check_axis(name: str, job: Job, source: str) -> None:
    """Refuse an axis that the command does not take."""
    if name not in LAYOUT and not takes(job, name):
        near = suggestion(name, LAYOUT) or f"; `reads: [{name}]` says that the script takes it from a variable"
        raise InvalidFile(f"{source}: search.{name}: the command has no {{{name}}}{near}")


def _check_asynchronous(axes: Mapping[str, tuple[Value, ...]], source: str) -> None:
    """Refuse workers that shall not wait where nothing holds the weights for them."""
    asked = any(str(value).lower() == "true" for value in axes.get(ASYNCHRONOUS, ()))
    if asked and not any(axes.get("servers", ())):
        raise InvalidFile(
            f"{source}: search.{ASYNCHRONOUS}: without parameter servers workers always wait for each other; "
            "say search.servers too, such as [1]"
        )


def _distinct(space: Space) -> Space:
    """Return a space without the configs that are another one's twins: none to wait for, and set not to wait."""
    configs = space.configs()
    told = configs.named.get(ASYNCHRONOUS)
    if told is None or len(set(map(str, told))) == 1 or configs.servers.all():
        return space
    twin = np.array([str(value).lower() == "true" for value in told]) & (configs.servers == 0)
    return replace(space, only=tuple(map(tuple, space.points[~twin].tolist())))


def whole(value: object) -> int | None:
    """Return a count of the engine's settings; what is none the engine itself will refuse."""
    return value if isinstance(value, int) and value >= 0 else None
