"""Tables of measured layouts, as records: the ultra-scale playbook's, vTrain's and LLM Foundry's.

    layouts.csv      playbook: tokens/s and GB of each layout, or that it crashed; nodes of 8 H100, 4,096 tokens a
                     sequence, a vocabulary of 131,072, as its page says
    multi_node.csv   vTrain: milliseconds a step; Megatron with recomputation on nodes of 8 A100
    throughput.csv   LLM Foundry: seconds a step under FSDP, on A100 and H100

A table is cut into groups of one model on one machine; every line has one place in one group.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import numpy as np

from cotune.errors import InvalidFile, NotFound
from cotune.modelling.layouts.layout import Layout, Layouts
from cotune.modelling.layouts.predictor import LayoutRows
from cotune.modelling.layouts.setting import FSDP, MEGATRON, NANOTRON, Machine, Setting, Transformer
from cotune.types import Floats, Ints

Line = Mapping[str, str]
Key = TypeVar("Key")
PLAYBOOK, VTRAIN, FOUNDRY = "layouts.csv", "multi_node.csv", "throughput.csv"
_PLAYBOOK_TOKENS, _PLAYBOOK_VOCAB = 4096, 131_072
_GPT_VOCAB = 51_200  # vTrain's configuration pads GPT-2's to it
_FOUNDRY_VOCAB = 50_368


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
    for name in (PLAYBOOK, VTRAIN, FOUNDRY):
        if (folder / name).is_file():
            return folder / name
    raise NotFound(f"no table of layouts in {folder}: neither {PLAYBOOK} nor {VTRAIN} nor {FOUNDRY}")


def read_table(path: Path) -> list[LayoutGroup]:
    """Return the groups of a table of layouts, in order of appearance."""
    readers = {PLAYBOOK: _playbook, VTRAIN: _vtrain, FOUNDRY: _foundry}
    if path.name not in readers:
        raise NotFound(f"{path.name} is no table of layouts; there are {', '.join(readers)}")
    try:
        with path.open(newline="", encoding="utf-8") as file:
            lines = list(csv.DictReader(file))
        found = list(readers[path.name](lines))
    except FileNotFoundError:
        raise NotFound(f"no table of layouts at {path}") from None
    except (KeyError, ValueError, OSError, csv.Error) as error:
        raise InvalidFile(f"{path} is no table of layouts as expected: {error}") from None
    if not found:
        raise InvalidFile(f"{path} is no table of layouts as expected: it has no rows")
    return found


def _grouped(lines: Sequence[Line], key: Callable[[Line], Key]) -> dict[Key, list[int]]:
    groups: dict[Key, list[int]] = defaultdict(list)
    for number, line in enumerate(lines):
        groups[key(line)].append(number)
    return groups


def _group(
    name: str,
    numbers: Sequence[int],
    setting: Setting,
    layouts: Sequence[Layout],
    measured: Sequence[tuple[float, float]],
) -> LayoutGroup:
    seconds, gib = np.array(measured, dtype=float).T
    rows = LayoutRows(setting, Layouts.of(layouts), seconds, gib)
    return LayoutGroup(name, np.array(numbers, dtype=np.int64), rows)


def _playbook(lines: Sequence[Line]) -> Iterator[LayoutGroup]:
    machine = Machine.of_device("h100")
    for name, numbers in _grouped(lines, lambda line: line["model"]).items():
        mine = [lines[number] for number in numbers]
        setting = Setting(_llama(mine), machine, NANOTRON)
        layouts = [
            Layout(*(int(line[c]) for c in ("dp", "tp", "pp", "zero_stage", "micro_batch", "grad_accum")))
            for line in mine
        ]
        yield _group(name, numbers, setting, layouts, [_speed_and_memory(line) for line in mine])


def _speed_and_memory(line: Line) -> tuple[float, float]:
    """Return the seconds and GiB of a line, not numbers where it crashed or its memory is not told."""
    if line["status"] != "measured":
        return np.nan, np.nan
    tokens = int(line["global_batch"]) * _PLAYBOOK_TOKENS
    return tokens / (float(line["tokens_per_s_per_gpu"]) * int(line["gpus"])), float(line["memory_gb"] or "nan")


def _llama(lines: Sequence[Line]) -> Transformer:
    """Return the shape of a model; embeddings are one matrix where its smallest count of parameters holds one."""
    layers, hidden, heads, ffn = (int(lines[0][column]) for column in ("layers", "hidden", "heads", "ffn"))
    shape = Transformer(layers, hidden, heads, heads, ffn, _PLAYBOOK_VOCAB, _PLAYBOOK_TOKENS)
    fewest = min(int(line["params"]) for line in lines)
    tied = fewest - layers * shape.layer_params < 1.5 * shape.embedding_params
    return Transformer(layers, hidden, heads, heads, ffn, _PLAYBOOK_VOCAB, _PLAYBOOK_TOKENS, tied=tied)


def _vtrain(lines: Sequence[Line]) -> Iterator[LayoutGroup]:
    machine = Machine.of_device("a100", network=100e9 / 8)  # 800 Gb/s of a node, in bytes, for each of 8
    shapes = _grouped(lines, lambda line: tuple(int(line[c]) for c in ("layers", "hidden", "heads", "seq_len")))
    for (layers, hidden, heads, tokens), numbers in shapes.items():
        shape = Transformer(layers, hidden, heads, heads, 4 * hidden, _GPT_VOCAB, tokens, tied=True, gated=False)
        mine = [lines[number] for number in numbers]
        layouts = [_megatron(line) for line in mine]
        setting = Setting(shape, machine, MEGATRON)
        measured = [(float(line["iteration_ms"]) / 1000, np.nan) for line in mine]
        yield _group(f"{hidden}x{layers}", numbers, setting, layouts, measured)


def _megatron(line: Line) -> Layout:
    data, micro = int(line["data"]), int(line["micro_batch"])
    accumulate = int(line["global_batch"]) // (data * micro)
    return Layout(data, int(line["tensor"]), int(line["pipeline"]), 0, micro, accumulate, recompute=1)


def _foundry(lines: Sequence[Line]) -> Iterator[LayoutGroup]:
    shapes = _grouped(lines, lambda line: (line["gpu"], line["model"], int(line["seq_len"]), line["precision"]))
    for (gpu, model, tokens, precision), numbers in shapes.items():
        mine = [lines[number] for number in numbers]
        layers, hidden = int(mine[0]["layers"]), int(mine[0]["hidden"])
        heads = max(hidden // 128, 1)
        shape = Transformer(layers, hidden, heads, heads, 4 * hidden, _FOUNDRY_VOCAB, tokens, tied=True, gated=False)
        layouts = [
            Layout(
                dp=int(line["gpus"]),
                tp=1,
                pp=1,
                shard=3 if line["sharding"] == "full_shard" else 2,
                micro_batch=int(line["micro_batch"]),
                accumulate=int(line["grad_accum"]),
                recompute=int(line["activation_checkpointing"]),
            )
            for line in mine
        ]
        setting = Setting(shape, _foundry_machine(gpu, precision), FSDP)
        measured = [(float(line["step_time_s"]), np.nan) for line in mine]
        yield _group(f"{gpu} {model}", numbers, setting, layouts, measured)


_EIGHT_BITS = 1.5  # what products of matrices gain over bf16 in training, by published end-to-end speeds


def _foundry_machine(gpu: str, precision: str) -> Machine:
    """Return its nodes: 1,600 Gb/s between those of A100, as its page says; H100 nodes usually have twice that."""
    device = Machine.of_device(gpu, network=50e9 if gpu.startswith("h100") else 25e9)
    return replace(device, name=gpu, narrow=_EIGHT_BITS if precision == "amp_fp8" else 1.0)
