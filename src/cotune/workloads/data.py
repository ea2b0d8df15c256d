"""Data sets held in memory as normalised float32 tensors.

    x = (pixel / 255 - mean) / deviation        per channel, over the training part

`digits` comes with scikit-learn. The others are read from the folder named by COTUNE_DATA,
in a sub-folder of their name or directly; Debian's dataset-fashion-mnist is found by itself.
A new data set is one entry in SOURCES.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from cotune.errors import NotFound, suggestion
from cotune.workloads import formats
from cotune.workloads.models import PictureShape


@dataclass(frozen=True, slots=True)
class Source:
    """Which formats a data set comes in, its usual normalisation and how much there is of it."""

    readers: tuple[formats.Reader, ...]
    mean: tuple[float, ...]
    deviation: tuple[float, ...]
    examples: int
    files: str = ""
    beside: tuple[str, ...] = ()


SOURCES: dict[str, Source] = {
    "digits": Source((), (0.2244,), (0.3493,), 1_437),
    "mnist": Source(
        (formats.grey_npz("mnist"), formats.idx),
        (0.1307,),
        (0.3081,),
        60_000,
        "mnist.npz or the four IDX files (train-images-idx3-ubyte, ..., also gzipped)",
    ),
    "fashion-mnist": Source(
        (formats.grey_npz("fashion-mnist"), formats.idx),
        (0.2860,),
        (0.3530,),
        60_000,
        "fashion-mnist.npz or the four IDX files, or install Debian's dataset-fashion-mnist",
        ("/usr/share/datasets/fashion-mnist",),
    ),
    "cifar10": Source(
        (formats.cifar10_npz, formats.cifar10_binary),
        (0.4914, 0.4822, 0.4465),
        (0.2470, 0.2435, 0.2616),
        50_000,
        "cifar10-train-0.npz, cifar10-train-1.npz and cifar10-test.npz, or the six .bin files of the binary version",
    ),
    "svhn": Source(
        (formats.svhn_npz, formats.svhn_matlab),
        (0.4377, 0.4438, 0.4728),
        (0.1981, 0.2010, 0.1970),
        73_257,
        "svhn-train.npz and svhn-test.npz, or train_32x32.mat and test_32x32.mat",
    ),
}


@dataclass(frozen=True, slots=True)
class Examples:
    """Inputs and the classes they belong to."""

    inputs: Tensor
    labels: Tensor

    def __len__(self) -> int:
        return len(self.labels)

    def to(self, device: torch.device) -> Examples:
        return Examples(self.inputs.to(device), self.labels.to(device))

    def batches(self, size: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield inputs and labels, `size` at a time."""
        yield from zip(torch.split(self.inputs, size), torch.split(self.labels, size), strict=True)

    def share(self, rank: int, workers: int) -> Examples:
        """Return one worker's part; the parts differ by one example at most."""
        return Examples(self.inputs.tensor_split(workers)[rank], self.labels.tensor_split(workers)[rank])


@dataclass(frozen=True, slots=True)
class Data:
    """A data set, ready to train on; `published` is how many training examples it has in full."""

    train: Examples
    test: Examples
    published: int

    @property
    def shape(self) -> PictureShape:
        _, channels, side, _ = self.train.inputs.shape
        return PictureShape(channels, side)

    def to(self, device: torch.device) -> Data:
        return Data(self.train.to(device), self.test.to(device), self.published)


def load(name: str, limit: int | None = None, test_limit: int | None = None) -> Data:
    """Return the named data set, the first `limit` of its training and `test_limit` of its test examples."""
    if name not in SOURCES:
        raise NotFound(f"no data set named {name!r}{suggestion(name, SOURCES)}; there are {', '.join(SOURCES)}")
    source = SOURCES[name]
    parts = formats.sklearn_digits() if name == "digits" else _found(name, source)
    return Data(
        _normalised(parts.train, source, limit), _normalised(parts.test, source, test_limit), published=source.examples
    )


def _found(name: str, source: Source) -> formats.Parts:
    folders = _folders(name, source)
    for folder in folders:
        parts = formats.read(name, folder, source.readers)
        if parts is not None:
            return parts
    looked = " and ".join(str(folder) for folder in folders) or "no folder, as COTUNE_DATA is not set"
    raise NotFound(
        f"no {name} data found (looked in {looked}): set COTUNE_DATA to a folder that holds {source.files}, "
        f"there or in a sub-folder {name}"
    )


def _folders(name: str, source: Source) -> list[Path]:
    """Return where to look. A folder named after one data set is never read as another."""
    named = os.environ.get("COTUNE_DATA")
    given = [] if not named else [Path(named) / name, Path(named)]
    others = SOURCES.keys() - {name}
    return [folder for folder in (*given, *map(Path, source.beside)) if folder.name not in others]


def _normalised(part: formats.Part, source: Source, limit: int | None) -> Examples:
    inputs = torch.tensor(part.pictures[:limit], dtype=torch.float32)
    mean, deviation = (torch.tensor(values).view(1, -1, 1, 1) * 255 for values in (source.mean, source.deviation))
    labels = torch.tensor(part.labels[:limit], dtype=torch.int64)
    return Examples(inputs.sub_(mean).div_(deviation), labels)
