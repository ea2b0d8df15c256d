"""Predictions of a model by tier: bounds that narrow, sources that are named, nothing bare."""

from __future__ import annotations

import csv
import itertools
import json
import math
import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotune.devices import table
from cotune.modelling.counting.counts import Call, Counts
from cotune.modelling.counting.trace import count
from cotune.modelling.prediction import Prediction, Target, TrainingWork, from_another, from_counts, from_steps, trained
from cotune.modelling.roofline import Rates, ring, split
from cotune.modelling.similar_models import correction, distance
from cotune.modelling.step_law import StepLaw, StepTime
from cotune.modelling.workloads.named import find
from cotune.store import Fingerprint, ModelStep
from cotune.types import Z90, Config

A100 = Target("a100", Rates.published(table()["a100"]))
UNKNOWN = Target("z9", None)


def counts(batch: int = 32, flops: float = 1e9, unknown: bool = False) -> Counts:
    calls = (
        Call("convolution", "convolution", "forward", "a", flops * batch, 1e6 * batch, "float32", 20),
        Call("convolution_backward", "convolution", "backward", "a", 2 * flops * batch, 2e6 * batch, "float32", 20),
        Call("relu", "elementwise", "forward", "b", 1e5 * batch, 8e5 * batch, "float32", 20),
        Call("odd", "unknown", "forward", "b", None if unknown else 0.0, 1e6 * batch, "float32", 2),
        Call("_foreach_add_", "elementwise", "update", "", 1e7, 1.2e8, "float32", 1),
    )
    return Counts("net", batch, calls, 10_000_000, 4e7, 6e5 * batch, 1e7 * batch, 1.6e8 + 1e7 * batch, ())


def config(batch: int = 32, workers: int = 1) -> Config:
    return Config.data_parallel(batch, workers, "a100")


def width(found: Prediction) -> float:
    return found.step_seconds.high / found.step_seconds.low


def test_counts_give_bounds_a_source_and_a_split_that_adds_up() -> None:
    found = from_counts(counts(), config(), A100)
    assert found.tier == "counts"
    assert found.step_seconds.source == "assumed"
    assert found.step_seconds.low < found.step_seconds.mid < found.step_seconds.high
    assert found.split.seconds == pytest.approx(found.step_seconds.mid)
    assert found.fits is True
    assert "assumed shares" in found.known_from


def test_an_unknown_device_spans_the_table_and_says_so() -> None:
    found = from_counts(counts(), config(), UNKNOWN)
    assert width(found) > 10 * width(from_counts(counts(), config(), A100))
    assert any("nothing is known of 'z9'" in note for note in found.notes)
    slip = from_counts(counts(), config(), replace(UNKNOWN, name="a1000"))
    assert any(note.endswith("did you mean 'a100'?") for note in slip.notes)
    assert found.fits is None
    each = [split(counts(), Rates.published(s), 1).seconds for s in table().values() if s.kind == "gpu"]
    assert found.step_seconds.low < min(each)
    assert found.step_seconds.high > max(each)


def test_operators_without_a_formula_widen_the_bounds_and_are_named() -> None:
    sure, unsure = from_counts(counts(), config(), A100), from_counts(counts(unknown=True), config(), A100)
    assert width(unsure) > width(sure)
    assert any("odd x 2" in note for note in unsure.notes)


def test_a_model_too_large_for_a_device_does_not_fit() -> None:
    small = Target("k20", Rates.published(table()["k20"]))
    assert from_counts(counts(batch=1000), config(1000), small).fits is False


@given(st.sampled_from(sorted(table())), st.integers(1, 512), st.integers(1, 64))
def test_a_larger_batch_or_more_workers_never_make_a_step_shorter(name: str, batch: int, workers: int) -> None:
    rates = Rates.published(table()[name])
    one = split(counts(batch), rates, workers)
    assert split(counts(batch + 1), rates, workers).seconds >= one.seconds
    assert split(counts(batch), rates, workers + 1).seconds >= one.seconds - 1e-12
    assert min(one.compute, one.communication, one.input, one.overhead) >= 0


def test_a_ring_of_one_costs_nothing() -> None:
    assert ring(1e9, 1, 1e10) == 0


def test_workers_on_several_nodes_need_a_network_that_is_assumed_or_given() -> None:
    assumed = from_counts(counts(), config(workers=16), A100)
    given = from_counts(counts(), config(workers=16), replace(A100, network=1e9))
    assert any("network is assumed" in note for note in assumed.notes)
    assert not any("network is assumed" in note for note in given.notes)
    assert given.split.communication > assumed.split.communication


TIMES = (StepTime(8, 1, 0.020, 0.01), StepTime(32, 1, 0.044, 0.01))


def test_a_measured_batch_is_what_was_measured_and_others_lie_on_the_line() -> None:
    known = from_steps(counts(32), config(32), A100, TIMES)
    assert known.step_seconds.mid == 0.044
    assert known.step_seconds.source == "measured"
    between = from_steps(counts(16), config(16), A100, TIMES)
    slope = (0.044**1.5 - 0.020**1.5) / (32**1.5 - 8**1.5)
    expected = (0.020**1.5 + slope * (16**1.5 - 8**1.5)) ** (1 / 1.5)
    assert between.step_seconds.mid == pytest.approx(expected, rel=1e-6)
    assert between.step_seconds.source == "interpolated"
    outside = from_steps(counts(128), config(128), A100, TIMES)
    assert outside.step_seconds.mid > 3.5 * 0.044
    assert outside.step_seconds.source == "extrapolated"
    assert width(known) < width(between) < width(outside) < width(from_counts(counts(), config(), A100))


def test_the_drift_of_launching_widens_a_gpus_step_by_its_share_of_it() -> None:
    launched = (StepTime(8, 1, 0.020, 0.01), StepTime(32, 1, 0.020, 0.01))
    computed = (StepTime(8, 1, 0.011, 0.01), StepTime(32, 1, 0.044, 0.01))
    cpu = Target("cpu", Rates.published(table()["epyc_9654"]))
    widths = {
        name: width(from_steps(counts(16), config(16), target, times))
        for name, target, times in (
            ("computing", A100, computed),
            ("both", A100, TIMES),
            ("launching", A100, launched),
            ("a core", cpu, launched),
        )
    }
    assert widths["a core"] == pytest.approx(widths["computing"])
    assert widths["computing"] < widths["both"] < widths["launching"]
    reach = math.log(widths["launching"]) / 2 / Z90
    assert reach == pytest.approx(math.hypot(math.log(widths["computing"]) / 2 / Z90, 0.12))


def test_one_measured_batch_leaves_the_share_of_launching_to_the_counts() -> None:
    small = replace(counts(8), calls=(Call("relu", "elementwise", "forward", "a", 1.0, 1.0, "float32", 500),))
    alone = [StepTime(8, 1, 0.020, 0.01)]
    assert width(from_steps(small, config(8), A100, alone)) > 1.2 * width(from_steps(counts(8), config(8), A100, alone))


RECORDED = Path(__file__).parents[2] / "recordings"


def test_four_of_five_measured_steps_lie_in_the_interval_between_two_batches() -> None:
    held = []
    for recorded in (RECORDED / "models-h200.json", RECORDED / "models-h200-busy.json"):
        rows = json.loads(recorded.read_text(encoding="utf-8"))["rows"]
        for _, series in itertools.groupby(rows, key=lambda row: (row["model"], row["precision"])):
            times = [StepTime(row["batch"], 1, row["seconds"], row["spread"]) for row in series]
            ends = [times[0], times[-1]]
            law = StepLaw.of(ends, "gpu", 0.0)
            for time in times[1:-1]:
                _, spread = law.trust(config(time.batch), ends, 0.0)
                held.append(abs(math.log(time.seconds / law.seconds(time.batch))) <= Z90 * spread)
    assert len(held) == 64
    assert 0.7 <= sum(held) / len(held) <= 0.9


def test_a_core_takes_the_dispatch_and_the_work_one_after_the_other() -> None:
    cpu = Target("cpu", Rates.published(table()["epyc_9654"]))
    assert from_steps(counts(16), config(16), cpu, TIMES).step_seconds.mid == pytest.approx(0.028, rel=1e-6)
    assert from_steps(counts(128), config(128), cpu, TIMES).step_seconds.mid == pytest.approx(0.140, rel=1e-6)


def test_times_carried_from_another_gpu_say_so_and_have_wide_bounds() -> None:
    found = from_another(counts(), config(32, 4), A100, 0.05, "h200")
    assert found.tier == "scaled"
    assert "h200" in found.known_from
    assert found.step_seconds.source == "extrapolated"
    assert found.step_seconds.mid == pytest.approx(0.05 + found.split.communication)
    assert width(found) > 2
    with pytest.raises(ValueError, match="nothing is known"):
        from_another(counts(), config(), UNKNOWN, 0.05, "h200")


def test_several_workers_are_counted_until_they_are_probed() -> None:
    counted = from_steps(counts(32), config(32, 4), A100, TIMES)
    assert counted.tier == "steps"
    assert any("not measured" in note for note in counted.notes)
    probed = from_steps(counts(32), config(32, 4), A100, (*TIMES, StepTime(32, 2, 0.054, 0.01)))
    assert probed.tier == "probe"
    assert probed.step_seconds.mid == pytest.approx(0.044 + 0.02 * 3 / 4, rel=1e-2)
    assert probed.split.communication == pytest.approx(0.015, rel=0.05)
    assert probed.split.seconds == pytest.approx(probed.step_seconds.mid, rel=1e-6)


def test_a_training_takes_its_epochs_and_costs_its_devices() -> None:
    found = trained(from_counts(counts(), config(32, 2), A100), TrainingWork(6400, 10, price=2 * 3 / 3600, unit="EUR"))
    assert found.epoch_seconds is not None
    assert found.seconds is not None
    assert found.cost is not None
    assert found.epoch_seconds.mid == pytest.approx(100 * found.step_seconds.mid)
    assert found.seconds.mid == pytest.approx(10 * found.epoch_seconds.mid)
    assert found.cost.mid == pytest.approx(found.seconds.mid * 6 / 3600)
    assert found.cost.unit == "EUR"


def test_what_nobody_said_is_unknown_and_named() -> None:
    bare = trained(from_counts(counts(), config(), A100), TrainingWork())
    assert bare.epoch_seconds is None
    assert any("number of examples" in note for note in bare.notes)
    half = trained(from_counts(counts(), config(), A100), TrainingWork(1000))
    assert half.epoch_seconds is not None
    assert half.seconds is None


def fingerprint(scale: float = 1.0, convolution: float = 0.7) -> Fingerprint:
    mix = (("convolution", convolution), ("elementwise", 1 - convolution))
    return Fingerprint(1e11 * scale, 1e9 * scale, 100, 1000, mix)


def step(scale: float, ratio: float, name: str = "other") -> ModelStep:
    return ModelStep(name, "a100", "fp32", 1, 32, 0.01 * ratio, 0.01, 0.01, fingerprint(scale), "2026-01-01")


def test_similar_models_correct_the_counts_and_strangers_do_not() -> None:
    found = correction(fingerprint(), [step(1.1, 2.0, "near"), step(1e6, 50.0, "far")])
    assert found is not None
    assert [neighbour.step.model for neighbour in found.neighbours] == ["near"]
    assert found.factor == pytest.approx(2.0)
    assert correction(fingerprint(), [step(1e6, 50.0)]) is None
    assert correction(fingerprint(), []) is None
    known = from_counts(counts(), config(), A100, history=found)
    plain = from_counts(counts(), config(), A100)
    assert known.tier == "history"
    assert known.step_seconds.mid == pytest.approx(2 * plain.step_seconds.mid)
    assert width(known) < width(plain)


def test_neighbours_that_disagree_widen_the_bounds() -> None:
    agree = correction(fingerprint(), [step(1.0, 1.5), step(1.01, 1.5)])
    apart = correction(fingerprint(), [step(1.0, 0.7), step(1.01, 3.0)])
    assert agree is not None
    assert apart is not None
    assert agree.spread < apart.spread


@given(st.floats(0.01, 100), st.floats(0, 1), st.floats(0.01, 100), st.floats(0, 1))
def test_distance_is_symmetric_and_zero_for_the_same(a: float, b: float, c: float, d: float) -> None:
    one, other = fingerprint(a, b), fingerprint(c, d)
    assert distance(one, other) == pytest.approx(distance(other, one))
    assert distance(one, one) == 0


@pytest.mark.parametrize(("precision", "batch"), [("fp32", 128), ("fp16", 256)])
def test_the_interval_of_counts_alone_holds_resnet50_on_real_v100s(precision: str, batch: int) -> None:
    if "COTUNE_DATA" not in os.environ:
        pytest.skip("needs COTUNE_DATA")
    found = count(find("resnet50"), batch, precision=precision)  # type: ignore[arg-type]
    target = Target("v100", Rates.published(table()["v100"]))
    named = {"fp32": "fp32", "fp16": "amp"}[precision]
    (path,) = (Path(os.environ["COTUNE_DATA"]) / "dlperf_v100").glob("*.csv")
    held = []
    for row in csv.DictReader(path.open()):
        alike = row["model"].startswith("resnet50") and row["precision"] == named and int(row["batch_per_gpu"]) == batch
        starved = row["variant"] == "loader-workers=8"  # its loader, which is not counted, is the bottleneck
        if not alike or starved or row["nodes"] != "1":
            continue
        step = from_counts(found, config(batch, int(row["gpus"])), target, precision=precision).step_seconds
        held.append(step.low <= float(row["step_time_s"]) <= step.high)
    assert len(held) > 5
    assert sum(held) >= 0.8 * len(held)
