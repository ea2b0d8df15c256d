"""From a job's command to what is run: its numbers filled in, its program found.

    python train.py --batch-size {batch_size}      becomes a script in the fork server
    python -m package.train                        a module in the fork server
    anything else, and other interpreters          a program, by exec

`{{` stands for a literal brace. What is missing is said before any process starts.
"""

from __future__ import annotations

import importlib.util
import math
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from cotune import progress
from cotune.errors import NotFound, UsageError, suggestion
from cotune.run.launch import Launch
from cotune.run.local.messages import Program
from cotune.types import Config, Value

_PLACEHOLDER = re.compile(r"\{\{|\{(\w+)\}")
_INTERPRETER = re.compile(r"python(\d+(\.\d+)*)?")
_AT_START_ONLY = ("PYTHON", "LD_", "MALLOC_", "GLIBC_", "OMP_", "GOMP_", "KMP_", "MKL_", "OPENBLAS_")


def numbers(launch: Launch) -> dict[str, str]:
    """Return what a job is told of its config, by name, as text."""
    config = launch.config
    values: dict[str, Value] = {
        "workers": config.workers,
        "batch_size": config.batch_size,
        "global_batch": config.global_batch,
        "accumulate": config.accumulate,
        "dp": config.replicas,
        "micro_batch": config.batch_size,
        "servers": config.servers,
        "epochs": math.ceil(launch.epochs / launch.job.counting.parts),
        **_counts(launch),
        "seed": launch.seed,
        **({"lr": launch.job.lr.of(config.global_batch)} if launch.job.lr else {}),
        **dict(config.axes),
    }
    return {name: _text(value) for name, value in values.items()}


def _counts(launch: Launch) -> dict[str, Value]:
    """Return the whole steps and tokens of a launch, as far as they are known."""
    steps = progress.steps(launch.job, launch.config, launch.epochs)
    tokens = progress.tokens(launch.job, launch.epochs)
    known = {"steps": steps, "tokens": tokens}
    return {name: math.ceil(value) for name, value in known.items() if value is not None}


def fill(command: Sequence[str], values: Mapping[str, str]) -> list[str]:
    """Return the command with its placeholders replaced."""
    return [_fill(argument, values) for argument in command]


def program(command: Sequence[str], folder: Path, env: Mapping[str, str], own_env: Mapping[str, str]) -> Program:
    """Return how a filled-in command is run in `folder`; `own_env` is what the job itself sets."""
    if not command:
        raise UsageError("there is no command to run; give one after --, such as: python train.py")
    path = _find(command[0], folder, env)
    script, module, rest = python_target(command[1:]) if is_python(path) else (None, None, [])
    if script is not None and not (folder / script).is_file():
        raise NotFound(f"no script {script!r} in {folder}; run cotune in the script's folder, or give its path")
    if (script is None and module is None) or not _is_ours(path) or _counts_at_start_only(own_env):
        return Program("exec", path, tuple(command[1:]))
    if script is not None:
        return Program("script", script, tuple(rest))
    assert module is not None
    if not (folder / module.split(".")[0]).is_dir() and not (folder / f"{module}.py").is_file():
        _require_module(module)
    return Program("module", module, tuple(rest))


def _text(value: Value) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.10g}" if isinstance(value, float) else str(value)


def check_servers(config: Config, program: Program) -> None:
    """Refuse parameter servers for a program that cannot speak to them."""
    if config.servers and program.kind == "exec":
        raise UsageError(f"{config}: parameter servers need a job in this Python, not {program.target}")


def _fill(argument: str, values: Mapping[str, str]) -> str:
    def replaced(found: re.Match[str]) -> str:
        name = found[1]
        if name is None:
            return "{"
        if name in values:
            return values[name]
        if name == "lr":
            raise UsageError(
                "the command asks for {lr}, but the job has no learning rate; add to cotune.yaml the one you know, "
                "and the global batch you know it at: lr: {at: RATE, global_batch: BATCH}"
            )
        known = ", ".join(f"{{{known}}}" for known in values)
        raise UsageError(
            f"no number {{{name}}} for {argument!r}; there are {known}{suggestion(name, values)}"
            f"; values of its own are an axis, search: {{{name}: [..., ...]}} in the job file or --axis {name}=...,..."
            f" (write {{{{{name}}}}} for the braces themselves)"
        )

    filled = _PLACEHOLDER.sub(replaced, argument)
    return filled.replace("}}", "}") if "{{" in argument else filled


def _find(name: str, folder: Path, env: Mapping[str, str]) -> str:
    if os.sep in name:
        path = folder / name
        if not path.is_file():
            raise NotFound(f"no program {name!r} in {folder}")
        if not os.access(path, os.X_OK):
            raise NotFound(f"{name!r} is not executable; make it so (chmod +x), or name its interpreter: python {name}")
        return str(path.absolute())
    found = shutil.which(name, path=env.get("PATH"))
    if found is None:
        hint = f"; this Python is {sys.executable}" if _INTERPRETER.fullmatch(name) else ""
        raise NotFound(f"no program {name!r} on the PATH{hint}")
    return str(Path(found).absolute())


def is_python(path: str) -> bool:
    """Whether a path names a Python interpreter."""
    return _INTERPRETER.fullmatch(Path(path).name) is not None


def _is_ours(path: str) -> bool:
    """Say whether an interpreter is the one we run in, virtual environment included."""
    return Path(path).parent == Path(sys.executable).parent or _prefix(path) == sys.prefix


@cache
def _prefix(python: str) -> str:
    """Ask an interpreter where its packages are; a link or a shim may lead anywhere."""
    asked = subprocess.run([python, "-c", "import sys; print(sys.prefix)"], capture_output=True, text=True, check=False)
    return asked.stdout.strip()


def python_target(arguments: Sequence[str]) -> tuple[str | None, str | None, list[str]]:
    """Return (script, None, rest) or (None, module, rest); neither when only Python itself can tell."""
    rest = list(arguments)
    while rest and rest[0] == "-u":
        rest.pop(0)
    if len(rest) > 1 and rest[0] == "-m":
        return None, rest[1], rest[2:]
    if rest and not rest[0].startswith("-"):
        return rest[0], None, rest[1:]
    return None, None, []


def _counts_at_start_only(own_env: Mapping[str, str]) -> bool:
    """Say whether the job sets variables that a running interpreter no longer reads."""
    return any(name.startswith(_AT_START_ONLY) for name in own_env)


def _require_module(module: str) -> None:
    top = module.split(".", maxsplit=1)[0]
    if importlib.util.find_spec(top) is None:
        raise NotFound(f"no module {module!r} for python -m; run cotune in its folder, or install it")
