"""What a border between nodes adds is learnt from all variants of a job, and carries to more nodes."""

from __future__ import annotations

import csv
import os
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

from cotune.predict.predictors.ring import Ring
from cotune.predict.predictors.ring_of_nodes import RingOfNodes
from cotune.space import Configs
from cotune.types import Config, Job, Sample, axes_of
from predict.worlds import JOB, grid, plain_step, timed


def _sample(variant: str, batch: int, workers: int, step: float) -> Sample:
    config = Config.data_parallel(batch, workers, axes=axes_of({"variant": variant}))
    return Sample(config, 1.0, step * (JOB.examples or 1) / (batch * workers))


def _step(variant: str, batch: int, workers: int) -> float:
    """Seconds of a step: input is starved inside a node of eight, and borders cost the same for all."""
    nodes = -(-workers // 8)
    inside = 0.001 * batch * (2.5 if variant == "starved" and workers >= 8 else 1.0)
    return inside + 0.2 * (nodes - 1) / nodes


def test_a_node_is_taken_as_it_was_measured_and_a_border_as_all_variants_tell() -> None:
    worlds = [(variant, batch) for variant in ("plain", "starved", "fused") for batch in (64, 128)]
    seen = [_sample(*one, n, _step(*one, n)) for one in worlds for n in (1, 8, 16)]
    odd = next(row for row, one in enumerate(seen) if one.config.workers == 16)
    seen[odd] = _sample("plain", 64, 16, 2 * _step("plain", 64, 16))  # a neighbour was on the wire
    wished = [_sample(*one, n, _step(*one, n)) for one in worlds[1:] for n in (24, 32)]
    found = RingOfNodes(per_node=8).fit_seconds(JOB, seen).predict(Configs.of([one.config for one in wished]))
    np.testing.assert_allclose(found, [one.epoch_seconds for one in wished], rtol=1e-9)


def test_without_a_border_measured_the_ring_law_stands() -> None:
    samples = timed(plain_step, grid(workers=(1, 2, 4, 8)), noise=0.05)
    wished = Configs.of([Config.data_parallel(32, count) for count in (3, 8, 32)])
    found = RingOfNodes(per_node=8).fit_seconds(JOB, samples).predict(wished)
    np.testing.assert_allclose(found, Ring(per_node=8).fit_seconds(JOB, samples).predict(wished))


def test_four_nodes_of_every_framework_and_network_follow_from_two() -> None:
    if "COTUNE_DATA" not in os.environ:
        pytest.skip("needs COTUNE_DATA")
    jobs: dict[tuple[str, str], list[Sample]] = defaultdict(list)
    with (Path(os.environ["COTUNE_DATA"]) / "dlperf_v100" / "throughput.csv").open() as file:
        for row in csv.DictReader(file):
            axes = axes_of({"precision": row["precision"], "variant": row["variant"]})
            config = Config.data_parallel(int(row["batch_per_gpu"]), int(row["gpus"]), axes=axes)
            jobs[row["framework"], row["model"]].append(Sample(config, 1.0, 1e6 / float(row["samples_per_s"])))
    judged = 0
    for name, samples in jobs.items():
        seen = [sample for sample in samples if sample.config.workers <= 16]
        crossed = {(sample.config.axes, sample.config.batch_size) for sample in seen if sample.config.workers == 16}
        four = [
            sample
            for sample in samples
            if sample.config.workers == 32 and (sample.config.axes, sample.config.batch_size) in crossed
        ]
        if not four:
            continue
        model = RingOfNodes(per_node=8).fit_seconds(Job("dlperf", examples=1_000_000), seen)
        found = model.predict(Configs.of([sample.config for sample in four]))
        assert np.abs(found / [sample.epoch_seconds for sample in four] - 1).mean() < 0.06, name
        judged += 1
    assert judged == 11
