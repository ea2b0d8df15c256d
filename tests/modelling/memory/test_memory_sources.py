"""Shapes by config, name, size and module."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cotune.errors import InvalidFile, NotFound
from cotune.modelling.memory import from_config, from_module, from_name, read_architecture

MISTRAL = {
    "model_type": "mistral", "num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32,
    "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 32000, "tie_word_embeddings": False,
}  # fmt: skip
BIGCODE = {
    "model_type": "gpt_bigcode", "n_layer": 24, "n_embd": 2048, "n_head": 16, "n_inner": 8192, "vocab_size": 49280,
    "multi_query": True, "n_positions": 2048,
}  # fmt: skip


def test_a_config_gives_the_shape_of_the_model_it_names() -> None:
    assert from_config(MISTRAL).counted == from_name("mistral-7b").counted


def test_a_config_of_experts_tells_how_many_a_token_uses() -> None:
    found = from_config(MISTRAL | {"model_type": "mixtral", "num_local_experts": 8, "num_experts_per_tok": 2})
    assert (found.experts, found.experts_active) == (8, 2)
    assert found.counted == from_name("mixtral-8x7b").counted


def test_gpt_networks_are_plain_and_tie_their_embeddings() -> None:
    found = from_config(BIGCODE)
    assert (found.gated, found.tied, found.kv_heads, found.upcasts_logits) == (False, True, 1, False)
    assert found.counted == pytest.approx(1.1249e9, rel=0.001)


def test_a_model_is_read_from_its_folder_its_file_or_its_size(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(MISTRAL))
    assert read_architecture(str(tmp_path)) == read_architecture(str(tmp_path / "config.json"))
    assert not read_architecture("7e9").known


@pytest.mark.parametrize(
    ("name", "layers"),
    [("mistralai/Mistral-7B-v0.1", 32), ("meta-llama/Meta-Llama-3-70B-Instruct", 80), ("Qwen/Qwen2.5-7B-Instruct", 28)],
)
def test_names_are_understood_with_owner_and_variant(name: str, layers: int) -> None:
    assert from_name(name).layers == layers


def test_an_unknown_name_is_answered_with_the_nearest_and_the_way_out() -> None:
    with pytest.raises(NotFound, match=r"mistral-7b.*config\.json"):
        from_name("mistral-8b")


@pytest.mark.parametrize("text", ["{", "[]", '{"hidden_size": 8}'])
def test_what_is_no_config_is_told(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(InvalidFile):
        read_architecture(str(tmp_path))


def test_a_module_is_read_by_its_layers() -> None:
    torch = pytest.importorskip("torch")
    nn = torch.nn

    class Block(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.q, self.o = nn.Linear(256, 256, bias=False), nn.Linear(256, 256, bias=False)
            self.k, self.v = nn.Linear(256, 64, bias=False), nn.Linear(256, 64, bias=False)
            self.gate, self.up = nn.Linear(256, 704, bias=False), nn.Linear(256, 704, bias=False)
            self.down = nn.Linear(704, 256, bias=False)

    class Model(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.table, self.head = nn.Embedding(1000, 256), nn.Linear(256, 1000, bias=False)
            self.blocks = nn.ModuleList(Block() for _ in range(3))

    with torch.device("meta"):
        found = from_module(Model())
    assert (found.layers, found.hidden, found.ffn, found.vocab) == (3, 256, 704, 1000)
    assert (found.gated, found.tied, found.kv_heads / found.heads) == (True, False, 0.25)
    assert found.linear_params + found.root_params == found.params


def test_a_module_that_is_no_transformer_is_refused() -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises(InvalidFile, match="tracing"):
        from_module(torch.nn.Sequential(torch.nn.Linear(2, 2)))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("vocab_size", "NaN"),
        ("num_hidden_layers", "1e400"),
        ("num_hidden_layers", '"abc"'),
        ("num_hidden_layers", "-2"),
        ("num_hidden_layers", "0"),
        ("num_attention_heads", "2.5"),
        ("num_key_value_heads", "true"),
        ("intermediate_size", "[1, 2]"),
        ("head_dim", "-1"),
    ],
)
def test_a_number_that_is_none_is_refused_by_its_key(tmp_path: Path, key: str, value: str) -> None:
    text = json.dumps(MISTRAL | {key: "PUT"}).replace('"PUT"', value)
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(InvalidFile, match=rf"has {key} .*: a whole number from 1 to 1,000,000,000 was expected"):
        read_architecture(str(tmp_path))


def test_what_a_config_leaves_open_is_as_usual() -> None:
    found = from_config(MISTRAL | {"num_key_value_heads": None, "head_dim": None, "num_local_experts": 0})
    assert (found.kv_heads, found.head_size, found.experts) == (32, 0, 1)
    assert from_config(MISTRAL | {"hidden_size": 4096.0}).hidden == 4096
