"""Published data sets as recordings, checked on the real files."""

from __future__ import annotations

import csv
import os
from pathlib import Path

import numpy as np
import pytest

from cotune.errors import NotFound
from cotune.recording import Recording, read
from cotune.recording.imported import import_recordings, names
from cotune.space import Configs
from cotune.types import Config

DATA = os.environ.get("COTUNE_DATA")
needs_data = pytest.mark.skipif(DATA is None, reason="needs COTUNE_DATA")


def imported(name: str, folder: Path) -> dict[str, Recording]:
    assert DATA is not None
    source = Path(DATA) / {"mlperf_v0_6": "mlperf-v0.6"}.get(name, name)
    return {path.name: read(path) for path in import_recordings(name, source, folder)}


def seconds(found: Recording, workers: int, batch: int, **axes: object) -> float:
    config = Config.data_parallel(batch, workers, found.cluster.devices[0].name, axes=tuple(sorted(axes.items())))  # type: ignore[arg-type]
    return float(found.epoch_seconds(Configs.of([config]))[0])


@needs_data
@pytest.mark.parametrize("name", names())
def test_every_reader_writes_recordings_that_can_be_read(name: str, tmp_path: Path) -> None:
    found = imported(name, tmp_path)
    assert found
    for recording in found.values():
        assert recording.times or recording.curves
        if recording.times:
            configs = recording.space(with_accuracy=False).configs()
            assert np.all(recording.epoch_seconds(configs) > 0)


@needs_data
def test_pollux_takes_the_fewest_nodes_and_of_those_the_most_even(tmp_path: Path) -> None:
    cifar = imported("pollux", tmp_path)["pollux-cifar10"]
    assert cifar.examples == 50_000
    rows = {
        r["placement"]: float(r["step_time"]) for r in _rows("pollux/cifar10/placements.csv") if r["local_bsz"] == "32"
    }
    for workers, placement in ((1, "1"), (5, "23"), (6, "33"), (7, "34"), (9, "333"), (16, "4444")):
        assert seconds(cifar, workers, 32) == pytest.approx(rows[placement] * 50_000 / (32 * workers)), placement
    twenty = [
        r for r in _rows("pollux/cifar10/scalability.csv") if r["num_replicas"] == "20" and r["local_bsz"] == "32"
    ]
    fewest = min(twenty, key=lambda row: int(row["num_nodes"]))
    assert seconds(cifar, 20, 32) == pytest.approx(float(fewest["step_time"]) * 50_000 / (32 * 20))


@needs_data
def test_pollux_curves_count_true_epochs_and_are_as_recorded(tmp_path: Path) -> None:
    found = imported("pollux", tmp_path)
    curve = found["pollux-cifar10"].curves[None][4096][0]
    first = next(iter(_rows("pollux/cifar10/validation-4096.csv")))
    assert curve.epochs[0] == pytest.approx(int(first["iteration"]) * 4096 / 50_000)
    assert curve.accuracy[0] == float(first["metric"])
    assert found["pollux-yolov3"].job.better == "lower"


@needs_data
def test_zeus_has_power_limits_as_an_axis_and_seeds_per_batch(tmp_path: Path) -> None:
    found = imported("zeus", tmp_path)["zeus-cifar100-shufflenetv2-v100"]
    row = next(r for r in _rows("zeus/cifar100-shufflenetv2/power-v100.csv") if r["optimizer"] == "adadelta")
    limit, batch = int(row["power_limit"]), int(row["batch_size"])
    assert seconds(found, 1, batch, power_limit=limit) == pytest.approx(float(row["time_per_epoch"]))
    assert len(found.curves[None][1024]) > 3
    assert min(found.curves[None][1024][0].accuracy) >= 0.05


@needs_data
def test_the_simulated_table_of_vtrain_is_never_imported(tmp_path: Path) -> None:
    found = imported("vtrain", tmp_path)
    assert sum(len(recording.space(with_accuracy=False)) for recording in found.values()) == 46
    small = found["vtrain-gpt-3.6b"]
    assert seconds(small, 64, 8, tensor=1, pipeline=1, micro_batch=2) == pytest.approx(3.7005 * 1_000_000 / 512)
    repeated = found["vtrain-gpt-175b"]
    expected = np.median([53.9096, 53.9379]) * 1_000_000 / 1536
    assert seconds(repeated, 512, 3, tensor=4, pipeline=32, micro_batch=2) == pytest.approx(expected)


@needs_data
def test_elasticflow_and_gavel_leave_out_what_was_not_measured(tmp_path: Path) -> None:
    elastic = imported("elasticflow", tmp_path)["elasticflow-resnet50_cifar10"]
    assert max(config.workers for config in elastic.space(with_accuracy=False).configs()) == 8
    gavel = imported("gavel", tmp_path)["gavel-physical-resnet-18-v100"]
    row = next(
        r
        for r in _rows("gavel/resnet-18.csv")
        if (r["source"], r["gpu"], r["consolidated"], r["batch_per_worker"], r["workers"])
        == ("gavel-physical", "v100", "1", "64", "4")
    )
    assert seconds(gavel, 4, 64) == pytest.approx(50_000 / (float(row["steps_per_second"]) * 64))


def test_an_unknown_reader_and_an_empty_folder_are_explained(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"there are .*pollux"):
        import_recordings("polux", tmp_path, tmp_path / "out")
    with pytest.raises(NotFound):
        import_recordings("pollux", tmp_path, tmp_path / "out")


def _rows(name: str) -> list[dict[str, str]]:
    assert DATA is not None
    with (Path(DATA) / name).open(newline="") as file:
        return list(csv.DictReader(file))
