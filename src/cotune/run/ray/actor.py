"""The Ray actor behind one worker: hosts it on its node, and tells what it writes there.

The actor's files are in a folder of its own, so that nodes need not share a disk; the
engine asks for what was added to them (`news`) and writes it into the launch's folder.
Only the host runs the job's code; the actor looks at the size of five files.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ray

from cotune.run.environment import free_ports

LOOK_SECONDS = 0.1  # each look takes from the workers
_MOST_BYTES = 1 << 20
_END_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Place:
    """Where an actor finds itself: its node, how it is reached, its GPUs, and what it can see there."""

    node: str
    host: str
    port: int
    gpus: tuple[str, ...]
    sees_job: bool
    sees_run: bool
    cwd: str


News = tuple[tuple[tuple[str, bytes], ...], bool]  # what was added to files, by name, and whether their host has ended


class Worker:
    """One worker of a launch, on whatever node Ray has put it."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="cotune-"))
        self._host: subprocess.Popen[bytes] | None = None
        self._rank = -1
        self._told: dict[str, int] = {}

    def introduce(self, job: str, run: str) -> Place:
        """Tell where this actor is, and whether it sees the folders of the job and of the run."""
        context = ray.get_runtime_context()
        gpus = tuple(map(str, context.get_accelerator_ids().get("GPU", ())))
        port = free_ports(1, set())[0]
        host: str = ray.util.get_node_ip_address()  # type: ignore[no-untyped-call]
        sees_job, sees_run = Path(job).is_dir(), Path(run).is_dir()
        return Place(context.get_node_id(), host, port, gpus, sees_job, sees_run, str(Path.cwd()))

    def begin(self, group: dict[str, Any], member: dict[str, Any]) -> None:
        """Start the worker's host; its standard input is the leash by which it ends with this actor."""
        self._rank = member["rank"]
        own = {"COTUNE_STOP": str(self._folder / "stop")}
        if "COTUNE_CHECKPOINT" not in group["env"]:
            own["COTUNE_CHECKPOINT"] = str(self._folder / "checkpoint")
            (self._folder / "checkpoint").mkdir()
        described = {"group": {**group, "folder": str(self._folder), "env": {**group["env"], **own}}, "member": member}
        with (self._folder / f"rank-{self._rank}.log").open("ab") as log:
            self._host = subprocess.Popen(
                [sys.executable, "-P", "-m", "cotune.run.host"],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        assert self._host.stdin is not None
        self._host.stdin.write(json.dumps(described).encode() + b"\n")
        self._host.stdin.flush()

    def news(self, seconds: float) -> News:
        """Return what the worker has written since, at the latest after `seconds`."""
        until = time.monotonic() + seconds
        while True:
            over = self._host is not None and self._host.poll() is not None
            added = tuple((name, data) for name in self._names() if (data := self._added(name)))
            if added or over or time.monotonic() >= until:
                return added, over and not added
            time.sleep(LOOK_SECONDS)

    def mark(self, name: str) -> None:
        """Leave a mark that the worker or its host looks for."""
        (self._folder / name).touch()

    def signal(self, number: int) -> None:
        """Send a signal to the worker's host."""
        if self._host is not None:
            with contextlib.suppress(ProcessLookupError):
                self._host.send_signal(number)

    def end(self) -> None:
        """End the worker now, and remove what it left on this node."""
        if self._host is not None and self._host.poll() is None:
            self._host.send_signal(signal.SIGUSR1)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._host.wait(_END_SECONDS)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _names(self) -> list[str]:
        return [f"rank-{self._rank}.{end}" for end in ("begun.json", "jsonl", "log", "memory.json", "result.json")]

    def _added(self, name: str) -> bytes:
        """Return what was added to a file; of a record, which is replaced whole, all of it when it is new."""
        path = self._folder / name
        try:
            status = os.stat(path)  # noqa: PTH116  # looked at often
        except FileNotFoundError:
            return b""
        if name.endswith(".json"):
            if self._told.get(name) == status.st_mtime_ns:
                return b""
            self._told[name] = status.st_mtime_ns
            return path.read_bytes()
        before = self._told.get(name, 0)
        if status.st_size <= before:
            return b""
        with path.open("rb") as file:
            file.seek(before)
            added = file.read(_MOST_BYTES)
        self._told[name] = before + len(added)
        return added
