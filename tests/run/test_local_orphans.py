"""Whatever is killed, nothing is left: not the workers, not their data-loader children."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from cotune.run.engines.local import Local
from cotune.run.launch import Launch
from cotune.types import Config, Job
from left_behind import bearing

BUSY_SECONDS = 60  # what a busy machine may take for what else is over in a moment
ENGINE = """
import sys
from pathlib import Path
from cotune.run.launch import Launch
from cotune.run.engines.local import Local
from cotune.types import Config, Job

folder = Path(sys.argv[1])
engine = Local(isolate=sys.argv[2] == "isolate")
job = Job("orphans", (sys.executable, "train.py"), folder=str(folder))
try:
    engine.start(Launch("a", job, Config.data_parallel(4, 2), 1, folder / "run"))
    folder = engine._server.folder
    while True:
        event = engine.wait(60)
        assert event is not None
        print(event, flush=True)
except KeyboardInterrupt:
    print("interrupted", flush=True)
finally:
    engine.close()
    print("closed", folder, flush=True)
"""

TRAIN = """
import os, signal, subprocess, sys
import torch, cotune
from torch.utils.data import DataLoader, Dataset

class Slow(Dataset):
    def __len__(self):
        return 1 << 30
    def __getitem__(self, index):
        if index > 4:
            signal.pause()
        return torch.zeros(1)

subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"], start_new_session=True)
for step, batch in enumerate(DataLoader(Slow(), batch_size=1, num_workers=2, multiprocessing_context="fork")):
    if step == 2:
        cotune.report(epoch=1, accuracy=0.5)
"""


@pytest.fixture(params=["isolate", "plain"])
def running(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """An engine in a process of its own, in the middle of a launch with data-loader children."""
    marker = f"marker-{uuid.uuid4().hex}"
    (tmp_path / "train.py").write_text(TRAIN)
    command = [sys.executable, "-c", ENGINE, str(tmp_path), request.param]
    env = {**os.environ, "ORPHAN_MARKER": marker}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env, start_new_session=True)
    assert process.stdout is not None
    try:
        assert any(line.startswith("Reported") for line in process.stdout)
        yield process, marker
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def all_gone(marker: str) -> bool:
    until = time.monotonic() + BUSY_SECONDS
    while time.monotonic() < until:
        if not bearing(marker):
            return True
        os.sched_yield()
    return False


def keeper_of(process: subprocess.Popen[str]) -> int:
    return int(Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()[0])


def test_kill_9_of_the_engine_leaves_nothing(running: tuple[subprocess.Popen[str], str]) -> None:
    process, marker = running
    assert len(bearing(marker)) >= 9  # engine, keeper, server, leader, workers; rank 0's loaders and its other child
    process.kill()
    process.wait()
    assert all_gone(marker)


def test_kill_9_of_the_server_leaves_only_the_engine(
    running: tuple[subprocess.Popen[str], str],
) -> None:
    process, marker = running
    keeper = keeper_of(process)
    server = int(Path(f"/proc/{keeper}/task/{keeper}/children").read_text().split()[0])
    os.kill(server, signal.SIGKILL)
    assert process.stdout is not None
    assert "the engine's server ended" in next(line for line in process.stdout if line.startswith("Ended"))
    until = time.monotonic() + BUSY_SECONDS
    while bearing(marker) != [process.pid]:
        assert time.monotonic() < until, "processes are left"


def test_ctrl_c_reaches_the_engine_alone_and_leaves_nothing(running: tuple[subprocess.Popen[str], str]) -> None:
    process, marker = running
    os.killpg(process.pid, signal.SIGINT)
    assert process.stdout is not None
    interrupted, closed, folder = process.stdout.read().split()
    assert (interrupted, closed) == ("interrupted", "closed")
    assert process.wait() == 0
    assert all_gone(marker)
    assert not Path(folder).exists()


@pytest.mark.parametrize("isolate", [True, False])
def test_an_engine_that_is_closed_before_its_workers_begin_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, isolate: bool
) -> None:
    marker = f"marker-{uuid.uuid4().hex}"
    monkeypatch.setenv("ORPHAN_MARKER", marker)
    (tmp_path / "train.py").write_text("import torch")
    engine = Local(isolate=isolate)
    job = Job("orphans", (sys.executable, "train.py"), folder=str(tmp_path))
    engine.start(Launch("a", job, Config.data_parallel(4, 2), 1, tmp_path / "run"))
    assert engine._server is not None
    folder = engine._server.folder
    engine.close()
    assert all_gone(marker)
    assert not folder.exists()
