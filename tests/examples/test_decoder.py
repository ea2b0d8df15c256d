"""A decoder in every layout: the same training, whatever is split, and nothing that torch does wrongly."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from cli.jobs import cotune

EXAMPLE = Path(__file__).parents[2] / "examples" / "decoder"
sys.path.append(str(EXAMPLE))

from model import DecoderStage, Shape, begin  # noqa: E402
from spread import SCHEDULES, Layout, require_right, usual_schedule  # noqa: E402

SHAPE = Shape(layers=4, hidden=32, heads=4, kv_heads=2, ffn=64, vocab=64)
FOUR = "dp 4;tp 2 x dp 2;tp 2 x fsdp 2;pp 2 x dp 2"  # and tp 2 x pp 2, then fsdp 4


@pytest.mark.parametrize(
    ("layouts", "backend"),
    [(FOUR, "gloo"), ("dp 4;tp 2 x fsdp 2;pp 2 x fsdp 2, interleaved", "host")],  # the second as on a shared GPU
)
def test_layouts_train_alike_and_one_goes_on_where_another_stopped(layouts: str, backend: str) -> None:
    asked = ["--steps", "2", "--layouts", layouts, "--backend", backend]
    program = [sys.executable, str(EXAMPLE / "compare_losses.py"), *asked]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(program, env=env, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "tp 2 x pp 2, then fsdp 4" in done.stdout


@pytest.mark.parametrize(
    ("layout", "schedule", "words"),
    [
        (Layout(2, 1, 2, 3, 1, 4), "interleaved_zero_bubble", "wrong gradients"),
        (Layout(2, 1, 2, 0, 1, 4), "zbv_zero_bubble", "wrong gradients"),
        (Layout(4, 1, 1, 1, 1, 1), "1f1b", "shard 0, 2 or 3"),
        (Layout(1, 4, 1, 0, 1, 1), "1f1b", "not divisible by tp 4"),
        (Layout(1, 1, 4, 0, 1, 8), "interleaved_1f1b", "make no 8 stages"),
        (Layout(1, 1, 4, 0, 1, 2), "1f1b", "gpipe takes fewer"),
        (Layout(2, 1, 1, 0, 1, 1), "1f1b", "are not the 4 there are"),
    ],
)
def test_what_torch_cannot_do_or_does_wrongly_is_refused(layout: Layout, schedule: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        require_right(layout, SHAPE, schedule, 4)


def test_zero_bubble_without_data_parallelism_is_right() -> None:
    require_right(Layout(1, 2, 2, 0, 1, 4), SHAPE, "interleaved_zero_bubble", 4)


def test_a_pipeline_with_few_micro_batches_takes_gpipe() -> None:
    assert usual_schedule(Layout(1, 1, 4, 0, 1, 2)) == "gpipe"
    assert usual_schedule(Layout(1, 1, 4, 0, 1, 4)) == "1f1b"


@pytest.mark.parametrize("name", SCHEDULES)
def test_every_stage_of_a_schedule_is_somebodys(name: str) -> None:
    order = SCHEDULES[name]
    assert sorted(stage for place in range(4) for stage in order.stages(place, 4)) == list(range(4 * order.chunks))


def test_first_values_do_not_depend_on_how_the_model_is_cut() -> None:
    def values(blocks: range) -> dict[str, torch.Tensor]:
        with torch.device("meta"):
            stage = DecoderStage(SHAPE, blocks, first=True, last=True, recompute=False)
        begin(stage, torch.device("cpu"), seed=3)
        return dict(stage.named_parameters())

    whole, part = values(range(4)), values(range(2, 3))
    assert all(torch.equal(whole[name], value) for name, value in part.items())


def test_a_model_unlike_llama_is_refused(tmp_path: Path) -> None:
    config = json.loads((EXAMPLE / "config.json").read_text()) | {"num_local_experts": 8}
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(ValueError, match="the decoder here is Llama's"):
        Shape.read(tmp_path / "config.json")


def test_cotune_runs_the_example_in_a_layout_and_hears_its_tokens(tmp_path: Path) -> None:
    folder = shutil.copytree(EXAMPLE, tmp_path / "decoder")
    text = tmp_path / "text"
    text.write_bytes(bytes(range(200)) * 3)
    job = (folder / "cotune.yaml").read_text().replace("--device cpu", f"--device cpu --text {text}")
    (folder / "cotune.yaml").write_text(job.replace("100000 tokens", "5120 tokens"))
    done = cotune(folder, "run", "-w", "2", "-b", "8", "--axis", "tp=2", "--json")
    assert done.code == 0, done.err
    assert done.json["run"]["config"]["workers"] == 2
