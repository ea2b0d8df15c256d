"""Tables of measured layouts, as records: the ultra-scale playbook's, vTrain's and LLM Foundry's.

    layouts.csv      playbook: tokens/s and GB of each layout, or that it crashed; nodes of 8 H100, 4,096 tokens a
                     sequence, a vocabulary of 131,072, as its page says
    multi_node.csv   vTrain: milliseconds a step; Megatron with recomputation on nodes of 8 A100
    throughput.csv   LLM Foundry: seconds a step under FSDP, on A100 and H100

A table is cut into groups of one model on one machine; every line has one place in one group.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from cotune.errors import InvalidFile, NotFound
from cotune.modelling.layouts.layout import Layout, LayoutRows, Layouts
from cotune.modelling.layouts.setting import FSDP, MEGATRON, NANOTRON, Machine, Setting, Transformer
from cotune.recording.imported import rows
from cotune.types import Floats, Ints

Line = Mapping[str, str]
PLAYBOOK, VTRAIN, FOUNDRY = "layouts.csv", "multi_node.csv", "throughput.csv"
_PLAYBOOK_TOKENS, _PLAYBOOK_VOCAB = 4096, 131_072
_GPT_VOCAB = 51_200  # vTrain's configuration pads GPT-2's to it
_FOUNDRY_VOCAB = 50_368
_EIGHT_BITS = 1.5  # what products of matrices gain over bf16 in training, by published end-to-end speeds


@dataclass(frozen=True, slots=True)
class LayoutGroup:
    """The lines of one model on one machine: their numbers in the file, from 0 after its header."""

    name: str
    lines: Ints
    rows: LayoutRows

    @property
    def tokens_per_gpu(self) -> Floats:
        """Return the tokens of a step on each device."""
        layouts = self.rows.layouts
        return np.asarray(layouts.global_batch * float(self.rows.setting.model.seq_len) / layouts.gpus)

    @property
    def nodes(self) -> Ints:
        return np.asarray(np.maximum(self.rows.layouts.gpus // self.rows.setting.machine.per_node, 1))


def find_table(folder: Path) -> Path:
    """Return the table of layouts in a folder."""
    for name in _READERS:
        if (folder / name).is_file():
            return folder / name
    raise NotFound(f"no table of layouts in {folder}: none of {', '.join(_READERS)}")


@dataclass(frozen=True, slots=True)
class _Reader:
    """How one table is read: what makes a group and its name, the setting of a group, and what a line says."""

    key: tuple[str, ...]  # the columns in which the lines of a group are equal
    name: str  # of a group, with its columns in braces
    setting: Callable[[Sequence[Line]], Setting]
    layout: Callable[[Line], Layout]
    measured: Callable[[Line], tuple[float, float]]  # seconds and GiB, not numbers where it crashed or none are given

    def groups(self, lines: Sequence[Line]) -> Iterator[LayoutGroup]:
        numbers: dict[tuple[str, ...], list[int]] = defaultdict(list)
        for number, line in enumerate(lines):
            numbers[tuple(line[column] for column in self.key)].append(number)
        for own in numbers.values():
            mine = [lines[number] for number in own]
            seconds, gib = np.array([self.measured(line) for line in mine], dtype=float).T
            tried = LayoutRows(self.setting(mine), Layouts.of(map(self.layout, mine)), seconds, gib)
            yield LayoutGroup(self.name.format_map(mine[0]), np.array(own, dtype=np.int64), tried)


def read_table(path: Path) -> list[LayoutGroup]:
    """Return the groups of a table of layouts, in order of appearance."""
    if path.name not in _READERS:
        raise NotFound(f"{path.name} is no table of layouts; there are {', '.join(_READERS)}")
    try:
        found = list(_READERS[path.name].groups(list(rows(path))))
    except (KeyError, ValueError) as error:
        raise InvalidFile(f"{path} is no table of layouts as expected: {error}") from None
    if not found:
        raise InvalidFile(f"{path} is no table of layouts as expected: it has no rows")
    return found


def _numbers(line: Line, *columns: str) -> list[int]:
    return [int(line[column]) for column in columns]


def _playbook(lines: Sequence[Line]) -> Setting:
    """Return the setting of a model; embeddings are one matrix where its smallest count of parameters holds one."""
    layers, hidden, heads, ffn = _numbers(lines[0], "layers", "hidden", "heads", "ffn")
    shape = Transformer(layers, hidden, heads, heads, ffn, _PLAYBOOK_VOCAB, _PLAYBOOK_TOKENS)
    fewest = min(int(line["params"]) for line in lines)
    tied = fewest - layers * shape.layer_params < 1.5 * shape.embedding_params
    return Setting(replace(shape, tied=tied), Machine.of_device("h100"), NANOTRON)


def _speed_and_memory(line: Line) -> tuple[float, float]:
    if line["status"] != "measured":
        return np.nan, np.nan
    tokens = int(line["global_batch"]) * _PLAYBOOK_TOKENS
    return tokens / (float(line["tokens_per_s_per_gpu"]) * int(line["gpus"])), float(line["memory_gb"] or "nan")


def _vtrain(lines: Sequence[Line]) -> Setting:
    layers, hidden, heads, tokens = _numbers(lines[0], "layers", "hidden", "heads", "seq_len")
    shape = Transformer(layers, hidden, heads, heads, 4 * hidden, _GPT_VOCAB, tokens, tied=True, gated=False)
    machine = Machine.of_device("a100", network=100e9 / 8)  # 800 Gb/s of a node, in bytes, for each of 8
    return Setting(shape, machine, MEGATRON)


def _megatron(line: Line) -> Layout:
    data, tensor, pipeline, micro, batch = _numbers(line, "data", "tensor", "pipeline", "micro_batch", "global_batch")
    return Layout(data, tensor, pipeline, 0, micro, batch // (data * micro), recompute=1)


def _foundry(lines: Sequence[Line]) -> Setting:
    """Return MPT on its nodes: 1,600 Gb/s between those of A100, as its page says; of H100 usually twice that."""
    gpu, precision = lines[0]["gpu"], lines[0]["precision"]
    layers, hidden, tokens = _numbers(lines[0], "layers", "hidden", "seq_len")
    heads = max(hidden // 128, 1)
    shape = Transformer(layers, hidden, heads, heads, 4 * hidden, _FOUNDRY_VOCAB, tokens, tied=True, gated=False)
    device = Machine.of_device(gpu, network=50e9 if gpu.startswith("h100") else 25e9)
    narrow = _EIGHT_BITS if precision == "amp_fp8" else 1.0
    return Setting(shape, replace(device, name=gpu, narrow=narrow), FSDP)


def _fsdp(line: Line) -> Layout:
    gpus, micro, accumulate, again = _numbers(line, "gpus", "micro_batch", "grad_accum", "activation_checkpointing")
    return Layout(gpus, 1, 1, 3 if line["sharding"] == "full_shard" else 2, micro, accumulate, again)


_READERS = {
    PLAYBOOK: _Reader(
        key=("model",),
        name="{model}",
        setting=_playbook,
        layout=lambda line: Layout(*_numbers(line, "dp", "tp", "pp", "zero_stage", "micro_batch", "grad_accum")),
        measured=_speed_and_memory,
    ),
    VTRAIN: _Reader(
        key=("hidden", "layers", "heads", "seq_len"),
        name="{hidden}x{layers}",
        setting=_vtrain,
        layout=_megatron,
        measured=lambda line: (float(line["iteration_ms"]) / 1000, np.nan),
    ),
    FOUNDRY: _Reader(
        key=("gpu", "model", "seq_len", "precision"),
        name="{gpu} {model}",
        setting=_foundry,
        layout=_fsdp,
        measured=lambda line: (float(line["step_time_s"]), np.nan),
    ),
}
