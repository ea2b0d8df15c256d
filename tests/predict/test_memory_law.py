"""The law of memory: which batches will not fit, from what smaller ones took."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotune.forecast import Outlook
from cotune.predict.learn import forecaster
from cotune.predict.memory import MemoryLaw
from cotune.space import Axis, Configs, Space
from cotune.types import Cause, Cluster, Config, CountedModel, Failure, Job, Sample
from predict.worlds import JOB, grid, plain_step, timed

GIB = 2**30
BATCHES = (16, 32, 64, 128, 256, 512)


def taking(
    fixed: float, slope: float, configs: Iterable[tuple[int, int]], limit: float, device: str = "gpu"
) -> list[Sample]:
    """Samples of configs (batch, workers) that take fixed + slope x batch, of a limit."""
    return [
        replace(
            sample,
            config=Config.data_parallel(sample.config.batch_size, sample.config.workers, device),
            peak_bytes=int(fixed + slope * sample.config.batch_size),
            limit_bytes=int(limit),
        )
        for sample in timed(plain_step, configs)
    ]


def space(device: str = "gpu", workers: tuple[int, ...] = (1, 2, 4, 8)) -> Configs:
    axes = Axis("workers", workers), Axis("batch_size", BATCHES), Axis("device", (device,))
    return Space(axes).configs()


def fitting(law: MemoryLaw, configs: Configs, workers: int) -> set[int]:
    return set(configs.batch_size[~law.too_large(configs) & (configs.workers == workers)].tolist())


def looked(samples: list[Sample], configs: Configs, job: Job = JOB) -> Outlook:
    return forecaster(job, samples, Cluster(), accuracy=None)(configs, 1)


@given(
    fixed=st.floats(0, 8 * GIB),
    slope=st.floats(1e4, 1e8),
    seen=st.lists(st.sampled_from(BATCHES), min_size=2, max_size=4, unique=True),
    limit=st.floats(GIB, 80 * GIB),
)
def test_what_is_expected_to_fit_does(fixed: float, slope: float, seen: list[int], limit: float) -> None:
    law = MemoryLaw.of(JOB, taking(fixed, slope, [(batch, 1) for batch in seen], limit))
    for batch in fitting(law, space(), 8) - set(seen):
        assert fixed + slope * batch <= limit or batch < max(seen)


def test_a_line_through_two_batches_finds_the_largest_that_fits() -> None:
    law = MemoryLaw.of(JOB, taking(2 * GIB, GIB / 32, [(16, 1), (32, 4)], 12 * GIB))
    assert fitting(law, space(), 8) == {16, 32, 64, 128, 256}
    close = MemoryLaw.of(JOB, taking(2 * GIB, GIB / 32, [(16, 1), (32, 4)], 10.5 * GIB))
    assert fitting(close, space(), 8) == {16, 32, 64, 128}, "10 of 10.5 GiB is not sure enough"


def test_one_batch_alone_is_taken_for_proportional_unless_the_model_was_counted() -> None:
    samples = taking(2 * GIB, GIB / 64, [(32, 1)], 12 * GIB)
    assert fitting(MemoryLaw.of(JOB, samples), space(), 1) == {16, 32, 64, 128}
    named = replace(JOB, model=CountedModel("same", 2 * GIB, GIB / 64))
    assert fitting(MemoryLaw.of(named, samples), space(), 1) == {16, 32, 64, 128, 256}


def test_a_counted_model_is_held_against_a_known_gpu_before_anything_ran() -> None:
    named = replace(JOB, model=CountedModel("large", 6 * GIB, GIB / 40))
    assert fitting(MemoryLaw.of(named, ()), space("t4"), 1) == {16, 32, 64, 128}
    assert fitting(MemoryLaw.of(named, ()), space("unheard-of"), 1) == set(BATCHES)
    sharded = Space((Axis("batch_size", (128, 256)), Axis("device", ("t4",)), Axis("fsdp", (1, 8)))).configs()
    assert MemoryLaw.of(named, ()).too_large(sharded).tolist() == [False, False, True, False]


def test_what_ran_fits_however_near_the_limit() -> None:
    law = MemoryLaw.of(JOB, taking(0, GIB, [(16, 2), (32, 2)], 32.1 * GIB))
    assert fitting(law, space(), 1) == fitting(law, space(), 2) == {16, 32}


def test_workers_of_one_machine_share_its_memory_and_gpus_do_not() -> None:
    local = replace(JOB, where="local on here")
    law = MemoryLaw.of(local, taking(0, GIB / 64, [(16, 1), (64, 1)], 10 * GIB, "cpu"))
    assert fitting(law, space("cpu"), 1) == set(BATCHES)
    assert fitting(law, space("cpu"), 4) == {16, 32, 64, 128}
    nodes = MemoryLaw.of(replace(JOB, where="ray"), taking(0, GIB / 64, [(16, 1), (64, 1)], 10 * GIB, "cpu"))
    assert fitting(nodes, space("cpu"), 4) == set(BATCHES), "until it is seen, nodes are taken to be enough"
    apart = MemoryLaw.of(local, taking(0, GIB / 64, [(16, 1), (64, 8)], 10 * GIB, "cpu"))
    assert fitting(apart, space("cpu"), 8) == set(BATCHES), "as many have as much: they are on machines of their own"
    own = MemoryLaw.of(JOB, taking(0, GIB / 64, [(16, 1), (64, 1)], 10 * GIB))
    assert fitting(own, space(), 8) == set(BATCHES)
    halves = [*taking(0, GIB / 64, [(16, 1)], 10 * GIB), *taking(0, GIB / 64, [(64, 2)], 5 * GIB)]
    assert fitting(MemoryLaw.of(JOB, halves), space(), 8) == {16, 32, 64}, "slices of one GPU: 1.25 GiB each"


def test_another_device_or_axis_says_nothing() -> None:
    samples = taking(0, GIB, [(16, 1), (32, 1)], 40 * GIB)
    assert fitting(MemoryLaw.of(JOB, samples), space("other"), 1) == set(BATCHES)


def test_the_forecast_leaves_out_what_will_not_fit_and_says_so_once() -> None:
    outlook = looked(taking(2 * GIB, GIB / 32, [(16, 1), (32, 2), (64, 4)], 12 * GIB), space())
    batches = outlook.configs.batch_size
    assert np.isfinite(outlook.epoch_seconds).tolist() == (batches < 512).tolist()
    (told,) = [note for note in outlook.notes if "GiB" in note]
    assert told.startswith("batch 512 and above would need about 21.7 GiB of the 12 GiB a worker has")


def test_only_one_batch_may_be_left() -> None:
    outlook = looked(taking(0, GIB, [(16, 1), (16, 4)], 20 * GIB), space())
    assert set(outlook.configs.batch_size[np.isfinite(outlook.epoch_seconds)].tolist()) == {16}


def test_memory_that_ran_out_bounds_what_the_line_lets_through() -> None:
    fits = taking(0, GIB / 128, [(16, 1), (32, 1)], 100 * GIB)
    full = Sample(
        Config.data_parallel(256, 1, "gpu"),
        failure=Failure("out of memory on rank 0", Cause.MEMORY),
        peak_bytes=1,
        limit_bytes=1,
    )
    outlook = looked([*fits, full], space())
    assert np.isfinite(outlook.epoch_seconds).tolist() == (outlook.configs.batch_size < 256).tolist()


@pytest.mark.parametrize("job", [JOB, replace(JOB, command=("python", "train.py"))])
def test_without_figures_of_memory_nothing_changes(job: Job) -> None:
    outlook = looked(timed(plain_step, grid()), space("cpu"), job)
    assert np.isfinite(outlook.epoch_seconds).all()
    assert not any("GiB" in note for note in outlook.notes)


@given(slope=st.floats(1e6, 1e8), limit=st.floats(GIB, 80 * GIB))
def test_what_is_too_large_fits_with_less_than_95_in_100(slope: float, limit: float) -> None:
    law = MemoryLaw.of(JOB, taking(GIB, slope, [(16, 1), (32, 1)], limit))
    found, out = law.outlook(space()), law.too_large(space())
    assert np.all(found.p_fits[out] < 0.95 + 1e-3)
    assert np.all(found.p_fits[~out] > 0.95 - 1e-3)
    assert np.all(found.low <= found.mid)
    assert np.all(found.mid <= found.high)


def test_a_cpu_has_peaks_and_no_chance_to_fit_and_nothing_measured_tells_nothing() -> None:
    law = MemoryLaw.of(JOB, taking(GIB, GIB / 32, [(16, 1), (32, 1)], 12 * GIB, "cpu"))
    found = law.outlook(space("cpu"))
    assert np.all(np.isfinite(found.mid))
    assert np.all(np.isnan(found.p_fits))
    assert np.all(np.isnan(MemoryLaw.of(JOB, []).outlook(space()).mid))
    assert found.source[space("cpu").batch_size == 16].tolist() == ["measured"] * 4


def test_a_model_in_parts_is_tried_only_where_it_fits_surely_and_first_at_its_smallest_batch() -> None:
    axes = Axis("workers", (4,)), Axis("batch_size", BATCHES), Axis("device", ("gpu",)), Axis("fsdp", (True,))
    parted = Space(axes).configs()
    unknown = MemoryLaw.of(JOB, [])
    assert parted.batch_size[~unknown.may_hang(parted)].tolist() == [16]
    ran = [
        replace(sample, config=parted[int(np.flatnonzero(parted.batch_size == sample.config.batch_size)[0])])
        for sample in taking(2 * GIB, GIB / 32, [(16, 4)], 12 * GIB)
    ]
    one = MemoryLaw.of(JOB, ran)
    allowed = set(parted.batch_size[~one.may_hang(parted)].tolist())
    assert 16 in allowed
    assert 512 not in allowed
    assert not one.may_hang(space()).any(), "whole models that run out end by themselves"
