from __future__ import annotations

import gzip
import io
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from cotune.errors import CotuneError, InvalidFile, NotFound
from cotune.workloads import data, formats
from cotune.workloads.formats import Bytes

GREY = np.random.default_rng(0).integers(0, 256, (12, 28, 28), dtype=np.uint8)
COLOUR = np.random.default_rng(1).integers(0, 256, (12, 3, 32, 32), dtype=np.uint8)
LABELS = np.arange(12, dtype=np.uint8) % 10
TRAIN, TEST = slice(0, 8), slice(8, 12)


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep unpacked copies out of the user's own folder."""
    place = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("XDG_CACHE_HOME", str(place))
    return place / "cotune" / "data"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("COTUNE_DATA", str(tmp_path))
    return tmp_path


def write_idx(folder: Path, squeeze: bool = False) -> None:
    folder.mkdir(exist_ok=True)
    for part, rows in (("train", TRAIN), ("t10k", TEST)):
        for name, array in ((f"{part}-images-idx3-ubyte", GREY[rows]), (f"{part}-labels-idx1-ubyte", LABELS[rows])):
            content = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">i4").tobytes() + array.tobytes()
            if squeeze:
                (folder / f"{name}.gz").write_bytes(gzip.compress(content))
            else:
                (folder / name).write_bytes(content)


def write_grey_npz(folder: Path, name: str) -> None:
    np.savez(folder / f"{name}.npz", x_train=GREY[TRAIN], y_train=LABELS[TRAIN], x_test=GREY[TEST], y_test=LABELS[TEST])


def write_cifar10_npz(folder: Path) -> None:
    parts = {"train-0": slice(0, 5), "train-1": slice(5, 8), "test": TEST}
    for part, rows in parts.items():
        red, green, blue = COLOUR[rows].transpose(1, 0, 2, 3)
        planes = np.stack([green, red - green, blue - green], axis=1)
        down = np.diff(planes, axis=3, prepend=np.uint8(0))
        np.savez(folder / f"cifar10-{part}.npz", d=np.diff(down, axis=2, prepend=np.uint8(0)), y=LABELS[rows])


def write_cifar10_binary(folder: Path) -> None:
    parts = {"data_batch_1": slice(0, 5), "data_batch_2": slice(5, 8), "test_batch": TEST}
    for part, rows in parts.items():
        records = np.concatenate([LABELS[rows, None], COLOUR[rows].reshape(-1, 3072)], axis=1)
        (folder / f"{part}.bin").write_bytes(records.tobytes())


def write_svhn_matlab(folder: Path) -> None:
    from scipy.io import savemat

    for part, rows in (("train", TRAIN), ("test", TEST)):
        labels = np.where(LABELS[rows] == 0, 10, LABELS[rows])[:, None]
        savemat(folder / f"{part}_32x32.mat", {"X": COLOUR[rows].transpose(2, 3, 1, 0), "y": labels})


def pixels(examples: data.Examples, name: str) -> Bytes:
    """Return the pictures that the normalised examples were."""
    source = data.SOURCES[name]
    mean, deviation = (np.array(values).reshape(1, -1, 1, 1) for values in (source.mean, source.deviation))
    pictures: Bytes = ((examples.inputs.numpy() * deviation + mean) * 255).round().astype(np.uint8)
    return pictures


@pytest.mark.parametrize("name", ["mnist", "fashion-mnist"])
@pytest.mark.parametrize("squeeze", [False, True])
def test_idx_files_are_read_plain_and_gzipped(folder: Path, name: str, squeeze: bool) -> None:
    write_idx(folder / name, squeeze)
    loaded = data.load(name)
    assert np.array_equal(pixels(loaded.train, name)[:, 0], GREY[TRAIN])
    assert np.array_equal(pixels(loaded.test, name)[:, 0], GREY[TEST])
    assert loaded.test.labels.tolist() == LABELS[TEST].tolist()


def test_files_are_unpacked_once_until_they_change(folder: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_grey_npz(folder, "mnist")
    first = data.load("mnist")
    with monkeypatch.context() as without_readers:
        without_readers.setitem(data.SOURCES, "mnist", replace(data.SOURCES["mnist"], readers=()))
        assert data.load("mnist").train.inputs.equal(first.train.inputs)
    np.savez(folder / "mnist.npz", x_train=GREY, y_train=LABELS, x_test=GREY, y_test=LABELS)
    assert len(data.load("mnist").train) == len(GREY)
    (copy,) = cache.iterdir()
    for torn in (b"torn", b""):
        copy.write_bytes(torn)
        assert len(data.load("mnist").train) == len(GREY)


def test_a_cache_that_cannot_be_written_is_done_without(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    write_grey_npz(folder, "mnist")
    assert len(data.load("mnist").train) == 8


def test_a_folder_that_holds_the_files_directly_will_do(folder: Path) -> None:
    write_grey_npz(folder, "mnist")
    loaded = data.load("mnist", limit=3)
    assert np.array_equal(pixels(loaded.train, "mnist")[:, 0], GREY[:3])
    assert len(loaded.test) == 4


@pytest.mark.parametrize(
    ("name", "write"),
    [("cifar10", write_cifar10_npz), ("cifar10", write_cifar10_binary), ("svhn", write_svhn_matlab)],
)
def test_colour_pictures_come_back_to_the_last_bit(folder: Path, name: str, write: Callable[[Path], None]) -> None:
    write(folder)
    loaded = data.load(name)
    assert np.array_equal(pixels(loaded.train, name), COLOUR[TRAIN])
    assert np.array_equal(pixels(loaded.test, name), COLOUR[TEST])
    assert loaded.train.labels.tolist() == LABELS[TRAIN].tolist()


def test_svhn_digits_are_cut_from_their_mosaic_row_by_row(folder: Path) -> None:
    shades = np.repeat(np.arange(0, 240, 20, dtype=np.uint8), 1024 // 12 + 1)[:1024]
    mosaic = np.broadcast_to(shades.reshape(32, 1, 32, 1, 1), (32, 32, 32, 32, 3)).reshape(1024, 1024, 3)
    file = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(mosaic)).save(file, "JPEG", quality=92, subsampling=0)
    jpeg = np.frombuffer(file.getvalue() * 2, dtype=np.uint8)
    offsets = np.array([0, len(jpeg) // 2, len(jpeg)])
    for part in ("train", "test"):
        np.savez(folder / f"svhn-{part}.npz", jpeg=jpeg, offsets=offsets, y=np.zeros(1500, np.uint8))
    shown = pixels(data.load("svhn").train, "svhn")
    assert shown.shape == (1500, 3, 32, 32)
    wanted = np.concatenate([shades, shades])[:1500].astype(int)
    assert np.abs(shown.mean(axis=(1, 2, 3)) - wanted).max() < 3


def test_digits_need_no_folder_and_do_not_import_scikit_learn() -> None:
    code = (
        "import sys; from cotune.workloads import data; loaded = data.load('digits');"
        "assert (len(loaded.train), len(loaded.test)) == (1437, 360);"
        "assert abs(loaded.train.inputs.mean()) < 1e-3 and abs(loaded.train.inputs.std() - 1) < 1e-3;"
        "assert 'sklearn' not in sys.modules"
    )
    environment = {name: value for name, value in os.environ.items() if name != "COTUNE_DATA"}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)


def test_digits_are_those_of_scikit_learn() -> None:
    from sklearn.datasets import load_digits

    parts = formats.sklearn_digits()
    ours = np.concatenate([parts.train.pictures, parts.test.pictures])[:, 0, 3:26:3, 3:26:3]
    theirs = (load_digits().images * (255 / 16)).round().astype(np.uint8)
    assert sorted(map(bytes, ours)) == sorted(map(bytes, theirs))


@pytest.mark.parametrize("name", ["mnist", "fashion-mnist", "cifar10", "svhn"])
def test_missing_data_name_the_folder_and_what_to_put_there(
    folder: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(data.SOURCES, name, replace(data.SOURCES[name], beside=()))
    with pytest.raises(NotFound, match=f"(?s){folder}.*COTUNE_DATA.*{name}") as missing:
        data.load(name)
    assert "\n" not in str(missing.value)
    monkeypatch.delenv("COTUNE_DATA")
    with pytest.raises(NotFound, match="COTUNE_DATA is not set"):
        data.load(name)


def test_fashion_is_never_read_as_digits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_idx(tmp_path / "fashion-mnist")
    monkeypatch.setenv("COTUNE_DATA", str(tmp_path / "fashion-mnist"))
    assert len(data.load("fashion-mnist").train) == 8
    with pytest.raises(NotFound):
        data.load("mnist")


@pytest.mark.parametrize("spoil", [lambda content: content[:-5], lambda content: b"garbage" + content])
def test_a_torn_file_is_named(folder: Path, spoil: Callable[[bytes], bytes]) -> None:
    write_idx(folder)
    file = folder / "train-images-idx3-ubyte"
    file.write_bytes(spoil(file.read_bytes()))
    with pytest.raises(InvalidFile, match=str(folder)):
        data.load("mnist")
    write_grey_npz(folder, "mnist")
    (folder / "mnist.npz").write_bytes(spoil((folder / "mnist.npz").read_bytes()[:300]))
    with pytest.raises(InvalidFile, match=r"mnist\.npz"):
        data.load("mnist")


def test_half_a_data_set_is_not_taken_for_none(folder: Path) -> None:
    write_cifar10_npz(folder)
    (folder / "cifar10-test.npz").unlink()
    with pytest.raises(CotuneError, match=r"cifar10-test\.npz"):
        data.load("cifar10")


@pytest.mark.skipif("COTUNE_DATA" not in os.environ, reason="needs COTUNE_DATA")
@pytest.mark.parametrize(
    ("name", "test_examples", "first_class"),
    [("mnist", 10_000, 5923), ("fashion-mnist", 10_000, 6000), ("svhn", 26_032, 4948), ("cifar10", 10_000, None)],
)
def test_the_real_files_are_whole_and_normalised(name: str, test_examples: int, first_class: int | None) -> None:
    loaded = data.load(name)
    inputs = loaded.train.inputs
    assert abs(inputs.mean((0, 2, 3))).max() < 0.005
    assert abs(inputs.std((0, 2, 3)) - 1).max() < 0.005
    assert len(loaded.test) == test_examples
    if first_class is not None:
        assert len(loaded.train) == loaded.published
        assert int((loaded.train.labels == 0).sum()) == first_class
