from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotune.space import Axis, Configs, Space
from cotune.types import Config, axes_of

CONFIGS = st.builds(
    Config.data_parallel,
    st.integers(1, 512),
    st.integers(1, 16),
    st.sampled_from(["cpu", "t4"]),
    servers=st.integers(0, 3),
    accumulate=st.integers(1, 4),
    axes=st.dictionaries(st.sampled_from(["precision", "fsdp"]), st.sampled_from(["a", 1, 2.5]), max_size=2).map(
        axes_of
    ),
)


@given(st.lists(CONFIGS, min_size=1, max_size=8))
def test_columns_hold_the_same_configs_as_records(configs: list[Config]) -> None:
    columns = Configs.of(configs)
    assert list(columns) == configs
    assert columns.global_batch.tolist() == [config.global_batch for config in configs]


def test_a_space_holds_every_combination_and_finds_each_again() -> None:
    space = Space((Axis("workers", (1, 2)), Axis("batch_size", (8, 16, 32)), Axis("precision", ("fp32", "bf16"))))
    configs = space.configs()
    assert len(space) == len(configs) == len(set(configs)) == 12
    assert [space.row(config) for config in configs] == list(range(12))
    assert space.row(Config.data_parallel(9, 1, axes=(("precision", "fp32"),))) is None


def test_a_fixed_global_batch_gives_each_layout_its_share_or_none() -> None:
    configs = Space((Axis("workers", (1, 2, 3, 4)),), global_batch=64).configs()
    assert configs.batch_size.tolist() == [64, 32, 0, 16]
    assert configs.valid.tolist() == [True, True, False, True]


def test_rows_beyond_the_end_are_refused() -> None:
    with pytest.raises(IndexError):
        Configs.of([Config.data_parallel(8, 1)])[1]


def test_memory_that_ran_out_rules_out_larger_batches_on_as_many_shards_or_fewer() -> None:
    space = Space((Axis("workers", (1, 4)), Axis("batch_size", (16, 32, 64)), Axis("fsdp", (1, 2, 4))))
    configs = space.configs()
    full = Config.data_parallel(32, 1, axes=axes_of({"fsdp": 2}))
    ruled_out = {
        (c.batch_size, dict(c.axes)["fsdp"]) for c, out in zip(configs, configs.at_least(full), strict=True) if out
    }
    assert ruled_out == {(batch, shards) for batch in (32, 64) for shards in (1, 2)}
    over_workers = Space((Axis("workers", (1, 2, 4)), Axis("batch_size", (32,)), Axis("fsdp", (True, False)))).configs()
    failed = Config.data_parallel(32, 2, axes=axes_of({"fsdp": True}))
    assert [config.workers for config in over_workers.take(over_workers.at_least(failed))] == [1, 2]
