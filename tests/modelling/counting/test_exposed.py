"""What a named model tells before it runs: the same counts are the same model, and memory is a line."""

from __future__ import annotations

from pathlib import Path

import pytest

from cotune.modelling.counting.trace import count
from cotune.modelling.model_counter import counted_model
from cotune.modelling.workloads.named import find

NET = """
from torch import nn

def {name}() -> nn.Module:
    return nn.Sequential(nn.Linear(64, {width}), nn.ReLU(), nn.Linear({width}, 10))
"""


def test_two_names_of_one_model_have_one_fingerprint(tmp_path: Path) -> None:
    marks = {}
    for name, width in (("one", 128), ("same", 128), ("wider", 256)):
        file = tmp_path / f"exposed_{name}.py"
        file.write_text(NET.format(name=name, width=width))
        marks[name] = counted_model(find(f"{file}:{name}")).fingerprint
    assert marks["one"] == marks["same"] != marks["wider"]


@pytest.mark.parametrize("name", ["lenet5", "transformer_block"])
def test_memory_is_a_line_in_the_batch(name: str) -> None:
    model = counted_model(find(name))
    for batch in (32, 256):
        line = model.fixed_bytes + model.bytes_per_example * batch
        assert line == pytest.approx(count(find(name), batch).peak_bytes, rel=0.02)
