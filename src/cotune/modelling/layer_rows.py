"""Timed single layers, as columns: what `cotune model layers` writes, what was published, and what learns from them.

One CSV file per kind of layer and device, `KIND_DEVICE.csv` (or .csv.gz), and `devices.csv` with the
facts of the devices. A row is one layer: its shape, the optimiser (none: the forward pass
alone), and the median of repeated means in milliseconds. A row without a time could not be run. Published:

    justus2018       conv_GPU.csv.gz, dens_GPU.csv.gz      TensorFlow 1, single precision
    aiconfigurator   gemm_bf16_GPU.csv.gz                  matrix products m x k by k x n, half precision

Facts of published GPUs are those of their makers; for cards with two chips those of one chip, which is what a layer
runs on.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from cotune.errors import InvalidFile, NotFound
from cotune.recording.imported import rows
from cotune.types import Floats, Mask

SHAPES: Mapping[str, tuple[str, ...]] = {
    "dense": ("batch", "dim_in", "dim_out", "activation", "optimizer"),
    "conv": ("batch", "size_in", "kernel", "c_in", "c_out", "stride", "padding", "bias", "activation", "optimizer"),
    "pool": ("batch", "size_in", "kernel", "channels", "stride", "padding", "optimizer"),
    "recurrent": ("batch", "length", "dim_in", "dim_out", "cell", "bidirectional", "optimizer"),
}
WORDS: Mapping[str, tuple[str, ...]] = {
    "activation": ("none", "relu", "tanh", "sigmoid"),
    "optimizer": ("none", "sgd", "adadelta", "adagrad", "momentum", "adam", "rmsprop"),
    "padding": ("valid", "same"),
    "cell": ("rnn", "lstm", "gru"),
}
TIMES = ("ms_median", "ms_min", "ms_std")
DEVICES = "devices.csv"
_ALIASES = {"dens": "dense"}


@dataclass(frozen=True, slots=True)
class Facts:
    """What the data sheet (or a measurement) says of a device."""

    gflops: float
    gigabytes_per_second: float
    cores: float
    mhz: float


FACTS = tuple(fact.name for fact in fields(Facts))
PUBLISHED = {  # GFLOPS in the precision of the timings (2 x cores x MHz for single precision), GB/s, cores, MHz
    "V100": Facts(14_899, 900, 5120, 1455),
    "M60": Facts(4_825, 160, 2048, 1178),
    "GTX1080Ti": Facts(11_340, 484, 3584, 1582),
    "K40": Facts(5_040, 288, 2880, 875),
    "K80": Facts(4_368, 240, 2496, 875),
    "h100_sxm": Facts(989_000, 3350, 16896, 1830),
    "h200_sxm": Facts(989_000, 4800, 16896, 1830),
    "b200_sxm": Facts(2_250_000, 8000, 18944, 1965),
    "l40s": Facts(362_000, 864, 18176, 2520),
}
_PRODUCTS = "gemm_bf16_"


@dataclass(frozen=True)
class Layers:
    """Layers of one kind as columns: words as numbers, the facts of each row's device, and its milliseconds."""

    kind: str
    shape: Mapping[str, Floats]
    device: npt.NDArray[np.str_]
    facts: Mapping[str, Floats]
    ms: Floats

    def __len__(self) -> int:
        return len(self.ms)

    def take(self, rows: Mask | npt.NDArray[np.int64]) -> Layers:
        """Return some of the rows."""
        shape = {name: column[rows] for name, column in self.shape.items()}
        facts = {name: column[rows] for name, column in self.facts.items()}
        return Layers(self.kind, shape, self.device[rows], facts, self.ms[rows])

    @classmethod
    def of(cls, kind: str, rows: Iterable[Mapping[str, str]], device: str, facts: Facts | None) -> Layers:
        """Return the rows of one device; unknown facts are not numbers."""
        timed = [row for row in rows if row.get("ms_median", "1")]
        shape = {name: _column(name, [row[name] for row in timed]) for name in SHAPES[kind]}
        known = {name: np.full(len(timed), getattr(facts, name) if facts else np.nan) for name in FACTS}
        ms = np.array([float(row.get("ms_median", "nan")) for row in timed])
        return cls(kind, shape, np.full(len(timed), device), known, ms)

    @classmethod
    def joined(cls, parts: Sequence[Layers]) -> Layers:
        """Return the rows of several tables of one kind."""
        (kind,) = {part.kind for part in parts}
        return cls(
            kind,
            {name: np.concatenate([part.shape[name] for part in parts]) for name in SHAPES[kind]},
            np.concatenate([part.device for part in parts]),
            {name: np.concatenate([part.facts[name] for part in parts]) for name in FACTS},
            np.concatenate([part.ms for part in parts]),
        )


class LayerModel(Protocol):
    """A fitted model of single layers."""

    def predict(self, layers: Layers) -> Floats:
        """Return the milliseconds of each layer."""
        ...


@runtime_checkable
class LayerPredictor(Protocol):
    """What can learn the milliseconds of layers; raises `TooFewSamples` when it cannot."""

    def fit_layers(self, layers: Layers) -> LayerModel: ...


def _column(name: str, values: Sequence[str]) -> Floats:
    if name in WORDS:
        return np.array([WORDS[name].index(value) for value in values], dtype=np.float64)
    return np.array(values, dtype=np.float64)


def read_layers(folder: Path) -> dict[str, Layers]:
    """Return the layers in a folder by kind, with the facts of its own table of devices, or the published ones."""
    if products := sorted(folder.glob(f"{_PRODUCTS}*.csv.gz")):
        return {"dense": Layers.joined([_products(file) for file in products])}
    facts = PUBLISHED | read_devices(folder)
    parts: dict[str, list[Layers]] = {}
    for file in sorted([*folder.glob("*_*.csv"), *folder.glob("*_*.csv.gz")]):
        word, _, device = file.name.removesuffix(".gz").removesuffix(".csv").partition("_")
        kind = _ALIASES.get(word, word)
        if kind not in SHAPES:
            continue
        try:
            parts.setdefault(kind, []).append(Layers.of(kind, rows(file), device, facts.get(device)))
        except (KeyError, ValueError) as error:
            raise InvalidFile(f"{file} is not a table of {kind} layers: {error!r}") from None
    if not parts:
        kinds = ", ".join(SHAPES)
        raise NotFound(f"no KIND_DEVICE.csv in {folder} with KIND one of {kinds}", remedy="random_layers")
    return {kind: Layers.joined(tables) for kind, tables in parts.items()}


def _products(file: Path) -> Layers:
    """Return matrix products as dense layers of the forward pass."""
    gpu = file.name.removeprefix(_PRODUCTS).removesuffix(".csv.gz")
    plain = {"activation": "none", "optimizer": "none"}
    products = [
        plain | {"batch": row["m"], "dim_in": row["k"], "dim_out": row["n"], "ms_median": row["ms"]}
        for row in rows(file)
    ]
    return Layers.of("dense", products, gpu, PUBLISHED.get(gpu))


def read_devices(folder: Path) -> dict[str, Facts]:
    """Return the facts in a folder's table of devices, if it has one."""
    file = folder / DEVICES
    if not file.exists():
        return {}
    try:
        return {row["device"]: Facts(*(float(row[name]) for name in FACTS)) for row in rows(file)}
    except (KeyError, ValueError) as error:
        raise InvalidFile(f"{file} is not a table of devices: {error!r}") from None


def write_device(folder: Path, device: str, facts: Facts) -> None:
    """Put a device's facts into a folder's table, in place of older ones."""
    known = read_devices(folder) | {device: facts}
    with (folder / DEVICES).open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["device", *FACTS])
        writer.writerows([name, *(f"{getattr(one, fact):g}" for fact in FACTS)] for name, one in sorted(known.items()))
