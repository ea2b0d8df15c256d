"""The shape of the tree: imports point one way, heavy libraries stay where they are needed."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import cotune
from cotune import algorithms, errors

SOURCE = Path(cotune.__file__).parent
LAYERS = {
    "errors": 0,
    "reporting": 0,
    "units": 1,
    "prices": 1,
    "redact": 1,
    "stamps": 1,
    "types": 1,
    "algorithms": 1,
    "space": 2,
    "forecast": 3,
    "reuse": 3,
    "commands": 2,
    "job_file": 2,
    "patterns": 2,
    "config": 3,
    "store": 3,
    "devices": 3,
    "counting": 4,
    "recording": 4,
    "predict": 4,
    "plan": 4,
    "place": 4,
    "run": 5,
    "strategies": 5,
    "balance": 1,
    "servers": 4,
    "torch": 4,
    "callbacks": 4,
    "workloads": 4,
    "pipeline": 4,
    "schedule": 4,
    "adapters": 5,
    "supervise": 6,
    "staged": 6,
    "design": 5,
    "profile": 6,
    "simulate": 6,
    "active": 7,
    "serve": 7,
    "history": 7,
    "documents": 2,
    "reports": 7,
    "dashboard": 8,
    "bench": 8,
    "cli": 9,
}
STRANGERS = {
    ("plan", "predict"),
    ("plan", "run"),
    ("place", "predict"),
    ("place", "run"),
    ("plan", "place"),
    ("predict", "place"),
    ("counting", "predict"),
    ("counting", "run"),
    ("run", "place"),
    ("predict", "plan"),
    ("predict", "run"),
    ("schedule", "predict"),
    ("schedule", "run"),
    ("simulate", "predict"),
    ("run", "plan"),
    ("run", "predict"),
    ("strategies", "predict"),
    ("strategies", "run"),
}


def imports(file: Path) -> set[str]:
    """The parts of cotune that a file imports, except for type checking."""
    tree = ast.parse(file.read_text())
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("cotune."):
            found.add(node.module.split(".")[1])
        elif isinstance(node, ast.ImportFrom) and node.module == "cotune":
            found |= {alias.name for alias in node.names if alias.name in LAYERS}
    return found


@pytest.mark.parametrize("file", sorted(SOURCE.rglob("*.py")), ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_point_one_way(file: Path) -> None:
    part = file.relative_to(SOURCE).parts[0].removesuffix(".py")
    if part in ("__init__", "__main__"):
        return
    for other in imports(file) - {part}:
        assert LAYERS[other] <= LAYERS[part], f"{part} must not import {other}"
        assert (part, other) not in STRANGERS, f"{part} must not know {other}"


def test_the_command_line_starts_without_heavy_libraries() -> None:
    heavy = ("torch", "scipy", "numpy", "sqlalchemy")
    code = f"import sys, cotune.cli.verbs; print([name for name in {heavy} if name in sys.modules])"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown == "[]\n"


def test_reporting_needs_the_standard_library_alone() -> None:
    code = "import sys, cotune; print('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


@pytest.mark.parametrize("kind", algorithms.KINDS)
def test_every_algorithm_can_be_made_and_says_what_it_does(kind: str) -> None:
    for name in algorithms.names(kind):
        assert algorithms.load(kind, name)() is not None
        line = algorithms.summary(kind, name)
        assert line
        assert line.endswith(".")


def test_settings_follow_a_name() -> None:
    assert algorithms.create("plan", "tabu(rounds=7, step=2)").rounds == 7


@pytest.mark.parametrize("text", ["tabbu", "tabu(", "tabu(round=3)"])
def test_a_wrong_name_or_setting_is_explained(text: str) -> None:
    with pytest.raises(errors.CotuneError, match=r"tabu|rounds"):
        algorithms.create("plan", text)
