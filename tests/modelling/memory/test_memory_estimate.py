"""Intervals and P(fits), without a run, after one or two batches, and with what other models taught."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotune.devices import known
from cotune.modelling.memory import (
    MeasuredPeak,
    TrainingSetup,
    count,
    device_room,
    estimate,
    from_name,
    guessed,
    largest_batch,
    learn,
    reserved_bytes,
)

MISTRAL = from_name("mistral-7b")
LORA = TrainingSetup(method="lora", sequence=4096)
FULL = TrainingSetup(sequence=4096, fused_kernels=True)
A100 = known("a100")
assert A100 is not None
ROOM = device_room(A100)


@given(st.integers(1, 256))
def test_intervals_hold_their_middle_and_p_fits_falls_with_the_batch(batch: int) -> None:
    memory = count(MISTRAL, LORA)
    one, next_larger = estimate(memory, batch, ROOM), estimate(memory, batch + 1, ROOM)
    assert one.low < one.mid < one.high
    assert one.p_fits is not None
    assert next_larger.p_fits is not None
    assert 0 <= next_larger.p_fits <= one.p_fits <= 1


def test_a_guessed_shape_has_a_wider_interval() -> None:
    sure, unsure = (estimate(count(model, LORA), 8) for model in (MISTRAL, guessed("x", 7.24e9)))
    assert unsure.high - unsure.low > 3 * (sure.high - sure.low)
    assert unsure.low < sure.mid < unsure.high


def test_without_a_device_nothing_is_said_about_fitting() -> None:
    assert estimate(count(MISTRAL, LORA), 8).p_fits is None


def test_a_gpu_among_several_has_less_room() -> None:
    assert A100 is not None
    assert device_room(A100, 2).usable < ROOM.usable < ROOM.total < 80 * 2**30


@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.999])
def test_the_largest_batch_is_that_of_trying_all(confidence: float) -> None:
    memory = count(MISTRAL, LORA)
    fits = [batch for batch in range(1, 100) if (estimate(memory, batch, ROOM).p_fits or 0) >= confidence]
    assert largest_batch(memory, ROOM, confidence) == max(fits)


def test_no_batch_fits_where_the_weights_do_not() -> None:
    assert largest_batch(count(from_name("llama-3-70b"), LORA), ROOM) == 0


def test_after_two_batches_the_line_goes_through_them() -> None:
    memory = count(MISTRAL, LORA)
    truth = {batch: 15e9 + batch * 2.5e9 for batch in (4, 8, 16)}  # neither the counted slope nor the counted start
    found = estimate(memory, 16, measured={4: truth[4], 8: truth[8]})
    assert found.mid == pytest.approx(truth[16], rel=0.01)
    assert found.source == "measured"


def test_measuring_narrows_the_interval() -> None:
    memory = count(MISTRAL, LORA)
    widths = [estimate(memory, 16)] + [
        estimate(memory, 16, measured={batch: memory.peak(batch) for batch in batches}) for batches in ((4,), (4, 8))
    ]
    assert [one.mid for one in widths] == pytest.approx([memory.peak(16)] * 3, rel=0.001)
    spans = [one.high - one.low for one in widths]
    assert spans == sorted(spans, reverse=True)


def test_batches_on_the_optimisers_floor_leave_the_counted_slope() -> None:
    memory = count(MISTRAL, FULL)
    floor = memory.peak(0)
    assert memory.peak(8) == floor
    found = estimate(memory, 32, measured={4: floor, 8: floor * 1.00001})
    assert found.mid == pytest.approx(memory.peak(32), rel=0.001)


def test_a_batch_a_little_above_the_counted_floor_does_not_flatten_the_line_of_larger_ones() -> None:
    """Peaks of SmolLM2-like training: one sequence stands on the optimiser's step and a workspace, six do not."""
    memory = count(from_name("qwen2.5-0.5b"), TrainingSetup(sequence=512, checkpointing=False))
    floor, slope = memory.phases[0].bytes(0), memory.phase(8).per_sequence
    bent = {1: floor + 60 * 2**20, 2: floor + 0.7 * slope}
    assert estimate(memory, 8, measured=bent).mid == pytest.approx(bent[2] + 6 * slope, rel=0.05)


def test_the_larger_the_largest_tensor_the_more_room_is_left() -> None:
    held, fused = (count(MISTRAL, replace(FULL, fused_loss=fused)) for fused in (False, True))
    wide = replace(held, model=replace(MISTRAL, vocab=8 * MISTRAL.vocab))  # the same phases, larger logits
    batch = largest_batch(held, ROOM)
    found = [estimate(memory, batch, ROOM).p_fits or 0.0 for memory in (held, wide)]
    assert found[0] > found[1]
    assert estimate(fused, batch, ROOM).p_fits == pytest.approx(1.0, abs=0.05)


def test_a_line_that_would_have_been_seen_is_made_flatter() -> None:
    memory = count(MISTRAL, FULL)
    batch = next(batch for batch in range(1, 64) if memory.peak(batch) > memory.peak(0) * 1.05)
    found = estimate(memory, 2 * batch, measured={batch // 2: memory.peak(0), batch: memory.peak(0)})
    assert found.mid < memory.peak(2 * batch)


def test_one_batch_above_the_floor_goes_on_from_the_counted_start() -> None:
    memory = count(MISTRAL, replace(FULL, gpus=4, sharding="fsdp", weight_bytes=4))
    assert memory.peak(4) == memory.peak(0) < memory.peak(8)
    found = estimate(memory, 16, measured={4: memory.peak(4), 8: memory.peak(8)})
    assert found.mid == pytest.approx(memory.peak(16), rel=0.001)


def test_nothing_learnt_leaves_the_counts() -> None:
    assert learn([]).factor == 1.0


def run_of(family: str, factor: float) -> MeasuredPeak:
    memory = count(MISTRAL, LORA)
    phase = memory.phase(8)
    return MeasuredPeak(family, memory, 8, phase.fixed + factor * phase.per_sequence * 8)


def test_a_correction_is_shrunk_by_how_few_families_taught_it() -> None:
    one = learn([run_of("a", 1.1)] * 50)
    three = learn([run_of(family, 1.1) for family in "abc"])
    many = learn([run_of(str(family), 1.1) for family in range(200)])
    assert 1 < one.factor < three.factor < many.factor
    assert many.factor == pytest.approx(1.1, rel=0.01)


def test_families_that_disagree_widen_the_interval_and_one_far_off_is_left_alone() -> None:
    assert learn([run_of("a", 1.0), run_of("b", 1.4)]).sd > 0.1
    odd = learn([run_of("a", 1.0), run_of("b", 1.01), run_of("c", 1.6)])
    assert odd.factor == pytest.approx(1.0, abs=0.01)
    assert odd.sd < 0.05


def test_what_nvidia_smi_shows_is_above_the_peak_and_below_the_device() -> None:
    memory = count(MISTRAL, LORA)
    for batch in (1, 8, 24):
        assert memory.peak(batch) < reserved_bytes(memory, batch, ROOM) <= ROOM.total
