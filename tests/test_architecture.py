"""The shape of the tree: imports point one way, heavy libraries stay where they are needed."""

from __future__ import annotations

import ast
import functools
import importlib
import subprocess
import sys
import tomllib
from importlib.metadata import EntryPoints, entry_points
from pathlib import Path

import pytest

import cotune
from budget.counts import cycles, sources
from cotune import errors, registry

SOURCE = Path(cotune.__file__).parent
ROOMS = ("cluster", "placement", "modelling", "lab")  # optional: the core never imports them
LAYERS = (  # a part of the core may import those of the lines before its own
    ("errors", "worker", "types", "identity", "training_speed", "bounds"),
    ("safety",),
    ("units", "registry", "remedies", "space", "devices", "torch", "jobfile.metric_names"),
    ("progress", "layouts"),
    ("forecast", "checkpoints", "display", "documents", "store", "callbacks", "jobfile.command", "jobfile.pattern"),
    ("jobfile", "plan", "workloads"),
    ("recording", "predict", "interop.logged", "init"),
    ("interop.logs", "interop.measured"),
    ("run",),
    ("probe",),
    ("project",),
    ("interop", "reports", "testing"),
    ("dashboard",),
    ("cli",),
)
LEVELS = {part: level for level, parts in enumerate(LAYERS) for part in parts}
ROOM_LEVELS = {"modelling": 0, "placement": 1, "cluster": 1, "lab": 2}  # a room may enter those below it
FOLDERS = sorted({file.parent for file in SOURCE.rglob("*.py")})
each_folder = pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: str(path.relative_to(SOURCE)))
STRANGERS = {("predict", "plan"), ("run", "plan"), ("run", "predict")}  # though a line before


def part_of(module: str) -> str | None:
    """The part of cotune that a module belongs to, the smaller of two; None for the package itself."""
    words = module.split(".")[1:]
    known = {*LEVELS, *ROOMS}
    return next((part for part in (".".join(words[:2]), *words[:1]) if part in known), None)


@functools.cache
def tree(file: Path) -> ast.Module:
    """A file as Python reads it, which takes seconds for all of them: once for all tests."""
    return ast.parse(file.read_text())


@functools.cache
def imported(file: Path) -> set[str]:
    """The modules and names of cotune that a file imports, wherever it does so."""
    named: list[str] = []
    for node in ast.walk(tree(file)):
        if isinstance(node, ast.Import):
            named += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            named += [f"{node.module}.{alias.name}" for alias in node.names]
    return {name for name in named if name.startswith("cotune.")}


def module_of(file: Path) -> str:
    """The dotted name of a file of the package."""
    return ".".join(("cotune", *file.relative_to(SOURCE).with_suffix("").parts))


@each_folder
def test_imports_point_one_way(folder: Path) -> None:
    for file in folder.glob("*.py"):
        if file.name in ("__init__.py", "__main__.py") and folder == SOURCE:
            continue
        part = part_of(module_of(file))
        assert part is not None, f"which line of LAYERS is {file} in?"
        wrong = {other for name in imported(file) if (other := part_of(name)) and not may_import(part, other)}
        assert not wrong, f"{part} must not import {wrong}, as {file} does"


def may_import(part: str, other: str) -> bool:
    """Whether a part of cotune may know another: a room those below it, the core none of them."""
    if part == other:
        return True
    if part in ROOMS:
        return other not in ROOMS or ROOM_LEVELS[other] < ROOM_LEVELS[part]
    return other not in ROOMS and LEVELS[other] < LEVELS[part] and (part, other) not in STRANGERS


def test_no_modules_import_each_other_not_even_lazily() -> None:
    assert cycles(sources()) == [], "every group of modules that import each other"


def test_the_kernel_of_scheduling_knows_no_service_and_the_service_no_command_line() -> None:
    cluster = SOURCE / "cluster"
    kernel = [
        *cluster.glob("*.py"),
        *(one for name in ("policies", "simulate", "traces") for one in cluster.glob(f"{name}/*.py")),
    ]
    above = ("cotune.cli.", "cotune.cluster.api.", "cotune.cluster.verbs.")
    for files, unknown in ((kernel, (*above, "cotune.cluster.service.")), (cluster.glob("service/*.py"), above)):
        for file in files:
            assert not [name for name in imported(file) if name.startswith(unknown)], file


@each_folder
def test_a_private_module_is_imported_in_its_own_folder_alone(folder: Path) -> None:
    for file in folder.glob("*.py"):
        home = module_of(file).rpartition(".")[0]
        for name in imported(file):
            words = name.split(".")
            private = next((i for i, word in enumerate(words[:-1]) if word.startswith("_")), None)
            assert private is None or ".".join(words[:private]) == home, f"{file}: {name}"


@each_folder
def test_what_is_imported_from_the_package_itself_is_there(folder: Path) -> None:
    # The package looks its public names up when they are used, so the type checker believes any name of it.
    modules = {path.stem for path in SOURCE.iterdir() if path.suffix == ".py" or path.is_dir()}
    for file in folder.glob("*.py"):
        for node in ast.walk(tree(file)):
            if isinstance(node, ast.ImportFrom) and node.module == "cotune":
                assert {alias.name for alias in node.names} <= {*modules, *cotune.__all__, "__version__"}, file


def test_the_command_line_starts_without_heavy_libraries() -> None:
    heavy = ("torch", "scipy", "numpy", "sqlalchemy")
    code = f"import sys, cotune.cli.app; print([name for name in {heavy} if name in sys.modules])"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown == "[]\n"


def test_reporting_needs_the_standard_library_alone() -> None:
    code = "import sys, cotune; print('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


@pytest.mark.parametrize("folder", [*registry.KINDS.values(), "exporters", "logs", "importers", "rooms", "shown"])
def test_every_algorithm_is_an_installed_entry_point(folder: str) -> None:
    group = f"cotune.{folder}"
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    listed = project["entry-points"][group]
    points = [point for point in entry_points(group=group) if point.module.startswith("cotune.")]
    assert {point.name: point.value for point in points} == listed, "run `pip install -e .` to list what is new"
    assert registry.unlisted(folder) == [], f"add it to {group} in pyproject.toml, then run `pip install -e .`"
    for point in points:
        offered = set(getattr(importlib.import_module(point.module), "__all__", ()))
        assert offered <= {other.attr for other in points if other.module == point.module}, point.module
        assert point.load() is not None


@pytest.mark.parametrize("kind", registry.KINDS)
def test_every_algorithm_can_be_made_and_says_what_it_does(kind: str) -> None:
    for name in registry.names(kind):
        assert registry.load(kind, name)() is not None
        line = registry.summary(kind, name)
        assert line
        assert line.endswith(".")


def test_a_file_that_no_entry_point_names_is_answered_with_what_lists_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "entry_points", lambda **_: EntryPoints(()))
    registry._points.cache_clear()
    with pytest.raises(errors.NotFound, match=r"grid.*`pip install -e \.`"):
        registry.create("search", "grid")
    registry._points.cache_clear()


def test_a_class_name_occurs_once_but_for_algorithms_of_several_kinds() -> None:
    folders = {*registry.KINDS.values(), "callbacks"}
    homes: dict[str, list[str]] = {}
    for file in SOURCE.rglob("*.py"):
        for node in tree(file).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_") and file.parent.name not in folders:
                homes.setdefault(node.name, []).append(str(file.relative_to(SOURCE)))
    assert {name: files for name, files in homes.items() if len(files) > 1} == {}


MOST_PARAMETERS = 12


@each_folder
def test_no_function_outside_the_command_line_takes_more_than_a_dozen_parameters(folder: Path) -> None:
    for file in folder.glob("*.py"):
        for node in ast.walk(tree(file)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                if folder.name == "verbs" and not node.name.startswith("_"):
                    continue  # a verb's parameters are its options
                taken = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
                named = [one for one in taken if one.arg not in ("self", "cls")]
                assert len(named) <= MOST_PARAMETERS, f"{file}: {node.name} takes {len(named)} parameters"


def test_class_names_keep_to_the_words_of_contributing() -> None:
    page = (Path(__file__).parents[1] / "CONTRIBUTING.md").read_text().partition("## Words")[2]
    listed = [row.split("|")[3] for row in page.splitlines() if row.startswith("| `")]
    banned = {word.strip() for cell in listed for word in cell.split(",")} | {"Manager", "Helper", "Base", "Utils"}
    assert len(banned) > 12
    names = {
        node.name: str(file.relative_to(SOURCE))
        for file in SOURCE.rglob("*.py")
        for node in ast.walk(tree(file))
        if isinstance(node, ast.ClassDef)
    }
    assert {name: file for name, file in names.items() if name.lstrip("_") in banned} == {}


def test_every_test_file_has_a_name_of_its_own() -> None:
    files = [file.name for file in Path(__file__).parent.rglob("test_*.py")]
    assert {name for name in files if files.count(name) > 1} == set()
