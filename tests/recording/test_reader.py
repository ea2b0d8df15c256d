"""Broken recordings: the right answer, or an error that names file and line."""

from __future__ import annotations

import contextlib
import random
import time
from pathlib import Path

import pytest

from cotune.errors import CotuneError, InvalidFile, NotFound
from cotune.recording import AccuracyRow, TimeRow, read, write
from cotune.types import Cluster, Device, Job, LearningRate, RateScaling
from recording.folders import ACCURACY, JOB, TIMES, recording

BROKEN = {
    "missing column": ({"times": "workers,batch,epoch_seconds\n1,2,3\n"}, r"epoch_time\.csv:1: no column 'batch_size'"),
    "other signs between columns": ({"times": "workers;batch_size\n1;2\n"}, "put commas between columns"),
    "text in a number": (
        {"times": TIMES + "8,fast,3\n"},
        r"epoch_time\.csv:6: batch_size: expected a number, not 'fast'",
    ),
    "negative seconds": ({"times": TIMES + "8,10,-3\n"}, r"epoch_time\.csv:6: epoch_seconds: must not be below 0"),
    "zero seconds": ({"times": TIMES + "8,10,0\n"}, r"epoch_time\.csv:6: epoch_seconds: must be above 0"),
    "half a worker": ({"times": TIMES + "1.5,10,3\n"}, r"epoch_time\.csv:6: workers: expected a whole number"),
    "no worker": ({"times": TIMES + "0,10,3\n"}, r"epoch_time\.csv:6: workers: must not be below 1"),
    "not finite": ({"accuracy": ACCURACY + "40,1,nan\n"}, r"accuracy\.csv:6: accuracy: expected a number"),
    "too few cells": ({"accuracy": ACCURACY + "40,1\n"}, r"accuracy\.csv:6: 2 cells, expected 3"),
    "a column twice": ({"times": "workers,workers,batch_size,epoch_seconds\n"}, r"epoch_time\.csv:1: column 'workers'"),
    "empty file": ({"times": ""}, r"epoch_time\.csv: empty"),
    "only a header": ({"accuracy": "global_batch,epoch,accuracy\n"}, r"accuracy\.csv: no rows"),
    "an evaluation twice": ({"accuracy": ACCURACY + "10,1,0.9\n"}, r"accuracy\.csv:6: epoch 1 of global batch 10"),
    "no tables": ({"times": None, "accuracy": None}, r"needs epoch_time\.csv, accuracy\.csv or both"),
    "no examples": ({"job": "name: x\n"}, r"job\.yaml: examples"),
    "a wrong better": ({"job": JOB.replace("higher", "best")}, r"job\.yaml:4: better: expected higher or lower"),
    "a device misspelt": (
        {"job": JOB.replace("per_node", "price_per_hours")},
        r"job\.yaml:5: devices: t4: price_per_hours: unknown key.*price_per_hour",
    ),
    "a device that is a number": (
        {"job": JOB.replace("{per_node: 4}", "0.35")},
        r"job\.yaml:5: devices: t4: expected price_per_hour and per_node, not 0\.35",
    ),
    "a key misspelt": ({"job": JOB.replace("metric", "metrik")}, r"job\.yaml:3: metrik: unknown key"),
    "not YAML": ({"job": "name: [x\n"}, r"job\.yaml:\d+: not valid YAML"),
    "not a mapping": ({"job": "- x\n"}, r"job\.yaml: expected keys and values"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_recording_is_explained_by_file_and_line(name: str, tmp_path: Path) -> None:
    parts, words = BROKEN[name]
    with pytest.raises(InvalidFile, match=words):
        read(recording(tmp_path / "broken", **parts))  # type: ignore[arg-type]


def test_a_folder_that_is_no_recording_is_said_to_be_none(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"no recording at"):
        read(tmp_path / "nowhere")
    with pytest.raises(NotFound, match=r"no job\.yaml"):
        read(tmp_path)


def test_binary_in_a_table_is_an_error_and_not_a_crash(tmp_path: Path) -> None:
    folder = recording(tmp_path / "binary")
    (folder / "accuracy.csv").write_bytes(bytes(range(256)))
    with pytest.raises(InvalidFile, match=r"accuracy\.csv"):
        read(folder)


def test_what_others_add_to_a_job_does_not_matter(tmp_path: Path) -> None:
    plain = read(recording(tmp_path / "plain"))
    job = JOB.replace("1200", "1.2e3").replace("per_node: 4", "per_node: 4, memory_gb: 16")
    told = read(recording(tmp_path / "told", job=job + "lr_rule: as the author liked\nsource: elsewhere\n"))
    assert (told.job, told.cluster) == (plain.job, plain.cluster)


@pytest.mark.parametrize(
    ("rule", "scaling"),
    [
        ("fixed", "fixed"),
        ("Fixed", "fixed"),
        ("power(0)", "fixed"),
        ("linear", "scaled"),
        ("sqrt", "scaled"),
        ("power(0.3)", "scaled"),
        ("adascale", "scaled"),
        ("tuned", "scaled"),
        ("scaled", "scaled"),
        ("unknown", "unknown"),
        ("[1, 2]", "unknown"),
        ("", "unknown"),
    ],
)
def test_a_recording_tells_whether_its_rate_grows_with_the_batch(tmp_path: Path, rule: str, scaling: str) -> None:
    assert read(recording(tmp_path / "told", job=f"{JOB}lr_rule: {rule}\n")).job.scaling == scaling


@pytest.mark.parametrize("scaling", ["fixed", "scaled", "unknown"])
def test_what_is_known_of_the_rate_is_written_and_read_again(tmp_path: Path, scaling: RateScaling) -> None:
    job = Job("again", examples=100, scaling=scaling)
    assert read(write(tmp_path / "again", job, [TimeRow(1, 10, 2.0)])).job.scaling == scaling


def test_the_rule_of_a_job_file_is_the_rule_of_its_recording(tmp_path: Path) -> None:
    job = Job("again", examples=100, lr=LearningRate(0.1, 64, "fixed"), scaling="fixed")
    assert read(write(tmp_path / "again", job, [TimeRow(1, 10, 2.0)])).job.scaling == "fixed"


def test_seeds_and_repeats_count_by_their_labels_in_any_order_of_rows(tmp_path: Path) -> None:
    times = [f"1,10,{seconds},{repeat}" for repeat, seconds in ((1, 5), (2, 6), (10, 7))]
    points = [f"10,{epoch},{seed / 10},{seed}" for seed in (1, 2, 3) for epoch in (1, 2)]
    found = []
    for name, way in (("forth", 1), ("back", -1)):
        rows = "\n".join(["workers,batch_size,epoch_seconds,repeat", *times[::way]])
        curves = "\n".join(["global_batch,epoch,accuracy,seed", *points[::way]])
        found.append(read(recording(tmp_path / name, times=rows, accuracy=curves)))
    assert [one.times for one in found] == [found[0].times] * 2
    assert [one.curves for one in found] == [found[0].curves] * 2
    assert [next(iter(one.times.values()))[1][10] for one in found] == [(5.0, 6.0, 7.0)] * 2


def test_rows_may_come_in_any_order_and_twice(tmp_path: Path) -> None:
    straight = read(recording(tmp_path / "straight"))
    header, *rows = TIMES.splitlines()
    points = ACCURACY.splitlines()
    random.Random(1).shuffle(rows)
    shuffled = read(
        recording(
            tmp_path / "shuffled",
            times="\n".join([header, *rows, rows[0], ""]),
            accuracy="\n".join([points[0], *reversed(points[1:]), points[1]]),
        )
    )
    configs = straight.space(with_accuracy=False).configs()
    assert shuffled.epoch_seconds(configs) == pytest.approx(straight.epoch_seconds(configs))
    assert {b: c[0].epochs for b, c in shuffled.curves[None].items()} == {10: (1, 3), 160: (1, 4)}


def test_one_worker_count_and_one_curve_are_a_recording(tmp_path: Path) -> None:
    times = "workers,batch_size,epoch_seconds\n2,10,80\n2,40,20\n"
    found = read(recording(tmp_path / "one", times=times, accuracy="global_batch,epoch,accuracy\n20,1,0.2\n20,2,0.3\n"))
    assert [(c.workers, c.batch_size) for c in found.space(with_accuracy=True).configs()] == [(2, 10)]


def test_rows_of_a_config_without_a_repeat_are_repeats(tmp_path: Path) -> None:
    times = "workers,batch_size,epoch_seconds\n1,10,1\n1,10,2\n1,10,6\n"
    found = read(recording(tmp_path / "again", times=times, accuracy=None))
    assert found.epoch_seconds(found.space(with_accuracy=False).configs()).tolist() == pytest.approx([2])


def test_a_hundred_thousand_rows_are_read_in_seconds(tmp_path: Path) -> None:
    rows = [f"{w},{b},{1000 / w + b}" for w in range(1, 101) for b in range(1, 1001)]
    begun = time.process_time()
    found = read(recording(tmp_path / "large", times="workers,batch_size,epoch_seconds\n" + "\n".join(rows)))
    space = found.space(with_accuracy=True)
    assert time.process_time() - begun < 30
    assert all(10 <= config.global_batch <= 160 for config in space.configs())


def test_prices_are_read_back_in_their_currency_and_by_node(tmp_path: Path) -> None:
    there = Device("t4", count=8, price_per_hour=0.35, per_node=4, bill="node")
    folder = write(tmp_path / "out", Job("out", examples=100), [TimeRow(1, 16, 2.0, "t4")], (), [there], currency="EUR")
    assert read(folder).cluster == Cluster((there,), "EUR")


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    times = [TimeRow(1, 8, 2.5, "t4", repeat="a", axes=(("precision", "fp32"),)), TimeRow(2, 8, 1.5, "t4", repeat="a")]
    points = [AccuracyRow(8, 0.5, 0.25, "s"), AccuracyRow(8, 1, 0.5, "s")]
    folder = write(tmp_path / "out", Job("out", examples=100), times, points, [Device("t4", per_node=4)])
    found = read(folder)
    assert [(one.name, one.per_node) for one in found.cluster.devices] == [("t4", 4)]
    assert found.times["t4", 1, 0, (("precision", "fp32"),)] == {1: {8: (2.5,)}}
    assert found.times["t4", 1, 0, ()] == {2: {8: (1.5,)}}
    assert found.curves[None][8][0].accuracy == (0.25, 0.5)


@pytest.mark.parametrize("seed", range(20))
def test_garbage_in_a_table_never_ends_in_anything_but_a_clear_error(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    text = list(TIMES)
    for _ in range(5):
        text[rng.randrange(len(text))] = rng.choice(',\n"x-.9 e')
    with contextlib.suppress(CotuneError):
        read(recording(tmp_path / "garbage", times="".join(text))).space(with_accuracy=True)
