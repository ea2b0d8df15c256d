"""`model predict`, `model inspect` and `model calibrate` on the command line, in a project of their own."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cotune.cli.app import app
from cotune.cli.main import main
from cotune.devices import table
from cotune.errors import InvalidFile, UsageError
from cotune.modelling.counting.profiler import profiled
from cotune.modelling.counting.trace import count
from cotune.modelling.verbs._modelling import carried
from cotune.modelling.workloads.named import find

NETS = """
from torch import nn

class Small(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.layer = nn.Linear(width, width)

    def forward(self, rows):
        return self.layer(rows)

class Choosing(Small):
    def forward(self, rows):
        out = self.layer(rows)
        return out[out[:, 0] > -100.0]

class Broken(Small):
    def forward(self, rows):
        raise RuntimeError("it never worked")
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / ".cotune").mkdir()
    (tmp_path / "some_nets.py").write_text(NETS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COTUNE_STORE", raising=False)
    return tmp_path


def cotune(*words: str) -> Any:
    result = CliRunner().invoke(app, [*words, "--json"], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout.splitlines()[-1])


def test_a_model_is_predicted_on_a_device_that_is_not_here(project: Path) -> None:
    asked = ("--batch-size", "16,64", "--workers", "1,8", "--device", "a100", "--examples", "50000", "--epochs", "3")
    found = cotune("model", "predict", "lenet5", *asked, "--price", "2.5", "--explain")
    assert found["schema"] == "cotune.predict.model"
    assert [(row["workers"], row["batch_size"]) for row in found["rows"]] == [(1, 16), (1, 64), (8, 16), (8, 64)]
    for row in found["rows"]:
        for name in ("step_seconds", "epoch_seconds", "seconds", "peak_bytes", "cost"):
            assert 0 < row[name]["low"] <= row[name]["mid"] <= row[name]["high"]
            assert row[name]["source"] in ("measured", "interpolated", "extrapolated", "assumed")
        assert row["cost"]["unit"] == "USD"
        assert row["cost"]["mid"] == pytest.approx(row["seconds"]["mid"] * row["workers"] * 2.5 / 3600)
        assert row["tier"] == "counts"
        assert sum(row["split"].values()) == pytest.approx(row["step_seconds"]["mid"])
    assert found["counts"][0]["parameters"] == 61_706


def test_devices_are_compared_in_one_answer_as_each_would_be_alone(project: Path) -> None:
    (project / "cotune.yaml").write_text("devices: {t4: {price_per_hour: 0.36}, a100: {price_per_hour: 3.6}}\n")
    asked = (
        *("model", "predict", "lenet5", "--batch-size", "16,64"),
        *("--examples", "50000", "--epochs", "3", "--device"),
    )
    together = cotune(*asked, "t4,a100")
    assert together["devices"] == ["t4", "a100"]
    assert together["rows"] == cotune(*asked, "t4")["rows"] + cotune(*asked, "a100")["rows"]
    assert [row["device"] for row in together["rows"]] == ["t4", "t4", "a100", "a100"]
    shown = CliRunner().invoke(app, ["model", "predict", *asked[2:], "t4,a100"], catch_exceptions=False).stdout
    assert [line.split()[0] for line in shown.splitlines()[1:6]] == ["device", "t4", "t4", "a100", "a100"]


@pytest.mark.parametrize("devices", ["t4,", "t4,t4", ","])
def test_devices_that_cannot_be_told_apart_are_refused(project: Path, devices: str) -> None:
    with pytest.raises(UsageError, match="name each device once"):
        cotune("model", "predict", "lenet5", "--device", devices)


def test_an_unknown_device_has_wide_bounds_and_the_reason(project: Path) -> None:
    (row,) = cotune("model", "predict", "resnet18", "-b", "8", "--device", "z9")["rows"]
    assert row["step_seconds"]["high"] / row["step_seconds"]["low"] > 10
    assert any("nothing is known of 'z9'" in note for note in row["notes"])
    assert row["peak_bytes"]["mid"] > 0


def test_this_machine_is_measured_once_and_remembered(project: Path) -> None:
    (row,) = cotune("model", "predict", "some_nets:Small", "-b", "8", "--device", "cpu", "--input", "8")["rows"]
    assert row["tier"] == "steps"
    assert row["source"] == "measured"
    (again,) = cotune("model", "predict", "some_nets:Small", "-b", "8", "--device", "cpu", "--input", "8")["rows"]
    assert again["step_seconds"]["mid"] == row["step_seconds"]["mid"]  # from the store: nothing ran
    similar = cotune("model", "predict", "some_nets:Small(width=9)", "-b", "8", "--device", "cpu", "--tier", "history")[
        "rows"
    ][0]
    assert similar["tier"] == "history"
    assert "some_nets:Small" in similar["known_from"]


def test_several_workers_are_probed_for_real(project: Path) -> None:
    (row,) = cotune("model", "predict", "lenet5", "-b", "8", "--workers", "2", "--tier", "probe")["rows"]
    assert row["tier"] == "probe"
    assert "2 workers at batch 8" in row["known_from"]


def test_the_jobs_own_model_is_found(project: Path) -> None:
    (project / "cotune.yaml").write_text("model: some_nets:Small\ninput: '8'\nexamples: 80\nepochs: 2\n")
    (row,) = cotune("model", "predict", "job", "-b", "8", "--device", "t4")["rows"]
    assert row["seconds"]["mid"] == pytest.approx(20 * row["step_seconds"]["mid"])
    (project / "cotune.yaml").write_text(
        "run: python -m cotune.workloads.train --model cifar10dnn --batch-size {batch_size}\n"
    )
    assert cotune("model", "predict", "job", "-b", "8", "--device", "t4")["model"] == "cifar10dnn"


def test_a_model_that_cannot_be_traced_is_counted_by_running_it(project: Path) -> None:
    found = cotune("model", "predict", "some_nets:Choosing", "-b", "4", "--device", "t4")
    assert found["counts"][0]["how"] == "run"
    assert any("cannot be traced" in note for note in found["rows"][0]["notes"])


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("model", "predict", "resnet19", "-b", "8"), 3, "did you mean 'resnet18'"),
        (("model", "predict", "nowhere.nets:Net"), 3, "no module 'nowhere'"),
        (("model", "predict", "some_nets:Smal"), 3, "did you mean 'Small'"),
        (("model", "predict", "some_nets:Broken", "--device", "t4"), 4, "it never worked"),
        (("model", "predict", "some_nets:Small", "--input", "9", "--device", "t4"), 4, "cannot be multiplied"),
        (("model", "predict", "lenet5", "--precision", "fp8"), 2, "--precision is one of"),
        (("model", "predict", "lenet5", "-b", "0"), 2, "batch_size"),
        (("model", "predict", "lenet5", "--device", "t4", "--tier", "steps"), 2, "machine at hand"),
        (("model", "predict", "lenet5", "--device", "t4", "--tier", "scaled"), 2, "known GPU here"),
        (("model", "predict", "lenet5", "--device", "z9", "--tier", "paleo"), 2, "not in the table"),
        (("model", "predict", "lenet5", "--device", "t4", "--tier", "paleo(scheme=star)"), 2, "not 'star'"),
        (("model", "predict", "memnet", "--device", "t4", "--tier", "paleo(schem=star)"), 2, "scheme"),
        (("model", "predict", "job"), 3, "model: package.module:callable"),
        (("model", "inspect", "lenet5", "--device", "tpu"), 2, "--device is one of"),
        (("model", "inspect", "nothing"), 3, "no model named"),
        (("model", "inspect", "nothing.py:Net"), 3, "no file nothing.py"),
        (("model", "predict", "nothing.py:Net"), 3, "no file nothing.py"),
    ],
)
def test_what_goes_wrong_is_said_in_a_line_with_its_code(
    project: Path, words: tuple[str, ...], code: int, said: str
) -> None:
    from cotune.errors import CotuneError

    with pytest.raises(CotuneError, match=said) as caught:
        CliRunner().invoke(app, list(words), catch_exceptions=False)
    assert caught.value.exit_code == code


def test_what_is_known_of_a_broken_model_is_in_the_error(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["cotune", "model", "predict", "some_nets:Broken", "--device", "t4", "--json"]
    monkeypatch.setattr(sys, "argv", words)
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 4
    error = json.loads(capsys.readouterr().out)["error"]
    assert error["known"]["parameters"] == 72
    assert "Broken" in error["known"]["stopped_in"]


def test_a_profiled_step_is_carried_to_a_slower_gpu_and_back() -> None:
    workload = find("lenet5")
    counts, found = count(workload, 8), profiled(workload, 8, steps=2)
    fast, slow = table()["h200"], table()["k40"]
    assert carried(counts, found, fast, fast) == pytest.approx(
        max(found.step_seconds, sum(o.seconds for o in found.operators))
    )
    assert carried(counts, found, fast, slow) > 1.2 * carried(counts, found, fast, fast)


def test_paleo_predicts_a_torch_model_by_any_of_its_schemes(project: Path) -> None:
    asked = ("model", "predict", "alexnet", "-b", "32", "--workers", "16", "--device", "k40", "--network", "10gbit")
    rows = [
        cotune(*asked, "--tier", f"paleo(scheme={scheme})", "--explain")["rows"][0]
        for scheme in ("one_to_all", "tree_allreduce", "butterfly_allreduce", "butterfly_mixing")
    ]
    times = [row["split"]["communication"] for row in rows]
    assert times == pytest.approx([times[3] * multiple for multiple in (30, 8, 4, 1)])
    assert {row["tier"] for row in rows} == {"paleo"}


def test_inspect_shows_operators_and_layers(project: Path) -> None:
    found = cotune("model", "inspect", "lenet5", "-b", "4", "--steps", "2", "--device", "cpu")
    assert found["operators"][0]["share"] >= found["operators"][1]["share"]
    assert 1 <= found["types_for"]["90%"] <= len(found["operators"])
    assert sum(layer["parameters"] for layer in found["layers"]) == 61_706
    shown = CliRunner().invoke(app, ["model", "inspect", "lenet5", "-b", "4", "--steps", "2", "--device", "cpu"]).output
    assert "make 90 % of the time" in shown
    assert "Conv2d" in shown


def test_doctor_measures_this_machine_and_keeps_it(project: Path) -> None:
    found = cotune("model", "calibrate")
    assert found["calibrations"][0]["product"]["fp32"] > 1e8
    assert Path(found["calibrations"][0]["file"]).is_file()


def test_doctor_ends_with_the_exit_code_of_what_is_wrong(project: Path) -> None:
    (project / "store.db").write_text("no database")
    done = CliRunner().invoke(app, ["doctor", "--store", str(project / "store.db"), "--json"])
    assert done.exit_code == InvalidFile.exit_code
    found = json.loads(done.stdout.splitlines()[-1])
    assert not found["healthy"]
    assert [check["name"] for check in found["checks"] if check["ok"] is False] == ["store"]
