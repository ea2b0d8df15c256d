"""What the engine and its fork server tell each other: records that travel as JSON lines."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

EXIT_SECONDS = 5.0  # for a script's own exit handlers, once all workers are done
_ATOMIC_BYTES = 4096  # a pipe takes so much from each of several writers without mixing them


@dataclass(frozen=True, slots=True)
class Program:
    """How a command is run: a script or module in the fork, or a program by exec."""

    kind: Literal["script", "module", "exec"]
    target: str
    arguments: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Node:
    """An emulated node: a share of a core, a link in bits per second, and the variables of a worker really on it.

    `disk` is what its loaders may read, in bits per second too. It may stand in a machine with others, whose `trunk` to
    other machines has a rate too.
    """

    share: float
    rate: float | None
    env: dict[str, str]
    disk: float | None = None
    machine: int | None = None
    trunk: float | None = None


@dataclass(frozen=True, slots=True)
class Slice:
    """What one worker, or one parameter server, gets of the machine, and the variables that only it sees."""

    rank: int
    cores: tuple[int, ...]
    env: dict[str, str]
    node: Node | None = None
    server: bool = False


@dataclass(frozen=True, slots=True)
class Group:
    """The workers of one launch, as the server needs to know them."""

    launch: str
    folder: str
    cwd: str
    program: Program
    env: dict[str, str]
    workers: tuple[Slice, ...]
    seed: int
    term_seconds: float

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Group:
        program = value["program"]
        return cls(
            **{
                **value,
                "program": Program(program["kind"], program["target"], tuple(program["arguments"])),
                "workers": tuple(
                    Slice(s["rank"], tuple(s["cores"]), s["env"], Node(**s["node"]) if s["node"] else None, s["server"])
                    for s in value["workers"]
                ),
            }
        )


@dataclass(frozen=True, slots=True)
class Record:
    """How one worker ended, written by itself before it leaves, or by its leader if it could not.

    `started` and `ended` enclose the job's own code, in seconds of the monotonic clock. It was
    `alone` when it made no process group; None where nobody looked.
    """

    status: Literal["done", "failed", "killed"]
    exit_code: int | None
    started: float
    ended: float
    error: str | None = None
    message: str | None = None
    where: str | None = None
    signal: int | None = None
    warning: str | None = None
    alone: bool | None = None

    @classmethod
    def of_exit(cls, code: int | None, started: float, ended: float) -> Record:
        """Return the record of a worker that wrote none, by its exit code; None where it had to be killed."""
        if code is None:
            return cls("killed", None, started, ended)
        if code < 0:
            return cls("failed", None, started, ended, signal=-code)
        return cls("failed" if code else "done", code, started, ended)

    def write(self, folder: str | Path, rank: int) -> None:
        """Write the record in one step: it is there whole, or not at all."""
        write_whole(Path(folder) / f"rank-{rank}.result.json", json.dumps(asdict(self)))

    @classmethod
    def read(cls, folder: str | Path, rank: int) -> Record | None:
        """Return a worker's record, or None when there is none."""
        path = Path(folder) / f"rank-{rank}.result.json"
        return cls(**json.loads(path.read_text())) if path.exists() else None


def write_whole(path: Path, text: str) -> None:
    """Write a file in one step, so that nobody reads half of it."""
    draft = path.with_suffix(".draft")
    draft.write_text(text)
    draft.replace(path)


def tell(events: int, event: str, **facts: Any) -> None:
    """Write one event, in one piece, to the pipe that all leaders share."""
    line = json.dumps({"event": event, **facts}).encode() + b"\n"
    assert len(line) <= _ATOMIC_BYTES, f"an event of {len(line)} bytes could be torn"
    os.write(events, line)
