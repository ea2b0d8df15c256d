"""A scenario is a few commands in one fresh folder; what each prints and how it ends is kept as an outcome.

    words ─main()▶ exit code, JSON document ─normal▶ outcome

Only the program's entry is used (`cotune.cli.main.main` with `sys.argv`), in this process: importing it
anew for every command would take longer than all commands. Nothing of the user's own is read: the home
folder, the data folder and the environment are the scenario's.
"""

from __future__ import annotations

import contextlib
import functools
import io
import json
import lzma
import os
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from cotune.cli.main import main
from golden.normal import Names, normalised, typed

HERE = Path(__file__).parent
INPUTS = HERE / "inputs"
EXPECTED = HERE / "expected"
RECORDINGS = HERE.parents[1] / "recordings"

Outcome = dict[str, Any]


@dataclass(frozen=True)
class Command:
    """One command: its words, and whether its numbers depend on the machine, so that only types are kept."""

    words: str
    shape_only: bool = False


@dataclass(frozen=True)
class Scenario:
    """Commands that run one after the other in a folder that holds copies of some inputs."""

    name: str
    commands: tuple[Command, ...]
    copied: tuple[str, ...] = ()  # inputs that commands write beside
    needs: str = ""  # a package that is not always installed

    def __str__(self) -> str:
        return self.name


@functools.cache
def outcomes(scenario: Scenario) -> tuple[Outcome, ...]:
    """Run a scenario; within a process it is run once, and both tests look at the same outcomes."""
    with tempfile.TemporaryDirectory(prefix="golden-") as name:
        folder = Path(name).resolve()
        _furnish(folder, scenario)
        names = Names({INPUTS: "inputs", RECORDINGS: "recordings", folder: "<folder>"})
        with _alone(folder):
            return tuple(_outcome(command, names) for command in scenario.commands)


def _furnish(folder: Path, scenario: Scenario) -> None:
    (folder / "inputs").symlink_to(INPUTS)
    (folder / "recordings").symlink_to(RECORDINGS)
    (folder / ".cotune").mkdir()
    for file in (INPUTS / name for name in scenario.copied):
        packed = file.suffix == ".xz"
        content = lzma.decompress(file.read_bytes()) if packed else file.read_bytes()
        (folder / (file.stem if packed else file.name)).write_bytes(content)


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Work in a folder, with an environment that says nothing about the user or the terminal."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith(("COTUNE", "XDG"))}
    ours |= {"HOME": str(folder), "XDG_DATA_HOME": str(folder / "data"), "XDG_CACHE_HOME": str(folder / "cache")}
    ours |= {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    with mock.patch.dict(os.environ, ours, clear=True), contextlib.chdir(folder):
        yield


def _outcome(command: Command, names: Names) -> Outcome:
    ours, dashes, its = command.words.partition(" -- ")
    code, printed = _run([*ours.split(), "--json", *dashes.split(), *its.split()])
    document = json.loads(printed)
    kept = typed(document, names) if command.shape_only else normalised(document, names)
    return {"command": command.words, "code": code, "document": kept}


def _run(words: list[str]) -> tuple[int, str]:
    out, err = io.StringIO(), io.StringIO()
    argv = mock.patch.object(sys, "argv", ["cotune", *words])
    with argv, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main()
        except SystemExit as ended:
            return int(ended.code or 0), out.getvalue()
    return 0, out.getvalue()


def expected(scenario: Scenario) -> list[Outcome]:
    """Return the outcomes that are kept of a scenario."""
    kept: list[Outcome] = json.loads((EXPECTED / f"{scenario.name}.json").read_text(encoding="utf-8"))
    return kept
