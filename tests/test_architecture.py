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
LAYERS = (  # a part may import those of the lines before its own
    ("errors", "reporting", "types", "stamps", "pace", "balance", "servers"),
    ("units", "algorithms", "redact", "prices", "space", "commands", "patterns", "devices", "schedule", "torch"),
    ("forecast", "reuse", "job_file", "documents", "store", "callbacks", "simulate"),
    ("config", "recording", "plan", "counting"),
    ("predict", "place", "strategies"),
    ("adapters", "design", "workloads"),
    ("adapters.logs", "adapters.recordings", "adapters.traces", "active", "history", "pipeline"),
    ("run",),
    ("adapters.export", "profile", "supervise", "staged", "reports", "bench"),
    ("serve", "dashboard"),
    ("cli",),
)
LEVELS = {part: level for level, parts in enumerate(LAYERS) for part in parts}
STRANGERS = {("predict", "plan"), ("run", "plan"), ("run", "predict"), ("run", "place")}  # though a line before


def part_of(module: str) -> str | None:
    """The part of cotune that a module belongs to, the smaller of two; None for the package itself."""
    words = module.split(".")[1:]
    return next((part for part in (".".join(words[:2]), *words[:1]) if part in LEVELS), None)


def imports(file: Path) -> set[str | None]:
    """The parts of cotune that a file imports, wherever it does so."""
    named: list[str] = []
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            named += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            named += [f"{node.module}.{alias.name}" for alias in node.names]
    return {part_of(name) for name in named if name.startswith("cotune.")}


@pytest.mark.parametrize("file", sorted(SOURCE.rglob("*.py")), ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_point_one_way(file: Path) -> None:
    if file.name in ("__init__.py", "__main__.py") and file.parent == SOURCE:
        return
    part = part_of(".".join(("cotune", *file.relative_to(SOURCE).with_suffix("").parts)))
    assert part is not None, "which line of LAYERS is it in?"
    for other in imports(file) - {part, None}:
        assert LEVELS[str(other)] < LEVELS[part], f"{part} must not import {other}"
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
