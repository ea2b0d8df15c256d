"""Files of pictures as they are passed around, read into plain arrays.

Each reader takes a folder and returns the two parts of a data set as uint8 pictures
(n, channels, side, side) with labels, or None where its files are not there. A file that
is there but cannot be read is an InvalidFile: it is named, and never skipped.

Unpacking takes seconds, and every worker of every run would pay them: pictures are unpacked once and kept in the user's
cache folder. A copy is known by the names, sizes and times of the files it was made from; any change makes it anew, and
the old one goes. A copy that cannot be read or written is no error: the files themselves are read.
"""

from __future__ import annotations

import gzip
import hashlib
import importlib.util
import io
import os
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt
from platformdirs import user_cache_path

from cotune.errors import InvalidFile, NotFound, missing_extra
from cotune.safety import gzipped

Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Part:
    """Pictures with their labels."""

    pictures: Bytes
    labels: Bytes

    def __post_init__(self) -> None:
        if self.pictures.ndim != 4 or self.labels.shape != self.pictures.shape[:1]:
            raise ValueError(f"{self.labels.shape} labels do not fit pictures of {self.pictures.shape}")


@dataclass(frozen=True, slots=True)
class Parts:
    """What a data set trains on and what it is tested on."""

    train: Part
    test: Part


Reader = Callable[[Path], Parts | None]


def idx(folder: Path) -> Parts | None:
    """Read the four IDX files of MNIST and its kin, plain or gzipped."""
    files = [
        _first(folder, f"{part}-{what}-idx{rank}-ubyte", f"{part}-{what}.idx{rank}-ubyte")
        for part in ("train", "t10k")
        for what, rank in (("images", 3), ("labels", 1))
    ]
    if all(file is None for file in files):
        return None
    there = [file for file in files if file is not None]
    if len(there) < len(files):
        raise NotFound(f"{folder} holds {len(there)} of the 4 IDX files; the others are missing")
    with _reading(folder):
        train, train_labels, test, test_labels = (_idx_array(file) for file in there)
        return Parts(Part(train[:, None], train_labels), Part(test[:, None], test_labels))


def grey_npz(name: str) -> Reader:
    """Return a reader of `NAME.npz` with x_train, y_train, x_test and y_test."""

    def read(folder: Path) -> Parts | None:
        file = folder / f"{name}.npz"
        if not file.is_file():
            return None
        with _reading(file), np.load(file) as arrays:
            return Parts(
                Part(arrays["x_train"][:, None], arrays["y_train"]), Part(arrays["x_test"][:, None], arrays["y_test"])
            )

    return read


def cifar10_npz(folder: Path) -> Parts | None:
    """Read `cifar10-train-*.npz` and `cifar10-test.npz`: green, red and blue as differences of neighbours."""
    trains = sorted(folder.glob("cifar10-train-*.npz"))
    test = folder / "cifar10-test.npz"
    return _joined(_differences, trains, test)


def cifar10_binary(folder: Path) -> Parts | None:
    """Read the authors' binary version: `data_batch_1.bin` to `data_batch_5.bin` and `test_batch.bin`."""
    return _joined(_cifar10_records, sorted(folder.glob("data_batch_[1-5].bin")), folder / "test_batch.bin")


def svhn_npz(folder: Path) -> Parts | None:
    """Read `svhn-train.npz` and `svhn-test.npz`: JPEG mosaics of 32 x 32 digits."""
    train = folder / "svhn-train.npz"
    return _joined(_mosaics, [train] if train.is_file() else [], folder / "svhn-test.npz")


def svhn_matlab(folder: Path) -> Parts | None:
    """Read the authors' `train_32x32.mat` and `test_32x32.mat`, in which ten stands for nought."""
    train = folder / "train_32x32.mat"
    return _joined(_matlab, [train] if train.is_file() else [], folder / "test_32x32.mat")


def sklearn_digits() -> Parts:
    """Read the 1,797 digits of 8 x 8 pixels in scikit-learn's own folder, without importing it.

    Each pixel becomes 3 x 3 and a border of two brings the picture to MNIST's 28 x 28. Neighbours
    in the file are by the same hand, so they are shuffled, once and for all, before every fifth
    is kept for the test.
    """
    package = importlib.util.find_spec("sklearn")
    if package is None or package.origin is None:
        raise missing_extra("scikit-learn, which holds the digits,", "workloads")
    file = Path(package.origin).parent / "datasets" / "data" / "digits.csv.gz"
    if not file.is_file():
        raise NotFound(f"this scikit-learn does not hold {file}; reinstall it: pip install 'cotune[workloads]'")
    with _reading(file), gzip.open(file) as lines:
        table = np.loadtxt(lines, delimiter=",", dtype=np.uint8)
    table = np.random.default_rng(0).permutation(table)
    ink = (table[:, :64].reshape(-1, 8, 8) * (255 / 16)).round().astype(np.uint8)
    large = ink.repeat(3, axis=1).repeat(3, axis=2)
    pictures = np.pad(large, ((0, 0), (2, 2), (2, 2)))[:, None]
    kept = len(table) * 4 // 5
    return Parts(Part(pictures[:kept], table[:kept, 64]), Part(pictures[kept:], table[kept:, 64]))


def _first(folder: Path, *names: str) -> Path | None:
    """Return the first of the files that is there, gzipped or not."""
    files = (folder / f"{name}{ending}" for name in names for ending in ("", ".gz"))
    return next((file for file in files if file.is_file()), None)


def _idx_array(file: Path) -> Bytes:
    """Return the array of an IDX file: two zero bytes, type 8, the rank, the sizes, the numbers."""
    data = file.read_bytes()
    if file.suffix == ".gz":
        data = gzipped.decompress(data)
    if data[:3] != b"\x00\x00\x08":
        raise ValueError(f"{file.name} is not an IDX file of bytes")
    rank = data[3]
    sizes = np.frombuffer(data, dtype=">i4", count=rank, offset=4)
    return np.frombuffer(data, dtype=np.uint8, offset=4 + 4 * rank).reshape(sizes)


def _joined(read: Callable[[Path], Part], trains: list[Path], test: Path) -> Parts | None:
    """Return the training files one after the other, and the test file."""
    if not trains and not test.is_file():
        return None
    if not trains or not test.is_file():
        missing = test.name if trains else "its training files"
        raise NotFound(f"{test.parent} holds a part of the data set only: {missing} not found")
    parts = []
    for file in (*trains, test):
        with _reading(file):
            parts.append(read(file))
    pictures = np.concatenate([part.pictures for part in parts[:-1]])
    return Parts(Part(pictures, np.concatenate([part.labels for part in parts[:-1]])), parts[-1])


def _differences(file: Path) -> Part:
    with np.load(file) as arrays:
        planes = arrays["d"].cumsum(axis=2, dtype=np.uint8).cumsum(axis=3, dtype=np.uint8)
        green = planes[:, 0]
        return Part(np.stack([planes[:, 1] + green, green, planes[:, 2] + green], axis=1), arrays["y"])


def _cifar10_records(file: Path) -> Part:
    records = np.fromfile(file, dtype=np.uint8).reshape(-1, 1 + 3 * 32 * 32)
    return Part(records[:, 1:].reshape(-1, 3, 32, 32), records[:, 0])


def _mosaics(file: Path) -> Part:
    try:
        from PIL import Image
    except ImportError:
        raise missing_extra("Pillow, which reads the SVHN pictures,", "workloads") from None
    with np.load(file) as arrays:
        labels, jpeg, offsets = arrays["y"], arrays["jpeg"].tobytes(), arrays["offsets"]
    tiles = []
    for start, end in pairwise(offsets):
        mosaic = np.asarray(Image.open(io.BytesIO(jpeg[start:end])))
        tiles.append(mosaic.reshape(32, 32, 32, 32, 3).transpose(0, 2, 4, 1, 3).reshape(1024, 3, 32, 32))
    return Part(np.concatenate(tiles)[: len(labels)], labels)


def _matlab(file: Path) -> Part:
    from scipy.io import loadmat

    arrays = loadmat(file)
    labels = arrays["y"].ravel() % 10
    return Part(np.ascontiguousarray(arrays["X"].transpose(3, 2, 0, 1)), labels.astype(np.uint8))


@contextmanager
def _reading(what: Path) -> Iterator[None]:
    """Turn whatever a torn or foreign file makes of a reader into one clear error."""
    try:
        yield
    except (OSError, ValueError, KeyError, IndexError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise InvalidFile(f"cannot read {what}: {error}") from error


def read(name: str, folder: Path, readers: tuple[Reader, ...]) -> Parts | None:
    """Return what the first fitting reader finds in the folder, from the copy if there is one."""
    if not folder.is_dir():
        return None
    kept = user_cache_path("cotune") / "data" / f"{name}-{_fingerprint(folder)}.npz"
    # Without a copy, or with one that another process left torn, the data are read as if for the first time.
    with suppress(OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile), np.load(kept) as arrays:
        return Parts(Part(arrays["x_train"], arrays["y_train"]), Part(arrays["x_test"], arrays["y_test"]))
    parts = next((parts for reader in readers if (parts := reader(folder)) is not None), None)
    if parts is not None:
        with suppress(OSError):  # on a full or read-only disk the next start reads them again
            _keep(kept, name, parts)
    return parts


def _fingerprint(folder: Path) -> str:
    facts = sorted(
        (entry.name, entry.stat().st_size, entry.stat().st_mtime_ns) for entry in os.scandir(folder) if entry.is_file()
    )
    return hashlib.sha256(repr((str(folder.resolve()), facts)).encode()).hexdigest()[:16]


def _keep(file: Path, name: str, parts: Parts) -> None:
    """Write the copy, whole or not at all, and drop those of other days."""
    file.parent.mkdir(parents=True, exist_ok=True)
    # Emulated nodes number their processes alone, so a process number would not tell two writers apart.
    with tempfile.NamedTemporaryFile(dir=file.parent, prefix=file.stem, delete=False) as content:
        beside = Path(content.name)
        try:
            np.savez(
                content,
                x_train=parts.train.pictures,
                y_train=parts.train.labels,
                x_test=parts.test.pictures,
                y_test=parts.test.labels,
            )
            content.flush()
            beside.replace(file)
        finally:
            beside.unlink(missing_ok=True)
    for other in file.parent.glob(f"{name}-{'[0-9a-f]' * 16}.npz"):
        if other != file:
            other.unlink(missing_ok=True)
