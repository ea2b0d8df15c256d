"""Memory as counted: states by precision and sharding, activations, phases."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotune.errors import UsageError
from cotune.modelling.memory import TrainingSetup, count, from_name, guessed
from cotune.modelling.memory.activations import block_states, kept_states
from cotune.modelling.memory.setup import METHODS, SHARDINGS
from cotune.modelling.memory.sources import _models

MISTRAL = from_name("mistral-7b")
FULL = TrainingSetup(sequence=4096)
LORA = TrainingSetup(method="lora", sequence=4096)
PUBLISHED = {
    "llama-2-7b": 6_738_415_616,
    "llama-3-8b": 8_030_261_248,
    "llama-3.2-1b": 1_235_814_400,
    "mistral-7b": 7_241_732_096,
    "mixtral-8x7b": 46_702_792_704,
    "qwen2.5-7b": 7_615_616_512,
    "gpt2": 124_439_808,
    "gpt2-xl": 1_557_611_200,
}

setups = st.builds(
    TrainingSetup,
    method=st.sampled_from(METHODS),
    sequence=st.sampled_from([128, 1024, 4096]),
    gpus=st.just(4),
    sharding=st.sampled_from([one for one in SHARDINGS if one != "none"]),
    autocast=st.booleans(),
    checkpointing=st.booleans(),
    flash=st.booleans(),
    fused_kernels=st.booleans(),
    fused_loss=st.booleans(),
    offload=st.booleans(),
    accumulates=st.booleans(),
)
models = st.sampled_from(sorted(_models())).map(from_name)


@pytest.mark.parametrize(("name", "params"), PUBLISHED.items())
def test_parameters_counted_from_a_shape_are_the_published_ones(name: str, params: int) -> None:
    assert from_name(name).counted == pytest.approx(params, rel=0.001)


@pytest.mark.parametrize("params", [0.5e9, 3e9, 7e9, 70e9])
def test_a_guessed_shape_has_the_parameters_it_was_guessed_from(params: float) -> None:
    assert guessed("x", params).counted == pytest.approx(params, rel=0.05)
    assert guessed("x", params, params / 6).counted == pytest.approx(params, rel=0.05)


def test_adamw_in_bf16_keeps_six_bytes_a_parameter_and_ten_at_its_step() -> None:
    memory = count(MISTRAL, FULL)
    assert memory.states.resident / MISTRAL.counted == pytest.approx(6, rel=0.001)
    assert memory.peak(1) / MISTRAL.counted == pytest.approx(10, rel=0.001)


def test_fp32_weights_keep_twelve_and_twenty_over_the_shards_of_fsdp() -> None:
    memory = count(MISTRAL, replace(FULL, gpus=4, sharding="fsdp", weight_bytes=4))
    assert 4 * memory.states.resident / MISTRAL.counted == pytest.approx(12, rel=0.01)
    assert 4 * memory.peak(1) / MISTRAL.counted == pytest.approx(20, rel=0.01)


def test_each_stage_of_zero_takes_less_than_the_one_before() -> None:
    peaks = [count(MISTRAL, replace(FULL, gpus=8, sharding=one)).peak(1) for one in ("ddp", "zero1", "zero2", "fsdp")]
    assert peaks == sorted(peaks, reverse=True)
    assert len(set(peaks)) == 4


@pytest.mark.parametrize(("optimizer", "state"), [("sgd", 0), ("momentum", 2), ("adamw8bit", 2), ("adamw", 4)])
def test_optimisers_keep_their_states(optimizer: str, state: int) -> None:
    held = count(MISTRAL, replace(FULL, optimizer=optimizer)).states
    assert held.optimizer == pytest.approx(state * MISTRAL.counted)


def test_offloaded_states_are_not_on_the_device() -> None:
    assert count(MISTRAL, replace(FULL, offload=True)).states.optimizer == 0


@pytest.mark.parametrize(("method", "gib"), [("nf4", 4.0107), ("gptq", 4.0390), ("lora", 13.6574)])
def test_resident_bytes_of_frozen_weights_are_as_recorded(method: str, gib: float) -> None:
    memory = count(MISTRAL, replace(LORA, method=method))  # recorded: Mistral-7B on one A100, fms-acceleration
    assert memory.states.resident / 2**30 == pytest.approx(gib, rel=0.005)


def test_gradients_that_are_summed_stand_whole_on_every_shard() -> None:
    sharded = replace(FULL, gpus=8, sharding="fsdp")
    more = count(MISTRAL, replace(sharded, accumulates=True)).phases[1].fixed - count(MISTRAL, sharded).phases[1].fixed
    assert more == pytest.approx(2 * MISTRAL.counted)


@given(models, setups, st.integers(1, 64))
def test_a_larger_batch_or_sequence_never_takes_less(model: object, setup: TrainingSetup, batch: int) -> None:
    memory = count(model, setup)  # type: ignore[arg-type]
    longer = count(model, replace(setup, sequence=2 * setup.sequence))  # type: ignore[arg-type]
    assert memory.peak(batch) <= memory.peak(batch + 1)
    assert memory.peak(batch) <= longer.peak(batch)


@given(models, setups, st.integers(1, 64))
def test_checkpointing_flash_and_a_fused_loss_never_take_more(model: object, setup: TrainingSetup, batch: int) -> None:
    without = replace(setup, checkpointing=False, flash=False, fused_loss=False)
    for saving in ("checkpointing", "flash", "fused_loss"):
        spared = count(model, replace(without, **{saving: True}))  # type: ignore[arg-type]
        # FSDP with adapters keeps the gradients of all checkpoints, two states a layer.
        assert spared.peak(batch) <= count(model, without).peak(batch) * 1.001  # type: ignore[arg-type]


def test_frozen_weights_under_fsdp_keep_the_checkpoints_gradients_too() -> None:
    one, two = count(MISTRAL, LORA), count(MISTRAL, replace(LORA, gpus=2, sharding="fsdp"))
    first = {memory.setup.gpus: memory.phases[-1].per_sequence for memory in (one, two)}
    hidden = 2 * 4096 * 4096
    assert first[2] - first[1] == pytest.approx((2 * 31 - 1) * hidden)


def test_experts_keep_their_activations_for_each_expert_a_token_uses() -> None:
    dense, mixture = (block_states(from_name(name), LORA) for name in ("mistral-7b", "mixtral-8x7b"))
    assert mixture - dense == pytest.approx(6.6, abs=0.1)  # recorded: 6.1 to 7.2


def test_a_block_keeps_less_than_it_needs_in_backward() -> None:
    assert 0 < kept_states(MISTRAL, FULL) < block_states(MISTRAL, FULL)


def test_several_gpus_need_a_sharding() -> None:
    with pytest.raises(UsageError, match="ddp, zero1, zero2 or fsdp"):
        TrainingSetup(gpus=2)


def test_an_unknown_optimiser_is_refused() -> None:
    with pytest.raises(UsageError, match="adamw8bit"):
        TrainingSetup(optimizer="lion")
