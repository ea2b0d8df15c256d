"""The five rules of replay, by examples computed by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cotune.recording import Recording, least_epochs, read
from cotune.recording.truth import first_meeting
from cotune.space import Configs
from cotune.types import Config
from recording.folders import TIMES, recording


def config(workers: int, batch_size: int, device: str = "t4", **named: object) -> Config:
    return Config.data_parallel(batch_size, workers, device, axes=tuple(sorted(named.items())))  # type: ignore[arg-type]


def seconds(found: Recording, *configs: Config) -> list[float]:
    return found.epoch_seconds(Configs.of(configs)).tolist()


@pytest.fixture
def small(tmp_path: Path) -> Recording:
    return read(recording(tmp_path / "small"))


def test_seconds_between_batches_are_linear_in_logarithms(small: Recording) -> None:
    # 80 at 10 and 20 at 40: one doubling of the batch halves them.
    assert seconds(small, config(1, 10), config(1, 20), config(1, 40)) == pytest.approx([80, 40, 20])


def test_seconds_at_another_worker_count_lie_between_its_neighbours(small: Recording) -> None:
    # 80 on 1 and 40 on 4 workers: on 2, half way in logarithms, sqrt(80 x 40).
    assert seconds(small, config(2, 10), config(2, 20)) == pytest.approx([(80 * 40) ** 0.5, (40 * 20) ** 0.5])


def test_seconds_outside_what_was_recorded_are_not_defined(small: Recording) -> None:
    outside = (config(1, 9), config(1, 41), config(5, 10), config(1, 10, "v100"))
    assert np.isnan(seconds(small, *outside)).all()


def test_both_neighbouring_worker_counts_must_cover_the_batch(tmp_path: Path) -> None:
    found = read(recording(tmp_path / "holes", times=TIMES.replace("4,10,40\n", "4,20,40\n")))
    assert np.isnan(seconds(found, config(2, 10), config(4, 10))).all()
    assert np.isfinite(seconds(found, config(2, 30))).all()


def test_the_space_is_recorded_counts_times_recorded_batches_where_the_truth_is_defined(tmp_path: Path) -> None:
    times = "workers,batch_size,epoch_seconds\n1,10,80\n1,40,20\n4,20,40\n4,40,10\n"
    found = read(recording(tmp_path / "space", times=times))
    by_time = {(c.workers, c.batch_size) for c in found.space(with_accuracy=False).configs()}
    assert by_time == {(1, 10), (1, 20), (1, 40), (4, 20), (4, 40)}
    narrow = read(
        recording(tmp_path / "narrow", times=times, accuracy="global_batch,epoch,accuracy\n20,1,0.1\n80,1,0.2\n")
    )
    with_accuracy = {(c.workers, c.batch_size) for c in narrow.space(with_accuracy=True).configs()}
    assert with_accuracy == {(1, 20), (1, 40), (4, 20)}


def test_accuracy_is_linear_in_the_epoch_and_in_the_logarithm_of_the_batch(small: Recording) -> None:
    at_10 = small.accuracy(config(1, 10))
    at_40 = small.accuracy(config(1, 40))
    assert at_10 is not None
    assert at_40 is not None
    np.testing.assert_allclose(at_10[0], [0.2, 0.4, 0.6, np.nan])
    # 40 is half way from 10 to 160 in logarithms; epoch 4 is after the end of the curve at 10.
    np.testing.assert_allclose(at_40[0], [0.15, 0.3, 0.45, np.nan])


def test_accuracy_before_the_first_point_is_unknown(tmp_path: Path) -> None:
    found = read(recording(tmp_path / "late", accuracy="global_batch,epoch,accuracy\n10,1.5,0.2\n10,3.5,0.6\n"))
    curve = found.accuracy(config(1, 10))
    assert curve is not None
    np.testing.assert_allclose(curve[0], [np.nan, 0.3, 0.5])


def test_accuracy_is_as_recorded_and_not_the_best_so_far(tmp_path: Path) -> None:
    found = read(recording(tmp_path / "fall", accuracy="global_batch,epoch,accuracy\n10,1,0.5\n10,2,0.1\n"))
    curve = found.accuracy(config(1, 10))
    assert curve is not None
    np.testing.assert_allclose(curve[0], [0.5, 0.1])


def test_a_recording_may_tell_accuracy_by_workers(tmp_path: Path) -> None:
    rows = "global_batch,epoch,accuracy,workers\n40,1,0.5,1\n40,1,0.3,4\n"
    found = read(recording(tmp_path / "workers", accuracy=rows))
    one, four = found.accuracy(config(1, 40)), found.accuracy(config(4, 10))
    assert one is not None
    assert four is not None
    assert (one[0, 0], four[0, 0]) == (0.5, 0.3)


def test_a_run_stops_at_the_first_whole_epoch_that_meets_the_target() -> None:
    curves = np.array([[np.nan, 0.4, 0.6, 0.5], [0.1, 0.2, 0.3, 0.4]])
    np.testing.assert_array_equal(first_meeting(curves, 0.5), [3, np.inf])


def test_the_truth_of_repeats_is_their_median_and_a_probe_draws_one(tmp_path: Path) -> None:
    rows = "workers,batch_size,epoch_seconds,repeat\n1,10,1,a\n1,10,2,b\n1,10,9,c\n"
    found = read(recording(tmp_path / "repeats", times=rows, accuracy=None))
    assert seconds(found, config(1, 10)) == [2]
    drawn = [found.draw_epoch_seconds(config(1, 10), np.random.default_rng(seed)) or 0.0 for seed in range(40)]
    assert {round(value, 9) for value in drawn} == {1, 2, 9}


def test_the_truth_of_seeds_is_all_of_them_and_a_probe_follows_one(tmp_path: Path) -> None:
    rows = "global_batch,epoch,accuracy,seed\n10,1,0.1,0\n10,2,0.2,0\n10,1,0.5,1\n10,2,0.6,1\n"
    found = read(recording(tmp_path / "seeds", accuracy=rows))
    curves = found.accuracy(config(1, 10))
    assert curves is not None
    np.testing.assert_allclose(curves, [[0.1, 0.2], [0.5, 0.6]])
    drawn = found.draw_accuracy(config(1, 10), np.random.default_rng(0))
    assert drawn is not None
    assert drawn.tolist() in curves.tolist()


def test_halves_share_no_repeat_and_no_seed_where_there_are_several(tmp_path: Path) -> None:
    times = "workers,batch_size,epoch_seconds,repeat\n1,10,1,a\n1,10,2,b\n1,10,9,c\n1,40,5,a\n"
    accuracy = "global_batch,epoch,accuracy,seed\n10,1,0.1,0\n10,1,0.5,1\n40,1,0.4,0\n"
    probes, truth = read(recording(tmp_path / "halves", times=times, accuracy=accuracy)).halves()
    layout = next(iter(probes.times))
    assert set(probes.times[layout][1][10]).isdisjoint(truth.times[layout][1][10])
    assert set(probes.curves[None][10]).isdisjoint(truth.curves[None][10])
    assert probes.times[layout][1][40] == truth.times[layout][1][40] == (5,)


def test_the_fewest_nodes_count(tmp_path: Path) -> None:
    rows = "workers,batch_size,epoch_seconds,nodes\n4,10,50,4\n4,10,20,1\n4,10,30,2\n"
    found = read(recording(tmp_path / "nodes", times=rows, accuracy=None))
    assert seconds(found, config(4, 10)) == pytest.approx([20])


def test_columns_beyond_the_contract_are_named_axes(tmp_path: Path) -> None:
    rows = "workers,batch_size,epoch_seconds,tensor,precision\n4,10,50,2,bf16\n4,10,70,1,fp32\n4,20,30,2,bf16\n"
    found = read(recording(tmp_path / "axes", times=rows, accuracy=None))
    space = found.space(with_accuracy=False)
    assert len(space) == 3
    assert {axis.name for axis in space.axes} == {"workers", "batch_size", "device", "tensor", "precision"}
    assert seconds(found, config(4, 10, tensor=2, precision="bf16")) == pytest.approx([50])
    assert np.isnan(seconds(found, config(4, 10, tensor=2, precision="fp32"))).all()


def test_the_shortest_probe_pays_for_thirty_steps() -> None:
    assert least_epochs(config(4, 10), examples=1200) == 1.0
    assert least_epochs(replace(config(4, 10), accumulate=2), examples=1200) == 2.0
