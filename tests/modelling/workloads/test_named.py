"""Finding what a user names: short names, import paths, files, and clear words for what is not there."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from cotune.errors import CotuneError, InvalidFile, NotFound, UsageError
from cotune.modelling.counting.trace import count
from cotune.modelling.workloads.named import Input, find

SOURCE = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self, width, depth=1):
        super().__init__()
        self.layers = nn.Sequential(*(nn.Linear(width, width) for _ in range(depth)))

    def forward(self, x):
        return self.layers(x)

class Own(Net):
    def __init__(self):
        super().__init__(6)

    def example_inputs(self, batch):
        return (torch.randn(batch, 6),)

class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(50, 4)

    def forward(self, words):
        return {"logits": self.embedding(words)}

class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))

    def forward(self, a, b):
        return (a * self.weight, b)

ready = Own()
number = 3

def none():
    return None
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "nets_for_tests.py"
    path.write_text(SOURCE)
    return str(path)


def test_a_short_name_is_a_workload_with_data_and_loss() -> None:
    assert find("lenet5").batch(3)[0].shape == (3, 1, 32, 32)


def test_an_import_path_is_found_and_its_input_guessed_from_the_first_layer() -> None:
    found = find("torch.nn:Linear(in_features=5, out_features=2)")
    assert found.batch(3)[0].shape == (3, 5)
    assert "assumed" in found.notes[0]


def test_a_file_takes_settings_and_inputs(file: str) -> None:
    found = find(f"{file}:Net(width=4, depth=2)", ["4"])
    assert count(found, 2).parameters == 2 * 20
    assert not found.notes


def test_a_module_may_say_its_inputs_itself_or_be_ready(file: str) -> None:
    for name in ("Own", "ready"):
        assert find(f"{file}:{name}").batch(3)[0].shape == (3, 6)


def test_words_are_guessed_for_an_embedding_and_outputs_may_be_named(file: str) -> None:
    found = find(f"{file}:Words")
    assert found.batch(2)[0].dtype == torch.int64
    assert count(found, 2).parameters == 200


def test_several_inputs_are_given_one_by_one(file: str) -> None:
    assert count(find(f"{file}:Two", ["3", "int5:3"]), 2).parameters == 3


@pytest.mark.parametrize(
    ("name", "error", "words"),
    [
        ("resnet5", NotFound, "did you mean 'resnet50'"),
        ("no_such_module:Net", NotFound, "no module 'no_such_module'"),
        ("torch.nn:Linaer", NotFound, "did you mean 'Linear'"),
        ("nowhere.py:Net", NotFound, "no file nowhere.py"),
        ("torch.nn:Linear", UsageError, "in_features"),
        ("torch.nn:Linear(in_features)", UsageError, "settings"),
        ("torch:pi", UsageError, "float"),
        ("{file}:none", UsageError, "NoneType"),
        ("{file}:number", UsageError, "int"),
        ("{file}:Two", UsageError, "give the input"),
    ],
)
def test_what_is_not_there_is_named(name: str, error: type[CotuneError], words: str, file: str) -> None:
    with pytest.raises(error, match=words):
        find(name.replace("{file}", file))


def test_a_module_that_fails_to_import_says_why(tmp_path: Path) -> None:
    broken = tmp_path / "broken_net.py"
    broken.write_text("raise ValueError('half done')")
    with pytest.raises(InvalidFile, match="half done"):
        find(f"{broken}:Net")


@pytest.mark.parametrize("text", ["", "x", "3x", "3,4", "int:3", "float3"])
def test_a_shape_that_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="cannot read the input"):
        Input.read(text)


def test_a_shape_reads_back_as_it_was_written() -> None:
    for text in ("3x224x224", "int1000:128", "5"):
        assert str(Input.read(text)) == text


def test_a_module_class_of_torch_can_be_counted_by_name() -> None:
    layer = find("torch.nn:TransformerEncoderLayer(d_model=16, nhead=2, batch_first=True)", ["5x16"])
    assert isinstance(layer.build(), nn.TransformerEncoderLayer)
    assert count(layer, 2).parameters > 0
