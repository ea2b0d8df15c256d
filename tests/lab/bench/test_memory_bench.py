"""`bench memory`: rows as the file has them, judged by models that did not see them."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cotune.cli.app import app
from cotune.errors import InvalidFile, NotFound
from cotune.lab.bench.memory import bench_memory

COLUMNS = (
    "table,model,family,params,active_params,method,setup,fast_kernels,liger,padding_free,expert_parallel,gpus,"
    "batch_per_gpu,seq_len,grad_accum,dtype,amp,mem_nvidia_mib,mem_torch_peak_bytes,failed"
)
SHAPES = """model,layers,hidden,heads,kv_heads,ffn,vocab,tied,experts,experts_active
a/one,32,4096,32,8,14336,32000,0,,
a/two,32,4096,32,8,14336,32000,0,,
a/none,,,,,,,,,
"""


def row(batch: int, peak: str = "", *, model: str = "a/one", failed: int = 0, method: str = "lora") -> str:
    return f"main,{model},{model},7241732096,,{method},none,0,0,0,,1,{batch},4096,1,bfloat16,none,30000,{peak},{failed}"


def folder(tmp_path: Path, *rows: str) -> Path:
    (tmp_path / "models.csv").write_text(SHAPES)
    (tmp_path / "finetune.csv").write_text("\n".join([COLUMNS, *rows]) + "\n")
    return tmp_path


def test_every_row_is_answered_with_its_line_in_the_file(tmp_path: Path) -> None:
    found = bench_memory(folder(tmp_path, row(4, "26704000000"), row(8, failed=1)))
    assert [one["row"] for one in found["rows"]] == [0, 1]
    assert {one["quantity"] for one in found["rows"]} == {"mem_torch_peak_bytes"}
    assert found["summary"]["rows"] == 1
    assert found["summary"]["median"] == pytest.approx(0, abs=0.01)
    assert (found["summary"]["failures"], found["summary"]["ran"]) == (1, 1)


def test_no_row_sees_its_own_familys_measurements(tmp_path: Path) -> None:
    shown = [bench_memory(folder(tmp_path, row(4, peak), row(8)))["rows"] for peak in ("26704000000", "52000000000")]
    assert shown[0][0]["predicted"] == shown[1][0]["predicted"]
    assert shown[0][1]["predicted"] == shown[1][1]["predicted"]


def test_other_families_correct_a_row(tmp_path: Path) -> None:
    shown = [
        bench_memory(folder(tmp_path, row(4), row(4, peak, model="a/two")))["rows"][0] for peak in ("", "60000000000")
    ]
    assert shown[1]["predicted"]["mid"] > shown[0]["predicted"]["mid"]


def test_a_family_without_a_shape_corrects_no_other(tmp_path: Path) -> None:
    shown = [
        bench_memory(folder(tmp_path, row(4), row(4, peak, model="a/none")))["rows"][0] for peak in ("", "60000000000")
    ]
    assert shown[1]["predicted"] == shown[0]["predicted"]


def test_after_two_batches_only_larger_ones_are_judged_on_their_line(tmp_path: Path) -> None:
    rows = [row(batch, str(15_000_000_000 + batch * 2_500_000_000)) for batch in (16, 4, 8)]
    found = bench_memory(folder(tmp_path, *rows), measured=2)
    assert [one["row"] for one in found["rows"]] == [0]
    assert found["rows"][0]["predicted"]["mid"] == pytest.approx(55e9, rel=0.01)


def test_a_batch_larger_than_one_that_failed_is_refused(tmp_path: Path) -> None:
    found = bench_memory(folder(tmp_path, row(1, "17e9"), row(2, failed=1), row(3)), measured=2)
    assert [one["row"] for one in found["rows"]] == [2]
    assert found["rows"][0]["p_fits"] < 0.1


def test_a_model_without_a_shape_has_a_wider_interval(tmp_path: Path) -> None:
    rows = bench_memory(folder(tmp_path, row(8), row(8, model="a/none")))["rows"]
    known, unknown = (one["predicted"]["high"] - one["predicted"]["low"] for one in rows)
    assert unknown > 2 * known


def test_a_folder_without_the_file_or_with_a_wrong_method_is_told(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"finetune\.csv"):
        bench_memory(tmp_path)
    with pytest.raises(InvalidFile, match="row 0"):
        bench_memory(folder(tmp_path, row(4, method="distilled")))


@pytest.mark.skipif("COTUNE_DATA" not in os.environ, reason="needs COTUNE_DATA")
@pytest.mark.parametrize(("measured", "median", "p90"), [(0, 0.05, 0.18), (2, 0.01, 0.02)])
def test_recorded_peaks_are_met_and_failures_foreseen(measured: int, median: float, p90: float) -> None:
    found = bench_memory(Path(os.environ["COTUNE_DATA"]) / "fms_finetune", measured=measured)["summary"]
    assert found["median"] <= median
    assert found["p90"] <= p90
    assert found["foreseen"] >= 0.95 * found["failures"]
    assert found["refused"] <= 0.03 * found["ran"]


def test_the_command_prints_rows_that_anybody_can_judge(tmp_path: Path) -> None:
    place = folder(tmp_path, row(4, "26704000000"), row(8, failed=1))
    done = CliRunner().invoke(app, ["bench", "memory", str(place), "--json"], catch_exceptions=False)
    found = json.loads(done.stdout)
    assert found["schema"] == "cotune.bench.memory"
    assert {"row", "quantity", "predicted", "p_fits", "measured", "failed"} <= set(found["rows"][0])
    assert set(found["rows"][0]["predicted"]) == {"low", "mid", "high"}
    assert found["summary"]["rows"] == 1
    shown = CliRunner().invoke(app, ["bench", "memory", str(place)], catch_exceptions=False).output
    assert "failures foreseen" in shown
