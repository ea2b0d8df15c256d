"""Tables of recorded fine-tuning runs: what cells may hold, and what is said of those that make no sense."""

from __future__ import annotations

from pathlib import Path

import pytest

from cotune.errors import InvalidFile
from cotune.modelling.memory.table import RecordedRun, read_runs

ROW = {
    "table": "main", "model": "a/Model-7B", "family": "Model-7B", "params": "7241732096", "active_params": "7241732096",
    "method": "lora", "setup": "none", "fast_kernels": "0", "liger": "0", "expert_parallel": "", "gpus": "2",
    "batch_per_gpu": "4", "seq_len": "4096", "grad_accum": "1", "dtype": "bfloat16", "amp": "none",
    "mem_nvidia_mib": "18809", "mem_torch_peak_bytes": "13064809472", "failed": "0",
}  # fmt: skip
SHAPE = {
    "model": "a/Model-7B", "layers": "32", "hidden": "4096", "heads": "32", "kv_heads": "8", "ffn": "14336",
    "vocab": "32000", "tied": "0", "experts": "", "experts_active": "",
}  # fmt: skip


def read(folder: Path, *, mark: str = "", shape: dict[str, str] | None = None, **cells: str | None) -> RecordedRun:
    """Return a row as it is read with some cells changed, a column of None left out."""
    row = {name: cell for name, cell in {**ROW, **cells}.items() if cell is not None}
    known = SHAPE | (shape or {})
    (folder / "finetune.csv").write_text(mark + f"{','.join(row)}\r\n{','.join(row.values())}\r\n\r\n", "utf-8")
    (folder / "models.csv").write_text(f"{','.join(known)}\n{','.join(known.values())}\n")
    (run,) = read_runs(folder)
    return run


def test_a_row_is_read_however_its_cells_are_written(tmp_path: Path) -> None:
    plain = read(tmp_path)
    assert plain == read(tmp_path, mark="\ufeff", gpus="2.0", batch_per_gpu="4.0", failed="False", amp="None")
    assert plain.model == read(tmp_path, shape={"vocab": "32000.0", "tied": "", "experts": "nan"}).model
    without = ("family", "active_params", "fast_kernels", "liger", "expert_parallel", "grad_accum", "amp", "failed")
    assert read(tmp_path, **dict.fromkeys(without)).setup == plain.setup
    assert [read(tmp_path, failed=cell).failed for cell in ("1", "1.0", "True", "0", "", "no")] == [True] * 3 + [
        False
    ] * 3
    assert [read(tmp_path, mem_torch_peak_bytes=cell).peak_bytes for cell in ("", "nan", "NA")] == [None] * 3


def test_what_no_column_tells_is_read_off_the_name_of_the_setup(tmp_path: Path) -> None:
    setup = read(tmp_path, setup="moe-ep4-foak-liger-cpu-offload", fast_kernels=None, liger="").setup
    assert (setup.fused_kernels, setup.fused_loss, setup.expert_parallel, setup.offload) == (True, True, 4, True)
    told = read(tmp_path, setup="moe-ep4-foak-liger", fast_kernels="0", liger="0", expert_parallel="2").setup
    assert (told.fused_kernels, told.fused_loss, told.expert_parallel, told.offload) == (False, False, 2, False)


@pytest.mark.parametrize(
    ("said", "method"),
    [
        ("full", "full"),
        ("lora", "lora"),
        ("bnb_nf4_lora", "nf4"),
        ("QLoRA", "nf4"),
        ("gptq_lora", "gptq"),
        ("dora", None),
    ],
)
def test_a_method_is_known_by_its_words(tmp_path: Path, said: str, method: str | None) -> None:
    if method is None:
        with pytest.raises(InvalidFile, match="its method is 'dora'; full, lora"):
            read(tmp_path, method=said)
    else:
        assert read(tmp_path, method=said).setup.method == method


def test_a_shape_that_is_told_in_part_is_guessed_and_one_without_parameters_is_counted(tmp_path: Path) -> None:
    assert read(tmp_path).model.known
    assert not read(tmp_path, shape={"ffn": ""}).model.known
    assert read(tmp_path, shape={"kv_heads": ""}).model.kv_heads == 32
    counted = read(tmp_path, params="").model
    assert counted.known
    assert (counted.params or counted.counted) == pytest.approx(7.24e9, rel=0.01)


@pytest.mark.parametrize(
    ("cells", "shape", "words"),
    [
        ({"gpus": ""}, {}, "it does not say gpus"),
        ({"batch_per_gpu": None}, {}, "it does not say batch_per_gpu"),
        ({"batch_per_gpu": "0"}, {}, "its batch_per_gpu is '0', not a number above 0"),
        ({"gpus": "-1"}, {}, "its gpus is '-1'"),
        ({"params": "1e40"}, {}, "its params is '1e40'"),
        ({"params": "many"}, {}, "its params is 'many'"),
        ({"params": "inf"}, {}, "its params is 'inf'"),
        ({"params": ""}, {"layers": ""}, "neither models.csv nor params tells the size of a/Model-7B"),
        ({}, {"hidden": "0"}, "its hidden is '0'"),
        ({"model": ""}, {}, "it names no model"),
    ],
)
def test_a_cell_that_makes_no_sense_is_named(
    tmp_path: Path, cells: dict[str, str | None], shape: dict[str, str], words: str
) -> None:
    with pytest.raises(InvalidFile, match=r"finetune.csv, row 0") as caught:
        read(tmp_path, shape=shape, **cells)
    assert words in str(caught.value)
