"""The fault matrix: each fault really done to a real run, which ends as if undisturbed, or with one clear line."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from shutil import which

import pytest
import torch

from cli.jobs import cotune, environment
from left_behind import writing_to

EPOCHS = 5
JOB = """\
name: digits
run:
  python -m cotune.workloads.train --limit 400 --test-limit 200 --lr 0.02 --threads 1
  --batch-size {batch_size} --epochs {epochs}
examples: 400
epochs: 5
search: {workers: [1, 2, 4], batch_size: [8, 16, 32]}
"""
Run = tuple[int, str]
pytestmark = pytest.mark.xdist_group("survival")  # one undisturbed run for all


def weights(folder: Path) -> torch.Tensor:
    (file,) = (folder / ".cotune" / "runs").glob("*/checkpoint/last.pt")
    state = torch.load(file, weights_only=True)
    assert (state["epoch"], state["seen"]) == (EPOCHS, 0)
    return torch.cat([tensor.flatten() for tensor in state["model"].values()])


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> torch.Tensor:
    folder = tmp_path_factory.mktemp("undisturbed")
    code, said = run(folder)
    assert code == 0, said
    return weights(folder)


def run(folder: Path, disturb: Callable[[Path], None] | None = None, *flags: str, engine: str = "local") -> Run:
    """Train; disturb the run when its second epoch is done; return the exit code and what was said."""
    (folder / ".cotune").mkdir(exist_ok=True)
    (folder / "cotune.yaml").write_text(f"{JOB}engine: {engine}\n")
    command = [sys.executable, "-m", "cotune", "run", "--workers", "2", "--batch-size", "16", *flags]
    running = subprocess.Popen(command, cwd=folder, env=environment(folder), stderr=subprocess.PIPE, text=True)
    assert running.stderr is not None
    said = ""
    try:
        for line in running.stderr:
            said += line
            if disturb is not None and "epoch 2 of" in line:
                disturb(folder)
                disturb = None
        return running.wait(timeout=60), said
    finally:
        running.kill()
        running.wait()
        running.stderr.close()


def processes(folder: Path, rank: int) -> list[int]:
    """Return the processes that write a rank's log: the worker itself first."""
    return writing_to(f"{folder}/.cotune/runs/*/rank-{rank}.log")


@pytest.mark.parametrize("rank", [0, 1])
def test_a_killed_rank_is_replaced_and_no_example_is_lost(tmp_path: Path, undisturbed: torch.Tensor, rank: int) -> None:
    code, said = run(tmp_path, lambda folder: os.kill(processes(folder, rank)[0], signal.SIGKILL))
    assert code == 0, said
    assert f"rank {rank} was ended by SIGKILL" in said
    assert "going on from the checkpoint at epoch" in said
    assert torch.equal(weights(tmp_path), undisturbed)
    starts = cotune(tmp_path, "samples", "--json").json["samples"]
    assert len(starts) == 2
    assert sorted({point["epoch"] for start in starts for point in start["curve"]}) == [1, 2, 3, 4, 5]


def test_a_silent_rank_is_noticed_and_replaced(tmp_path: Path, undisturbed: torch.Tensor) -> None:
    code, said = run(tmp_path, lambda folder: os.kill(processes(folder, 1)[0], signal.SIGSTOP), "--timeout", "4s")
    assert code == 0, said
    assert "no report for 4 s" in said
    assert torch.equal(weights(tmp_path), undisturbed)


@pytest.mark.skipif(not (which("nsenter") and which("ip")), reason="needs nsenter and ip, to take a link down")
def test_a_link_that_goes_silent_is_noticed_and_the_run_goes_on(tmp_path: Path, undisturbed: torch.Tensor) -> None:
    def unplug(folder: Path) -> None:
        into = ["nsenter", "-t", str(processes(folder, 1)[0]), "-n"]
        if os.geteuid() != 0:
            into += ["-U", "--preserve-credentials"]
        done = subprocess.run([*into, "ip", "link", "set", "eth0", "down"], capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"needs network namespaces, to take a link down: {done.stderr.strip()}")

    nodes = "{local: {nodes: 2, cores: 1, link: 1gbit}}"
    code, said = run(tmp_path, unplug, "--timeout", "4s", engine=nodes)
    assert code == 0, said
    assert "no report for 4 s" in said
    assert "going on from the checkpoint at epoch" in said
    torch.testing.assert_close(weights(tmp_path), undisturbed, rtol=0, atol=1e-6)


def test_without_restarts_a_killed_rank_ends_the_run_with_one_line(tmp_path: Path) -> None:
    code, said = run(tmp_path, lambda folder: os.kill(processes(folder, 1)[0], signal.SIGKILL), "--restarts", "0")
    assert code == 7
    assert "rank 1 was ended by SIGKILL" in said.splitlines()[-1]


def test_a_truncated_checkpoint_ends_the_run_with_one_line_instead_of_a_silent_new_start(tmp_path: Path) -> None:
    def disturb(folder: Path) -> None:
        (file,) = (folder / ".cotune" / "runs").glob("*/checkpoint/last.pt")
        os.kill(processes(folder, 0)[0], signal.SIGSTOP)  # so that it is not written anew meanwhile
        file.write_bytes(file.read_bytes()[:1000])
        os.kill(processes(folder, 0)[0], signal.SIGKILL)

    code, said = run(tmp_path, disturb)
    assert code == 7, said
    assert "cannot read the checkpoint" in said.splitlines()[-1]


def test_workers_asked_for_take_over_at_an_epoch_s_end_and_the_global_batch_stays(
    tmp_path: Path, undisturbed: torch.Tensor
) -> None:
    code, said = run(tmp_path, resize)
    assert code == 0, said
    assert "4 workers were asked for: going on with batch 8 on 4 workers" in said
    torch.testing.assert_close(weights(tmp_path), undisturbed, rtol=0, atol=1e-5)


def resize(folder: Path) -> None:
    (first,) = processes(folder, 0)
    os.kill(first, signal.SIGSTOP)  # the run is over too soon otherwise
    assert "evenly" in cotune(folder, "resize", "3").err
    done = cotune(folder, "resize", "4")
    assert done.code == 0, done.err
    os.kill(first, signal.SIGCONT)


def test_a_killed_server_is_replaced(tmp_path: Path, undisturbed: torch.Tensor) -> None:
    code, said = run(tmp_path, lambda folder: os.kill(processes(folder, 2)[0], signal.SIGKILL), "--servers", "1")
    assert code == 0, said
    assert "rank 2 was ended by SIGKILL" in said
    torch.testing.assert_close(weights(tmp_path), undisturbed, rtol=0, atol=1e-6)


FULL = """
import os, sys
from cotune.run import processes
processes.enter_namespaces(processes.MOUNTS)
folder = os.environ["COTUNE_CHECKPOINT"]
flags = processes.libc.mount(b"none", b"/", None, 16384 | 1 << 19, None)
processes.check(processes.libc.mount(b"tmpfs", folder.encode(), b"tmpfs", 0, b"size=64k"), "mount")
from cotune.workloads.train import main
code = main(sys.argv[1:])
print("left", os.listdir(folder))
sys.exit(code)
"""


def test_a_disk_that_fills_up_while_checkpointing_does_not_end_training(tmp_path: Path) -> None:
    (tmp_path / "checkpoint").mkdir()
    env = {**environment(tmp_path), "COTUNE_CHECKPOINT": str(tmp_path / "checkpoint")}
    command = [sys.executable, "-c", FULL, "--limit", "100", "--test-limit", "50", "--epochs", "2", "--threads", "1"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)
    if "unshare" in done.stderr or "mount:" in done.stderr:
        pytest.skip("needs a mount namespace, for a small disk")
    assert done.returncode == 0, done.stderr
    assert "no checkpoint written: [Errno 28]" in done.stderr
    assert "epoch 2 " in done.stdout
    assert "left []" in done.stdout
