"""Random single layers, timed on the device at hand as Justus et al. did: what layer models learn from.

    cotune model layers 500 --into layers

A row is one layer of random shape: a forward pass alone for half of them, forward, backward and
one update for the other half. A few runs warm up; then the mean of many runs is taken, several
times, and the median of these is the row's time. A large layer gets fewer runs: none takes
longer than `most_seconds`. Rows are appended as they are measured, and the n-th layer of a
file is the same whenever it is drawn, so an interrupted collection continues where it stopped.
"""

from __future__ import annotations

import csv
import platform
import re
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from cotune.modelling.counting.timing import seconds_of
from cotune.modelling.layer_features import work
from cotune.modelling.layer_rows import SHAPES, TIMES, WORDS, Facts, Layers, write_device

Shape = dict[str, int | str]
_OPTIMISERS: dict[str, Callable[[list[nn.Parameter]], torch.optim.Optimizer]] = {
    "sgd": lambda p: torch.optim.SGD(p, lr=1e-3),
    "momentum": lambda p: torch.optim.SGD(p, lr=1e-3, momentum=0.9),
    "adadelta": torch.optim.Adadelta,
    "adagrad": torch.optim.Adagrad,
    "adam": torch.optim.Adam,
    "rmsprop": torch.optim.RMSprop,
}
_ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "none": nn.Identity,
    "relu": nn.ReLU,
    "tanh": nn.Tanh,
    "sigmoid": nn.Sigmoid,
}
_CORES_OF_A_PROCESSOR = {3: 192, 5: 128, 6: 64, 7: 64, 8: 128, 9: 128, 10: 128}  # by CUDA's major version


@dataclass(frozen=True, slots=True)
class Collection:
    """How layers are drawn and timed.

    On a CPU, which would take minutes for what a GPU does in milliseconds, one forward pass has
    at most `most_products` multiplications and `most_numbers` numbers of input and output.
    Sizes are even in their logarithms, as those of real networks are; drawn `evenly`, as published, nearly all are
    large, and so few can be timed that the small layers of a network are outside all of them.
    """

    warm_up: int = 5
    runs: int = 50
    repeats: int = 5
    most_seconds: float = 1.0
    most_products: float = 2e8
    most_numbers: float = 2e6
    seed: int = 0
    evenly: bool = False


@dataclass(frozen=True, slots=True)
class Timed:
    """One layer that was timed: its shape and the median, least and deviation of its repeats; None if it failed."""

    kind: str
    number: int
    shape: Shape
    ms: tuple[float, float, float] | None


def collect(
    into: Path, kinds: tuple[str, ...], count: int, device: str, how: Collection, *, deadline: float | None = None
) -> Iterator[Timed]:
    """Yield layers as they are timed and written, up to `count` of each kind, or until the clock says `deadline`."""
    into.mkdir(parents=True, exist_ok=True)
    if device == "cpu":
        torch.set_num_threads(1)  # a CPU worker is one core, here as everywhere
    name = device_name(device)
    write_device(into, name, facts(device))
    written = {kind: _rows_in(into / f"{kind}_{name}.csv") for kind in kinds}
    for number in range(min(written.values()), count):
        for kind in kinds:
            if number < written[kind]:
                continue
            if deadline is not None and time.monotonic() > deadline:
                return
            shape = draw(kind, number, how, bounded=device == "cpu")
            timed = Timed(kind, number, shape, _time(kind, shape, device, how))
            _append(into / f"{kind}_{name}.csv", timed)
            yield timed


def draw(kind: str, number: int, how: Collection, *, bounded: bool) -> Shape:
    """Return the n-th random layer of a kind, within the ranges of Justus et al. and what a CPU can bear."""
    rng = np.random.default_rng((how.seed, number, *kind.encode()))
    while True:
        shape = _draw(kind, rng, evenly=how.evenly)
        if not bounded:
            return shape
        done = work(Layers.of(kind, [{name: str(value) for name, value in shape.items()}], "", None))
        products, numbers = done.m * done.n * done.k * done.steps, done.inputs + done.outputs
        if products[0] <= how.most_products and numbers[0] <= how.most_numbers:
            return shape


def _draw(kind: str, rng: np.random.Generator, *, evenly: bool) -> Shape:
    def among(low: int, high: int) -> int:
        if evenly:
            return int(rng.integers(low, high + 1))
        return min(high, int(np.exp(rng.uniform(np.log(low), np.log(high + 1)))))

    def word(name: str) -> str:
        return str(rng.choice(WORDS[name]))

    shape: Shape = {"batch": among(1, 64)}
    if kind == "dense":
        shape |= {"dim_in": among(1, 4095), "dim_out": among(1, 4095)}
    elif kind == "recurrent":
        shape |= {"length": among(1, 100), "dim_in": among(1, 1024), "dim_out": among(1, 1024), "cell": word("cell")}
        shape |= {"bidirectional": int(rng.integers(2))}
    else:
        size = among(1, 512)
        most = max(1, 10_000 // size)
        shape |= {"size_in": size, "kernel": among(1, min(7, size)), "stride": among(1, 4), "padding": word("padding")}
        shape |= {"channels": among(1, most)} if kind == "pool" else {"c_in": among(1, most), "c_out": among(1, most)}
        shape |= {} if kind == "pool" else {"bias": int(rng.integers(2))}
    if kind in ("dense", "conv"):
        shape["activation"] = word("activation")
    training = list(WORDS["optimizer"])[1:]
    shape["optimizer"] = str(rng.choice(training)) if rng.random() < 0.5 else "none"
    return shape


def build(kind: str, shape: Shape) -> tuple[nn.Module, tuple[int, ...]]:
    """Return a layer, and the shape of its input."""
    size = {name: int(value) for name, value in shape.items() if not isinstance(value, str)}
    if kind == "dense":
        layer: nn.Module = nn.Linear(size["dim_in"], size["dim_out"])
        return nn.Sequential(layer, _ACTIVATIONS[str(shape["activation"])]()), (size["batch"], size["dim_in"])
    if kind == "recurrent":
        cells = {"rnn": nn.RNN, "lstm": nn.LSTM, "gru": nn.GRU}
        cell = cells[str(shape["cell"])]
        recurrent = cell(size["dim_in"], size["dim_out"], batch_first=True, bidirectional=bool(size["bidirectional"]))
        return _First(recurrent), (size["batch"], size["length"], size["dim_in"])
    side, kernel, stride = size["size_in"], size["kernel"], size["stride"]
    pad = _padding(side, kernel, stride) if shape["padding"] == "same" else (0, 0)
    before = nn.ZeroPad2d((pad[0], pad[1], pad[0], pad[1]))
    if kind == "pool":
        return nn.Sequential(before, nn.MaxPool2d(kernel, stride)), (size["batch"], size["channels"], side, side)
    layer = nn.Conv2d(size["c_in"], size["c_out"], kernel, stride, bias=bool(size["bias"]))
    activation = _ACTIVATIONS[str(shape["activation"])]()
    return nn.Sequential(before, layer, activation), (size["batch"], size["c_in"], side, side)


class _First(nn.Module):
    """The outputs of a recurrent layer, without its last state."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, inputs: Tensor) -> Tensor:
        outputs: Tensor = self.layer(inputs)[0]
        return outputs


def _padding(side: int, kernel: int, stride: int) -> tuple[int, int]:
    """Return what to add before and after, so that ceil(side / stride) outputs come out."""
    whole = max((-(-side // stride) - 1) * stride + kernel - side, 0)
    return whole // 2, whole - whole // 2


def _time(kind: str, shape: Shape, device: str, how: Collection) -> tuple[float, float, float] | None:
    try:
        step = _step(kind, shape, device)
        once = seconds_of(step, 1, device)
        for _ in range(min(how.warm_up - 1, int(how.most_seconds / how.repeats / once))):
            once = seconds_of(step, 1, device)
        runs = int(max(1, min(how.runs, how.most_seconds / how.repeats / max(once, 1e-9))))
        means = [1e3 * seconds_of(step, runs, device) / runs for _ in range(how.repeats)]
    except (RuntimeError, MemoryError):  # too large for this device: a row without a time, never tried again
        return None
    return statistics.median(means), min(means), statistics.pstdev(means)


def _step(kind: str, shape: Shape, device: str) -> Callable[[], None]:
    """Return one run of a layer: forward alone, or with backward and an update."""
    layer, sizes = build(kind, shape)
    layer = layer.to(device)
    training = shape["optimizer"] != "none"
    inputs = torch.randn(sizes, device=device, requires_grad=training)
    weights = list(layer.parameters())
    optimiser = _OPTIMISERS[str(shape["optimizer"])](weights) if training and weights else None

    def step() -> None:
        with torch.set_grad_enabled(training):
            outputs = layer(inputs)
        if training:
            layer.zero_grad()
            outputs.square().mean().backward()
        if optimiser is not None:
            optimiser.step()

    return step


def device_name(device: str) -> str:
    """Return a name for the device at hand that can stand in a file's name."""
    full = torch.cuda.get_device_name(device) if device.startswith("cuda") else f"cpu-{platform.machine()}"
    return re.sub(r"[^A-Za-z0-9.-]+", "-", full)


def facts(device: str) -> Facts:
    """Return what can be told of the device at hand: by its driver for a GPU, by two short measurements for a CPU."""
    if device.startswith("cuda"):
        told = torch.cuda.get_device_properties(device)
        cores = told.multi_processor_count * _CORES_OF_A_PROCESSOR.get(told.major, 128)
        mhz = told.clock_rate / 1e3
        return Facts(2e-3 * cores * mhz, 2 * told.memory_clock_rate * told.memory_bus_width / 8e6, cores, mhz)
    square, long = torch.randn(768, 768), torch.ones(1 << 24)
    product = min(seconds_of(lambda: square @ square, 1, device) for _ in range(5))
    copied = min(seconds_of(long.clone, 1, device) for _ in range(5))
    return Facts(2e-9 * len(square) ** 3 / product, 2e-9 * long.nbytes / copied, 1, _cpu_mhz())


def _cpu_mhz() -> float:
    told = re.search(r"^cpu MHz\s*:\s*([\d.]+)", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return float(told[1]) if told else float("nan")


def _rows_in(file: Path) -> int:
    """Return how many layers a file holds; a last line that was cut short is taken off."""
    if not file.exists():
        return 0
    whole = file.read_bytes()
    kept = whole[: whole.rfind(b"\n") + 1]
    if kept != whole:
        file.write_bytes(kept)
    return max(kept.count(b"\n") - 1, 0)


def _append(file: Path, timed: Timed) -> None:
    names = (*SHAPES[timed.kind], *TIMES)
    times = ("", "", "") if timed.ms is None else tuple(f"{value:.5g}" for value in timed.ms)
    fresh = not file.exists()
    with file.open("a", newline="", encoding="utf-8") as lines:
        writer = csv.writer(lines, lineterminator="\n")
        if fresh:
            writer.writerow(names)
        writer.writerow([*(timed.shape[name] for name in SHAPES[timed.kind]), *times])
