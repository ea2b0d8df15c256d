"""Where a model would be trained: on this machine, which is measured first, or on a device known by its numbers."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from cotune.cli.output import note
from cotune.devices import HERE, Spec, known
from cotune.devices.calibration import keep, kept
from cotune.errors import UsageError
from cotune.modelling.counting.calibrate import calibrate
from cotune.modelling.counting.counts import Counts
from cotune.modelling.prediction import PER_NODE, Target
from cotune.modelling.roofline import Rates
from cotune.modelling.verbs._model_query import ModelQuery
from cotune.store import work_folder
from cotune.types import Cluster


@dataclass(frozen=True, slots=True)
class ModelDevice:
    """The device that was asked for: `runs` says where steps can be taken here, if they can."""

    target: Target
    identity: str
    runs: Literal["cpu", "cuda"] | None
    spec: Spec | None = None
    here: Spec | None = None

    def fits(self, counts: Counts | None) -> bool:
        """Return whether a step fits its memory, as far as both are known."""
        memory = self.target.rates.memory if self.target.rates else None
        return counts is None or memory is None or counts.peak_bytes < memory

    def held(self) -> int:
        """Return how many workers this machine holds."""
        import torch

        return torch.cuda.device_count() if self.runs == "cuda" else len(os.sched_getaffinity(0))


def device_of(asked: ModelQuery, cluster: Cluster) -> ModelDevice:
    """Return the device asked for; the machine at hand is measured first if it never was."""
    import torch

    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    name = asked.device or HERE
    spec = known(name)
    here_is = known(gpu) if gpu else None
    given = (device.per_node for device in cluster.devices if device.name == name and device.per_node)
    per_node = next(given, PER_NODE)
    if name == "cpu" or (name == HERE and gpu is None):
        return _here("cpu", f"cpu on {platform.node()}", asked.network)
    if gpu is not None and (name in (HERE, "gpu", "cuda") or (spec is not None and spec == here_is)):
        return _here("cuda", here_is.name if here_is else gpu, asked.network)
    if asked.tier in ("steps", "probe"):
        raise UsageError(
            f"--tier {asked.tier} measures the machine at hand, not {name}; leave --device out, or the tier"
        )
    rates = Rates.published(spec) if spec else None
    if asked.tier == "scaled" and (here_is is None or spec is None or spec.kind != "gpu"):
        raise UsageError("--tier scaled carries times from a known GPU here to another one of the table; there is none")
    return ModelDevice(Target(name, rates, per_node, asked.network), spec.name if spec else name, None, spec, here_is)


def _here(runs: Literal["cpu", "cuda"], identity: str, network: float | None) -> ModelDevice:
    folder = work_folder(Path.cwd())
    kind: Literal["cpu", "gpu"] = "gpu" if runs == "cuda" else "cpu"
    found = kept(folder, kind)
    if found is None:
        note("measuring this machine once (cotune model calibrate does it again)")
        found = calibrate(runs)
        keep(found, folder)
    rates = Rates.calibrated(found, known(found.name))
    return ModelDevice(Target(identity, rates, network=network), identity, runs, known(found.name))
