"""Published data sets as recordings, checked on the real files."""

from __future__ import annotations

import csv
import gzip
import os
from pathlib import Path

import numpy as np
import pytest

from cotune.errors import InvalidFile, NotFound
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
def test_importers_tell_whether_rates_were_scaled(tmp_path: Path) -> None:
    zeus, pollux = imported("zeus", tmp_path), imported("pollux", tmp_path)
    assert zeus["zeus-cifar100-shufflenetv2-v100"].job.scaling == "fixed"
    assert zeus["zeus-squad-bert_base_uncased-v100"].job.scaling == "scaled"
    assert {recording.job.scaling for recording in pollux.values()} == {"scaled"}


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


RUN_COLUMNS = "round,benchmark,submitter,system,run,accelerator,accelerators,nodes,global_batch_size"
RUNS = f"""{RUN_COLUMNS}
4.0,gnn,A,s8,0,NVIDIA H100-SXM5-80GB,8,1,16384
5.0,rgat,B,s8,0,NVIDIA H100-SXM-80GB,8,1,16384
5.0,rgat,B,s64,1,NVIDIA H100-SXM5-80GB,64,8,65536
4.0,llama2_70b_lora,A,s8,0,NVIDIA H100-SXM5-80GB,8,1,8
4.0,llama2_70b_lora,A,s64,0,NVIDIA H100-SXM5-80GB,64,8,16
2.1,dlrm,Intel,cpu,0,N/A,0,2,32768
2.1,dlrm,Intel,other,0,N/A,0,4,65536
4.0,resnet,A,alone,0,NVIDIA L4,6,1,660
"""
EVALUATIONS = """round,benchmark,submitter,system,run,seconds,progress,progress_unit,metric,value
4.0,gnn,A,s8,0,60,0.05,epoch_num,,0.68
4.0,gnn,A,s8,0,140,0.15,epoch_num,,0.72
5.0,rgat,B,s8,0,30,0.05,epoch_num,,0.67
5.0,rgat,B,s8,0,90,0.14999,epoch_num,,0.73
5.0,rgat,B,s64,1,9,0.05,epoch_num,,0.6
5.0,rgat,B,s64,1,12,0.1,epoch_num,,0.7
4.0,llama2_70b_lora,A,s8,0,800,1536,samples_count,,0.93
4.0,llama2_70b_lora,A,s8,0,1000,1920,samples_count,,0.92
4.0,llama2_70b_lora,A,s64,0,100,1536,samples_count,,0.94
4.0,llama2_70b_lora,A,s64,0,120,1920,samples_count,,0.93
"""


def recent(folder: Path, runs: str = RUNS, evaluations: str = EVALUATIONS) -> Path:
    source = folder / "source"
    source.mkdir()
    (source / "runs.csv.gz").write_bytes(gzip.compress(runs.encode()))
    (source / "evaluations.csv.gz").write_bytes(gzip.compress(evaluations.encode()))
    return source


def test_recent_mlperf_runs_become_repeats_and_seeds_of_one_recording_for_each_task_and_chip(tmp_path: Path) -> None:
    folders = import_recordings("mlperf_recent", recent(tmp_path), tmp_path / "out")
    found = {path.name.removeprefix("mlperf-recent-"): read(path) for path in folders}
    assert sorted(found) == ["llama2_70b_lora-h100-sxm-80gb", "rgat-h100-sxm-80gb"]  # one config alone, or no chips
    graph = found["rgat-h100-sxm-80gb"]
    assert graph.examples == 94_605_581 // 20
    assert graph.job.better == "higher"
    assert seconds(graph, 8, 2048) == pytest.approx(np.median([40, 30]))  # between first and last evaluation
    assert seconds(graph, 64, 1024) == pytest.approx(3)
    assert [list(curve.epochs) for curve in graph.curves[None][16384]] == [[1, 3], [1, 3]]
    assert sorted(curve.accuracy[-1] for curve in graph.curves[None][16384]) == [0.72, 0.73]
    assert graph.cluster.devices[0].per_node == 8


def test_accelerators_that_share_a_model_give_recent_mlperf_curves_and_no_seconds(tmp_path: Path) -> None:
    folders = import_recordings("mlperf_recent", recent(tmp_path), tmp_path / "out")
    tuned = next(read(path) for path in folders if "llama2" in path.name)
    assert tuned.job.better == "lower"
    assert [(config.workers, config.batch_size) for config in tuned.space(with_accuracy=False).configs()] == [(8, 1)]
    assert sorted(tuned.curves[None]) == [8, 16]


def test_a_torn_table_of_recent_mlperf_is_named(tmp_path: Path) -> None:
    source = recent(tmp_path)
    whole = (source / "evaluations.csv.gz").read_bytes()
    (source / "evaluations.csv.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InvalidFile, match=r"evaluations\.csv\.gz"):
        import_recordings("mlperf_recent", source, tmp_path / "out")
    (source / "evaluations.csv.gz").write_bytes(gzip.compress(b"round,benchmark\n4.0,gnn\n"))  # no column of seconds
    with pytest.raises(InvalidFile, match="seconds"):
        import_recordings("mlperf_recent", source, tmp_path / "out")


@needs_data
def test_recent_mlperf_holds_the_real_runs_of_every_chip(tmp_path: Path) -> None:
    found = imported("mlperf_recent", tmp_path)
    assert len(found) == 44
    lora = found["mlperf-recent-llama2_70b_lora-h100-sxm-80gb"]
    assert len(lora.curves[None][8]) > 200
    clicks = found["mlperf-recent-dlrm_dcnv2-h100-sxm-80gb"]
    # The last evaluation of a run meets MLPerf's target, so that whole epochs reach it.
    ends = [curve.accuracy[-1] for curve in clicks.curves[None][55296]]
    assert min(ends) >= 0.80275
    assert all(float(curve.epochs[-1]).is_integer() for curve in clicks.curves[None][55296])


def test_an_unknown_reader_and_an_empty_folder_are_explained(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"there are .*pollux"):
        import_recordings("polux", tmp_path, tmp_path / "out")
    with pytest.raises(NotFound):
        import_recordings("pollux", tmp_path, tmp_path / "out")


def _rows(name: str) -> list[dict[str, str]]:
    assert DATA is not None
    with (Path(DATA) / name).open(newline="") as file:
        return list(csv.DictReader(file))
