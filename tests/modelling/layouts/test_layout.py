from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from cotune.errors import UsageError
from cotune.modelling.layouts.layout import ANYWHERE, USUAL, Layout, Layouts, allowed, enumerate_layouts
from cotune.modelling.layouts.setting import MEGATRON, Setting, Transformer
from cotune.modelling.memory import read_architecture
from modelling.layouts.settings import H100, LARGE, SMALL, setting


@pytest.mark.parametrize(("gpus", "batch"), [(8, 16), (16, 24), (64, 64)])
def test_enumeration_is_that_of_brute_force(gpus: int, batch: int) -> None:
    where = setting()
    listed = enumerate_layouts(where, gpus, batch)
    brute = Layouts.of(
        Layout(dp, tp, pp, shard, micro, accumulate, again)
        for dp, tp, pp in product(range(1, gpus + 1), repeat=3)
        if dp * tp * pp == gpus
        for micro in range(1, batch + 1)
        for accumulate in range(1, batch + 1)
        if dp * micro * accumulate == batch
        for shard, again in product(range(4), range(2))
    )
    expected = brute.take(allowed(brute, where, USUAL))
    assert {str(listed[i]) for i in range(len(listed))} == {str(expected[i]) for i in range(len(expected))}
    assert len(listed) == len(expected)


def test_every_layout_uses_all_devices_and_the_whole_batch() -> None:
    layouts = enumerate_layouts(setting(LARGE), 128, 256, ANYWHERE)
    assert np.all(layouts.gpus == 128)
    assert np.all(layouts.global_batch == 256)
    assert np.all(LARGE.heads % layouts.tp == 0)


def test_tensor_parallelism_stays_in_the_node_unless_allowed() -> None:
    assert enumerate_layouts(setting(), 32, 32, USUAL).tp.max() <= H100.per_node
    assert enumerate_layouts(setting(), 32, 32, ANYWHERE).tp.max() > H100.per_node


@pytest.mark.parametrize("cut", ["greedy", "even"])
@pytest.mark.parametrize("pp", [1, 2, 3, 4, 8, 16])
def test_a_cut_places_every_layer_once(cut: str, pp: int) -> None:
    where = setting() if cut == "greedy" else Setting(SMALL, H100, MEGATRON)
    stages = where.stages(pp)
    assert sum(stages.layers) == SMALL.layers
    assert len(stages.layers) == pp


def test_a_heavy_head_leaves_last_stages_empty_and_such_pipelines_are_refused() -> None:
    wide = Transformer(layers=16, hidden=2048, heads=32, kv_heads=32, ffn=8192, vocab=131_072, seq_len=4096)
    where = setting(wide)
    assert where.stages(4).layers == (5, 5, 5, 1)
    assert where.stages(16).empty == 2
    assert where.buildable(8)
    assert not where.buildable(16)


def test_a_known_model_becomes_a_shape_and_one_with_experts_is_refused() -> None:
    shape = Transformer.of_architecture(read_architecture("llama-3-8b"), seq_len=8192)
    assert round(shape.params / 1e9, 2) == 8.03
    with pytest.raises(UsageError, match="experts"):
        Transformer.of_architecture(read_architecture("mixtral-8x7b"), seq_len=8192)
