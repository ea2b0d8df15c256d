"""Where a shape comes from: a Hugging Face config.json (no weights), a name, an `nn.Module`, or a size.

    read_architecture("config.json" | "folder" | "mistral-7b" | "7.2e9")

A module that carries a Hugging Face `config` is read by it; another by the shapes of its layers.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from functools import cache, partial
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from pydantic_core import from_json

from cotune.errors import InvalidFile, NotFound, suggestion
from cotune.modelling.memory.architecture import Architecture, guessed

if TYPE_CHECKING:
    from torch import nn

_KEYS = {  # Llama's name of a field first, then those of others
    "layers": ("num_hidden_layers", "n_layer", "num_layers", "n_layers"),
    "hidden": ("hidden_size", "n_embd", "d_model"),
    "heads": ("num_attention_heads", "n_head", "n_heads"),
    "vocab": ("vocab_size", "padded_vocab_size"),
}
_FFN = ("moe_intermediate_size", "intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size")
_EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts")
_MOST = 10**9  # layers, heads, words or numbers of a vector
_TIED = frozenset(("gpt2", "gpt_bigcode", "opt", "bloom", "gemma", "gemma2"))  # unless their config says otherwise
_PLAIN = frozenset(
    ("gpt2", "gpt_bigcode", "gpt_neo", "gpt_neox", "gptj", "opt", "bloom", "codegen", "starcoder2", "phi")
)


def read_architecture(model: str) -> Architecture:
    """Return the shape of a model given by its config.json or its folder, its name, or its parameters (7e9)."""
    path = Path(model)
    if path.is_dir():
        path = path / "config.json"
    if path.suffix == ".json":
        return from_config(_loaded(path), path.parent.name or path.stem)
    if re.fullmatch(r"\d+(\.\d+)?(e\d+)?", model):
        return guessed(model, float(model))
    return from_name(model)


def from_name(name: str) -> Architecture:
    """Return the shape of a public model, however its owner and variant are spelt after its name."""
    plain = name.lower().split("/")[-1].replace("meta-", "").replace("_", "-")
    known = [one for one in _models() if re.match(rf"(.*-)?{re.escape(one)}(?![0-9a-z.])", plain)]
    if not known:
        near = suggestion(plain, _models())
        raise NotFound(f"no shape of a model {name!r} is known{near}; give its config.json, or its parameters (7e9)")
    return _models()[max(known, key=len)]


def from_config(config: Mapping[str, Any], name: str = "model") -> Architecture:
    """Return the shape that a Hugging Face config describes."""
    inner = config.get("text_config")
    config = inner if isinstance(inner, Mapping) and inner else config
    kind = str(config.get("model_type", ""))
    missing = [keys[0] for keys in _KEYS.values() if all(config.get(key) is None for key in keys)]
    if missing:
        raise InvalidFile(f"the config of {name} has no {', '.join(missing)}: is it a language model's?")
    count = partial(_count, config, name)
    layers, hidden, heads, vocab = (count(keys) for keys in _KEYS.values())
    plain = kind in _PLAIN
    experts = count(_EXPERTS, 1)
    return Architecture(
        name=str(config.get("_name_or_path") or name), layers=layers, hidden=hidden, heads=heads,
        kv_heads=1 if config.get("multi_query") else count(("num_key_value_heads",), heads),
        ffn=count(_FFN, 4 * hidden), vocab=vocab,
        tied=bool(config.get("tie_word_embeddings", kind in _TIED)),
        experts=experts, experts_active=count(("num_experts_per_tok",), 1) if experts > 1 else 1,
        gated=not plain, head_size=count(("head_dim",), 0),
        positions=count(("n_positions",), 0) if kind in ("gpt2", "gpt_bigcode") else 0,
        upcasts_logits=not plain,
    )  # fmt: skip


def _count(config: Mapping[str, Any], name: str, keys: tuple[str, ...], usual: int | None = None) -> int:
    """Return the whole number that a config has by one of its keys, else the usual one; refuse what is none."""
    key = next((key for key in keys if config.get(key) is not None), keys[0])
    value = config.get(key)
    if usual is not None and not value:
        return usual
    number = value if isinstance(value, int | float) and not isinstance(value, bool) else math.nan
    if not 0 < number <= _MOST or number != int(number):
        words = f"the config of {name} has {key} {value!r:.40}"
        raise InvalidFile(f"{words}: a whole number from 1 to {_MOST:,} was expected")
    return int(number)


def from_module(module: nn.Module, name: str = "") -> Architecture:
    """Return the shape of a transformer built in torch, its weights on any device, `meta` too."""
    label = name or type(module).__name__
    config = getattr(module, "config", None)
    if config is not None and hasattr(config, "to_dict"):
        return from_config(config.to_dict(), label)
    blocks = max(
        (part for part in module.modules() if type(part).__name__ in ("ModuleList", "Sequential", "ModuleDict")),
        key=_alike, default=None,
    )  # fmt: skip
    tables = [part for part in module.modules() if type(part).__name__ == "Embedding"]
    if blocks is None or _alike(blocks) < 2 or not tables:
        raise InvalidFile(f"{label} is no stack of equal blocks over an embedding: its memory is counted by tracing it")
    table = max(tables, key=lambda part: int(part.num_embeddings))  # type: ignore[arg-type]
    vocab, hidden = int(table.num_embeddings), int(table.embedding_dim)  # type: ignore[arg-type]
    params = float(sum(one.numel() for one in {id(one): one for one in module.parameters()}.values()))
    block = next(iter(blocks.children()))
    outside = params - _alike(blocks) * sum(one.numel() for one in block.parameters())
    shape = Architecture(
        name=label, layers=_alike(blocks), hidden=hidden, heads=max(hidden // 64, 1), kv_heads=1, ffn=4 * hidden,
        vocab=vocab, tied=outside < 1.5 * vocab * hidden, upcasts_logits=False, params=params,
    )  # fmt: skip
    return _with_block(shape, [tuple(one.shape) for one in block.parameters() if one.dim() == 2])


def _with_block(shape: Architecture, matrices: list[tuple[int, ...]]) -> Architecture:
    """Return the shape with the feed-forward width and the key-value heads that a block's matrices tell."""
    hidden = shape.hidden
    widths = Counter(max(one) for one in matrices if hidden in one and max(one) > hidden)
    often = [width for width, times in widths.items() if times > 1]  # a fused q, k, v stands alone
    ffn = max(often or widths, default=shape.ffn)
    attention = sum(math.prod(one) for one in matrices) - widths[ffn] * hidden * ffn
    share = min(max(attention / (2 * hidden**2) - 1, 0.0), 1.0)  # key-value heads over heads
    return replace(shape, ffn=ffn, gated=widths[ffn] >= 3, kv_heads=max(round(share * shape.heads), 1))


def _alike(part: nn.Module) -> int:
    """Return how many children are of the most frequent kind."""
    return max(Counter(type(child).__name__ for child in part.children()).values(), default=0)


def _loaded(path: Path) -> Mapping[str, Any]:
    try:
        written = from_json(path.read_bytes())
    except FileNotFoundError:
        raise NotFound(f"no model config at {path}") from None
    except ValueError as error:
        raise InvalidFile(f"{path} is not JSON: {error}") from None
    if not isinstance(written, dict):
        raise InvalidFile(f"{path} holds no model config: a JSON object was expected")
    return written


@cache
def _models() -> Mapping[str, Architecture]:
    written = yaml.safe_load((files("cotune.modelling.memory") / "models.yaml").read_text(encoding="utf-8"))
    return {name: _known(name, entry) for name, entry in written.items()}


def _known(name: str, entry: Mapping[str, Any]) -> Architecture:
    plain = bool(entry.get("plain"))
    layers, hidden, heads, kv_heads, ffn, vocab, tied = entry["shape"]
    return Architecture(
        name=name, layers=layers, hidden=hidden, heads=heads, kv_heads=kv_heads, ffn=ffn, vocab=vocab, tied=tied,
        experts=entry.get("experts", 1), experts_active=entry.get("experts_active", 1), gated=not plain,
        upcasts_logits=not plain, positions=entry.get("positions", 0),
    )  # fmt: skip
