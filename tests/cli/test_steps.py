"""A small language model that counts steps and prints a loss, as it is: measured, planned and run to its target."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.jobs import cotune

SCRIPT = """
import argparse, torch
from torch import nn
parser = argparse.ArgumentParser()
parser.add_argument("--batch_size", type=int, default=8)
parser.add_argument("--max_steps", type=int, default=400)
parser.add_argument("--eval_interval", type=int, default=20)
parser.add_argument("--learning_rate", type=float, default=3e-3)
args = parser.parse_args()
torch.manual_seed(0)
text = torch.tensor([(i * i + 3 * i) % 29 % 17 for i in range(4000)])
train, held_out = text[:3600], text[3600:]
model = nn.Sequential(nn.Embedding(17, 16), nn.Flatten(), nn.Linear(16 * 8, 32), nn.ReLU(), nn.Linear(32, 17))
optimizer = torch.optim.AdamW(model.parameters(), lr=args.learning_rate)

def batch(data, size):
    at = torch.randint(len(data) - 9, (size,))
    return torch.stack([data[i : i + 8] for i in at]), torch.stack([data[i + 8] for i in at])

for step in range(args.max_steps + 1):
    loss = nn.functional.cross_entropy(model((b := batch(train, args.batch_size))[0]), b[1])
    if step % args.eval_interval == 0:
        with torch.no_grad():
            x, y = batch(held_out, 256)
            value = nn.functional.cross_entropy(model(x), y)
            print(f"step {step}: train loss {loss:.4f}, val loss {value:.4f}", flush=True)
    optimizer.zero_grad(); loss.backward(); optimizer.step()
"""
JOB = r"""
name: nano
run: python train.py --batch_size {batch_size} --max_steps {steps} --learning_rate {lr}
length: 400 steps of 8
target: val_loss=0.5
pattern: 'step (?P<step>\d+): .*val loss (?P<val_loss>\S+)'
lr: {at: 0.003, global_batch: 8, rule: sqrt}
deadline: 5m
search: {workers: 1, batch_size: [4, 8, 16]}
budget: {profile: 60s}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text(SCRIPT)
    (tmp_path / "cotune.yaml").write_text(JOB)
    return tmp_path


def test_a_job_in_steps_is_measured_planned_and_run_in_steps(folder: Path) -> None:
    profile = cotune(folder, "profile", "--max-samples", "4", "--json")
    assert profile.code == 0, profile.err
    assert "the schedule of the learning rate is unknown" in " ".join(profile.err.split())
    sample = profile.json["samples"][0]
    assert sample["progress"]["unit"] == "steps"
    assert [point["steps"] % 20 for point in sample["curve"]] == [0] * len(sample["curve"])
    plan = cotune(folder, "plan", "--json")
    assert plan.code == 0, plan.err
    chosen = plan.json["plan"]
    assert chosen["progress"]["unit"] == "steps"
    assert [chosen["progress"][name] % 20 for name in ("low", "mid", "high")] == [0, 0, 0], "as it is evaluated"
    most = chosen["progress"]["most"] * chosen["config"]["global_batch"]
    assert most == pytest.approx(3200, rel=0.02)
    run = cotune(folder, "run", "--json")
    assert run.code == 0, run.err
    assert run.json["met"]
    assert run.json["run"]["progress"]["done"] % 20 == 0
    shown = cotune(folder, "plan")
    assert "steps" in shown.out
    assert "epoch" not in shown.out.split("note")[0]
    refused = cotune(folder, "plan", "--target", "val_loss=0.001")
    assert refused.code == 5
    assert "within its whole length" in refused.err
    assert "epoch" not in refused.err


def test_a_start_that_is_not_heard_is_offered_its_own_line_in_steps(folder: Path) -> None:
    (folder / "cotune.yaml").write_text("\n".join(line for line in JOB.splitlines() if "pattern" not in line))
    refused = cotune(folder, "profile")
    assert "(?P<step>" in refused.err
    assert "would read as val_loss" in refused.err


def test_a_start_of_which_no_line_fits_shows_its_last_three_lines(folder: Path) -> None:
    (folder / "train.py").write_text("for turn in range(9):\n    print(f'turn {turn}: goodness ~ {turn + 0.5}')\n")
    text = "name: doubt\nrun: python train.py {steps} {batch_size}\nlength: 9 steps of 4\n"
    (folder / "cotune.yaml").write_text(text + "search: {workers: [1], batch_size: [4]}\n")
    refused = cotune(folder, "profile")
    assert refused.code == 7
    last = ", ".join(f"'turn {turn}: goodness ~ {turn + 0.5}'" for turn in (6, 7, 8))
    assert f"its last lines were {last}" in " ".join(refused.err.split())
