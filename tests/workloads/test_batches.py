from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from cotune.workloads import batches

small = st.integers(1, 9)


@given(examples=st.integers(1, 120), batch_size=small, accumulate=st.integers(1, 4), workers=small)
def test_every_example_is_seen_once_an_epoch_in_equally_many_steps(
    examples: int, batch_size: int, accumulate: int, workers: int
) -> None:
    order = batches.order(examples, seed=1, epoch=2)
    ranks = [list(batches.steps(order, batch_size, accumulate, rank, workers)) for rank in range(workers)]
    assert len({len(steps) for steps in ranks}) == 1
    busy = [step for steps in ranks for step in steps if not step.idle]
    seen = torch.cat([batch for step in busy for batch in step.batches])
    assert sorted(seen.tolist()) == list(range(examples))
    for together in zip(*ranks, strict=True):
        taken = [sum(map(len, step.batches)) for step in together if not step.idle]
        assert {step.examples for step in together} == {sum(taken)}
    for step in (step for steps in ranks for step in steps):
        assert all(1 <= len(batch) <= batch_size for batch in step.batches)


@given(examples=st.integers(1, 120), batch_size=small, workers=st.integers(1, 4), accumulate=st.integers(1, 3))
def test_a_step_takes_the_same_examples_however_they_are_shared_out(
    examples: int, batch_size: int, workers: int, accumulate: int
) -> None:
    order = batches.order(examples, seed=0, epoch=0)
    whole = [step.batches[0].tolist() for step in batches.steps(order, batch_size * workers * accumulate)]
    ranks = [batches.steps(order, batch_size, accumulate, rank, workers) for rank in range(workers)]
    shared = [
        [index for step in together if not step.idle for batch in step.batches for index in batch.tolist()]
        for together in zip(*ranks, strict=True)
    ]
    assert shared == whole


def test_each_epoch_and_seed_has_an_order_of_its_own() -> None:
    orders = [tuple(batches.order(50, seed, epoch).tolist()) for seed in range(3) for epoch in range(3)]
    assert len(set(orders)) == 9
    assert orders[0] == tuple(batches.order(50, 0, 0).tolist())
