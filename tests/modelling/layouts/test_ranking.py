from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import yaml
from typer.testing import CliRunner

from cotune.cli.app import app
from cotune.errors import UsageError
from cotune.modelling.layouts.exports import EXPORTS, accelerate, torchtitan
from cotune.modelling.layouts.layout import Layout, enumerate_layouts
from cotune.modelling.layouts.predictor import LayoutLearner, LayoutPredictor
from cotune.modelling.layouts.ranking import PARTS, rank_layouts, reason
from interop import environments
from modelling.layouts.settings import LARGE, SMALL, lawful_rows, setting


def predictor() -> LayoutPredictor:
    return LayoutLearner([lawful_rows(SMALL)]).fit(lawful_rows(LARGE).take(np.zeros(0, dtype=np.int64)))


def test_the_ranking_is_that_of_every_layout_predicted() -> None:
    layouts = enumerate_layouts(setting(LARGE), 16, 64)
    known = predictor()
    ranked = rank_layouts(known, layouts, top=5)
    forecasts = known.predict(layouts)
    score = np.where(forecasts.p_fits >= 0.5, forecasts.p_fits**0.25 / forecasts.seconds[:, 1], 0)
    assert [str(one.layout) for one in ranked] == [str(layouts[int(i)]) for i in np.argsort(-score, kind="stable")[:5]]


def test_the_shares_of_a_step_add_up_and_the_reason_names_its_parts() -> None:
    ranked = rank_layouts(predictor(), enumerate_layouts(setting(LARGE), 32, 128), top=20)
    for one in ranked:
        assert sum(one.shares[name] for name in PARTS) == pytest.approx(1)
    assert str(ranked[0].layout) in reason(ranked)
    assert "computing" in reason(ranked)


def test_torchtitan_gets_degrees_that_multiply_to_the_devices_and_the_batch() -> None:
    for layout in (Layout(4, 2, 1, 3, 2, 8), Layout(2, 2, 4, 0, 1, 32, recompute=1)):
        *lines, last = torchtitan(layout, setting()).splitlines()
        assert last == f"activation_checkpoint:{'full' if layout.recompute else 'none'}"
        flags = dict(line.removeprefix("--").split("=") for line in lines if "=" in line)
        degrees = [int(value) for name, value in flags.items() if name.endswith("_degree")]
        assert np.prod(degrees) == layout.gpus
        assert int(flags["training.global_batch_size"]) == layout.global_batch
        local = int(flags["training.local_batch_size"])
        assert local == layout.micro_batch * (layout.accumulate if layout.pp > 1 else 1)
        assert "zero" not in flags.get("parallelism.pipeline_parallel_schedule", "").lower()


@environments.needs("titan")
@pytest.mark.parametrize("layout", [Layout(4, 2, 1, 3, 2, 8), Layout(2, 2, 4, 0, 1, 32, recompute=1)])
def test_torchtitan_reads_its_words_itself(layout: Layout, tmp_path: Path) -> None:
    code = """
import sys
from torchtitan.config import ConfigManager
config = ConfigManager().parse_args(["--module", "llama3", "--config", "llama3_8b", *sys.argv[1:]])
degrees, training = config.parallelism, config.training
print(degrees.data_parallel_replicate_degree, degrees.data_parallel_shard_degree, degrees.tensor_parallel_degree,
      degrees.pipeline_parallel_degree, degrees.pipeline_parallel_schedule, training.local_batch_size,
      training.global_batch_size, config.activation_checkpoint is not None)
"""
    told = environments.run("titan", code, *torchtitan(layout, setting()).splitlines(), folder=tmp_path)
    copies, shards = (1, layout.dp) if layout.shard else (layout.dp, 1)
    local = layout.micro_batch * (layout.accumulate if layout.pp > 1 else 1)
    degrees = f"{copies} {shards} {layout.tp} {layout.pp} 1F1B {local} {layout.global_batch}"
    assert told.splitlines()[-1] == f"{degrees} {bool(layout.recompute)}"


def test_accelerate_gets_fsdp2_and_refuses_what_it_does_not_have() -> None:
    config = yaml.safe_load(accelerate(Layout(8, 2, 1, 3, 2, 4), setting()))
    assert config["distributed_type"] == "FSDP"
    assert config["fsdp_config"]["fsdp_version"] == 2
    assert config["num_processes"] == 16
    assert config["parallelism_config"] == {"parallelism_config_dp_shard_size": 8, "parallelism_config_tp_size": 2}
    for layout in (Layout(4, 1, 2, 3, 1, 1), Layout(8, 1, 1, 1, 1, 1)):
        with pytest.raises(UsageError, match="FSDP2"):
            accelerate(layout, setting())


@pytest.mark.parametrize(("data_parallel", "machines"), [(8, 1), (64, 8)])
def test_accelerate_on_several_machines_is_told_where_the_first_is(data_parallel: int, machines: int) -> None:
    text = accelerate(Layout(data_parallel, 1, 1, 3, 2, 4), setting())
    config = yaml.safe_load(text)
    assert config["num_machines"] == machines
    assert ("--machine_rank RANK_OF_NODE --main_process_ip FIRST_NODE" in text) == (machines > 1)
    assert ({"main_process_ip", "main_process_port"} <= config.keys()) == (machines > 1)


@environments.needs("logs")
def test_accelerate_reads_the_file_itself(tmp_path: Path) -> None:
    (tmp_path / "layout.yaml").write_text(accelerate(Layout(8, 2, 1, 3, 2, 4), setting()))
    code = """
from accelerate.commands.config.config_args import load_config_from_file
config = load_config_from_file("layout.yaml")
print(config.distributed_type.value, config.num_processes, config.fsdp_config["fsdp_version"])
"""
    assert environments.run("logs", code, folder=tmp_path) == "FSDP 16 2\n"


def run(*words: str) -> str:
    shown = CliRunner().invoke(app, ["model", "layouts", "llama-3-8b", "--global-batch", "64", *words])
    assert shown.exit_code == 0, shown.output
    return shown.stdout


def test_the_verb_ranks_exports_and_tells_why() -> None:
    document = json.loads(run("--gpus", "16", "--json", "--top", "3"))
    assert len(document["layouts"]) == 3
    assert document["source"] == "assumed"
    best = document["layouts"][0]
    assert best["layout"]["dp"] * best["layout"]["tp"] * best["layout"]["pp"] == 16
    assert best["seconds"]["low"] <= best["seconds"]["mid"] <= best["seconds"]["high"]
    assert "why" in run("--gpus", "16")
    for name in EXPORTS:
        assert "16" in run("--gpus", "16", "--shards", "3", "--no-pipeline", "--export", name)


@pytest.mark.parametrize("words", [("--shards", "4"), ("--export", "nemo")])
def test_wrong_flags_are_refused(words: tuple[str, str]) -> None:
    shown = CliRunner().invoke(app, ["model", "layouts", "llama-3-8b", "--gpus", "8", "--global-batch", "8", *words])
    assert shown.exit_code != 0


def test_a_model_too_large_for_its_devices_is_infeasible() -> None:
    shown = CliRunner().invoke(app, ["model", "layouts", "llama-3-70b", "--gpus", "2", "--global-batch", "8"])
    assert shown.exit_code != 0
    assert "should run" in str(shown.exception)
