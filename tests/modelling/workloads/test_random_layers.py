"""Random layers are timed for real, written as they come, and gone on with after an interruption."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from cli.jobs import cotune
from cotune.modelling.layer_rows import SHAPES, read_layers
from cotune.modelling.workloads.random_layers import Collection, build, collect, draw

QUICK = Collection(warm_up=1, runs=1, repeats=2)
KINDS = tuple(SHAPES)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_built_as_drawn(kind: str) -> None:
    for number in range(3):
        shape = draw(kind, number, QUICK, bounded=True)
        assert set(shape) == set(SHAPES[kind])
        layer, sizes = build(kind, shape)
        out = layer(torch.randn(sizes))
        assert out.shape[0] == shape["batch"]
        if shape.get("padding") == "same":
            assert out.shape[-1] == -(-int(shape["size_in"]) // int(shape["stride"]))


def test_sizes_are_even_in_their_logarithms_and_evenly_as_published() -> None:
    """Evenly nearly all are large: of a network of small layers none was within what had been timed."""
    small = {
        how.evenly: sum(int(draw("dense", number, how, bounded=False)["dim_in"]) < 64 for number in range(200))
        for how in (Collection(), Collection(evenly=True))
    }
    assert small[False] == pytest.approx(100, abs=25)  # 64 is half of 4,096 in logarithms
    assert small[True] < 10


def test_a_collection_goes_on_where_it_stopped(tmp_path: Path) -> None:
    once = list(collect(tmp_path, KINDS, 3, "cpu", QUICK))
    assert [layer.number for layer in once if layer.kind == "conv"] == [0, 1, 2]
    file = next(tmp_path.glob("conv_*.csv"))
    file.write_text(file.read_text()[:-5])  # killed in the middle of a row
    again = list(collect(tmp_path, KINDS, 4, "cpu", QUICK))
    assert [layer.number for layer in again if layer.kind == "conv"] == [2, 3]
    assert [layer.number for layer in again if layer.kind == "pool"] == [3]
    assert again[0].shape == once[9].shape
    tables = read_layers(tmp_path)
    assert {kind: len(table) for kind, table in tables.items()} == dict.fromkeys(KINDS, 4)
    assert all((table.ms > 0).all() and table.facts["gflops"][0] > 0 for table in tables.values())


def test_a_layer_that_does_not_fit_is_a_row_without_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cotune.modelling.workloads.random_layers.torch.randn", _too_large)
    monkeypatch.setattr("cotune.modelling.workloads.random_layers.facts", lambda _: None)
    monkeypatch.setattr("cotune.modelling.workloads.random_layers.write_device", lambda *_: None)
    (layer,) = collect(tmp_path, ("dense",), 1, "cpu", QUICK)
    assert layer.ms is None
    assert len(read_layers(tmp_path)["dense"]) == 0
    assert not list(collect(tmp_path, ("dense",), 1, "cpu", QUICK))


def _too_large(*_: object, **__: object) -> torch.Tensor:
    raise RuntimeError("out of memory")


def test_the_command_line_times_layers_and_judges_models_of_them(tmp_path: Path) -> None:
    words = ("model", "layers", "1", "--kinds", "dense", "--json")
    done = cotune(tmp_path, *words)
    assert done.code == 0, done.err
    assert done.json["timed"] == 1
    assert cotune(tmp_path, *words).json["timed"] == 0
    wrong = cotune(tmp_path, "model", "layers", "1", "--kinds", "dens")
    assert (wrong.code, "did you mean 'dense'" in wrong.err) == (2, True)
    file = next((tmp_path / "layers").glob("dense_*.csv"))
    head, row = file.read_text().splitlines()
    rows = [f"{batch},{row.split(',', 1)[1]}" for batch in range(1, 41)]
    file.write_text("\n".join([head, *rows]) + "\n")
    judged = cotune(tmp_path, "bench", "layers", "layers", "--model", "layer_trees(trees=5)", "--json")
    assert judged.code == 0, judged.err
    assert [(one["kind"], one["seen"], one["learnt"]) for one in judged.json["rows"]] == [("dense", True, 32)]
