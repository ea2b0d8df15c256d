"""What `cotune model predict` is asked, from its flags and the job file, and where: on this machine, or elsewhere."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from cotune.cli.options import one_of, whole_numbers
from cotune.cli.output import note
from cotune.devices import HERE, PRECISIONS, Precision, Spec, known
from cotune.devices.present import keep, kept
from cotune.errors import NotFound, UsageError
from cotune.jobfile.settings import Settings
from cotune.modelling.counting.calibrate import calibrate
from cotune.modelling.counting.counts import Counts
from cotune.modelling.counting.workload import STATES, Optimiser
from cotune.modelling.prediction import PER_NODE, Target, TrainingWork
from cotune.modelling.roofline import Rates
from cotune.predict.input_law import InputLaw
from cotune.store import work_folder
from cotune.types import Cluster
from cotune.units import bits_per_second

TIERS = ("auto", "counts", "history", "layer_trees", "layerwise", "paleo", "scaled", "steps", "probe")
_WITH_SETTINGS = ("paleo(", "layerwise(", "layer_trees(")


@dataclass(frozen=True, slots=True)
class ModelQuery:
    """What the command line asks of a model."""

    model: str
    inputs: tuple[str, ...]
    batches: tuple[int, ...]
    workers: tuple[int, ...]
    precision: Precision = "fp32"
    optimiser: Optimiser = "momentum"
    tier: str = "auto"
    network: float | None = None
    device: str | None = None
    work: TrainingWork = field(default_factory=TrainingWork)
    seconds: float = 20.0
    layers: Path = Path("layers")
    input: InputLaw | None = None  # how the job that is asked for waits for its data, where that was measured


def devices_of(text: str | None) -> list[str | None]:
    """Return the devices that are named, each once; without a name it is this machine."""
    if text is None:
        return [None]
    names = [name.strip() for name in text.split(",")]
    if not all(names) or len(set(names)) < len(names):
        raise UsageError(f"cannot read --device {text!r}; name each device once: --device v100,t4,a100")
    return [*names]


def query_of(
    model: str,
    inputs: Sequence[str] | None,
    settings: Settings,
    batch_size: str | None,
    workers: str | None,
    precision: str,
    optimiser: str,
    tier: str,
    network: str | None,
) -> ModelQuery:
    """Return the flags as numbers, with what the job file says where they say nothing."""
    name, own_inputs = _model_of(model, settings)
    return ModelQuery(
        name,
        tuple(inputs or own_inputs),
        whole_numbers(batch_size, "batch_size"),
        whole_numbers(workers, "workers") or (1,),
        one_of(PRECISIONS, precision, "--precision"),
        one_of(tuple(STATES), optimiser, "--optimiser"),
        tier if tier.startswith(_WITH_SETTINGS) else one_of(TIERS, tier, "--tier"),
        bits_per_second(network) / 8 if network else None,
    )


def _model_of(name: str, settings: Settings) -> tuple[str, tuple[str, ...]]:
    """Return the model and inputs that `job` stands for: those of the job file, or of a ready-made job."""
    if name != "job":
        return name, ()
    if settings.model:
        return settings.model, settings.inputs
    command = settings.job.command
    if "cotune.workloads.train" in command:
        at = command.index("--model") + 1 if "--model" in command else None
        return (command[at] if at and at < len(command) else "lenet5"), ()
    raise NotFound(
        "the job does not say its model: write `model: package.module:callable` (and `input: 3x224x224`) in cotune.yaml"
    )


def work_of(
    settings: Settings, device: str | None, examples: int | None, epochs: int | None, price: float | None
) -> TrainingWork:
    """Return the training on a device, at the price given or that of the job file."""
    hourly = price if price is not None else _price(settings.cluster, device)
    return TrainingWork(
        examples or settings.job.examples,
        epochs or settings.goal.epochs,
        1.0 if hourly is None else hourly / 3600,
        settings.cluster.currency if hourly is not None else "device-seconds",
    )


def _price(cluster: Cluster, device: str | None) -> float | None:
    """Return the job file's price of the device asked for; its only device is meant where none is named."""
    names = [one for one in cluster.devices if one.name == device or (device is None and len(cluster.devices) == 1)]
    return names[0].price_per_hour if names else None


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
