"""`cotune model memory` on the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cotune.cli.app import app
from cotune.errors import CotuneError, Infeasible, NotFound, UsageError

ASKED = ("model", "memory", "mistral-7b", "--device", "a100", "--method", "lora", "--seq", "4096")


def cotune(*words: str) -> Any:
    done = CliRunner().invoke(app, [*words, "--json"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def test_the_largest_batch_is_one_question() -> None:
    found = cotune(*ASKED, "--gpus", "4")
    rows = {row["micro_batch"]: row for row in found["rows"]}
    largest = found["largest_batch"]
    assert rows[largest]["p_fits"] >= found["confidence"] == 0.95 > rows[largest + 1]["p_fits"]
    for row in rows.values():
        assert row["peak_bytes"]["low"] <= row["peak_bytes"]["mid"] <= row["peak_bytes"]["high"]
        assert row["nvidia_bytes"] > 0


def test_batches_asked_for_are_answered_even_where_none_fits() -> None:
    found = cotune("model", "memory", "llama-3-70b", "--device", "a100", "--batch", "1,4")
    assert [row["micro_batch"] for row in found["rows"]] == [1, 4]
    assert found["largest_batch"] == 0


def test_people_read_a_table() -> None:
    shown = CliRunner().invoke(app, list(ASKED), catch_exceptions=False).output
    assert "largest   micro-batch" in shown
    assert "P(fits)" in shown


def test_measured_peaks_narrow_what_is_told() -> None:
    counted = cotune(*ASKED, "--batch", "16")["rows"][0]["peak_bytes"]
    measured = cotune(*ASKED, "--batch", "16", "--measured", "4=24.9,8=36.1")["rows"][0]["peak_bytes"]
    assert measured["mid"] == pytest.approx((36.1 + 8 * 2.8) * 2**30, rel=0.01)
    assert measured["high"] - measured["low"] < counted["high"] - counted["low"]


def test_fewer_bytes_a_weight_leave_room_for_larger_batches() -> None:
    largest = [cotune(*ASKED, "--method", method)["largest_batch"] for method in ("lora", "qlora")]
    assert 0 < largest[0] < largest[1]


def test_a_config_file_and_a_module_are_models_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    config = {"num_hidden_layers": 4, "hidden_size": 256, "num_attention_heads": 4, "vocab_size": 1000}
    (tmp_path / "config.json").write_text(json.dumps(config | {"intermediate_size": 1024, "model_type": "gpt2"}))
    (tmp_path / "nets.py").write_text(
        "from torch import nn\n\n"
        "def stack():\n"
        "    layer = lambda: nn.Sequential(nn.Linear(256, 256), nn.Linear(256, 1024), nn.Linear(1024, 256))\n"
        "    return nn.Sequential(nn.Embedding(1000, 256), nn.ModuleList(layer() for _ in range(4)))\n"
    )
    monkeypatch.chdir(tmp_path)
    for model in ("config.json", "nets.py:stack"):
        assert cotune("model", "memory", model, "--device", "t4")["largest_batch"] > 0


@pytest.mark.parametrize(
    ("words", "error", "told"),
    [
        (("--method", "lorra"), UsageError, "lora"),
        (("--sharding", "zero9"), UsageError, "zero1"),
        (("--precision", "int3"), UsageError, "bf16"),
        (("--optimizer", "lion"), UsageError, "adamw"),
        (("--device", "a1000"), NotFound, "a100"),
        (("--measured", "4:12"), UsageError, "4=12.2"),
        (("--batch", "some"), UsageError, "1,2,4"),
        (("--batch", "0"), UsageError, "at least one"),
        (("--method", "full", "--seq", "400000"), Infeasible, "lora"),
    ],
)
def test_what_cannot_be_answered_is_explained(words: tuple[str, ...], error: type[CotuneError], told: str) -> None:
    with pytest.raises(error, match=told):
        CliRunner().invoke(app, [*ASKED, *words], catch_exceptions=False)
