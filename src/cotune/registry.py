"""Finding algorithms by file name: `las` is the class `Las` in `cluster/policies/las.py`.

There is no table to add to. Every folder of the package that is named for a kind is read,
wherever it is; so are the entry points of other packages:

    [project.entry-points."cotune.predictors"]
    nearest = "my_package.nearest:Nearest"

A file that holds several small algorithms of one idea lists them in `__all__`; a name that starts
with an underscore is a helper, never found. Settings may follow a name: `isotonic(reading=sliced)`.
"""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from importlib.resources import files
from importlib.resources.abc import Traversable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, get_type_hints

from cotune.errors import NotFound, UsageError, suggestion
from cotune.safety import python_text, yaml_text

KINDS = {  # what one is called, and its folder
    "predictor": "predictors",
    "search": "searches",
    "placement": "placements",
    "strategy": "strategies",
    "policy": "policies",
    "engine": "engines",
}
_CALL = re.compile(r"(\w+)(?:\((.*)\))?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Entry:
    """One algorithm: the module and class that it is, and what its source says of it."""

    module: str
    cls: str
    line: str
    source: str = ""


def names(kind: str) -> tuple[str, ...]:
    """Return the names of every algorithm of a kind, sorted."""
    return tuple(sorted(_entries(kind)))


def load(kind: str, name: str) -> Any:
    """Return the class of that name."""
    require(kind, name)
    known = _entries(kind)[name]
    return getattr(importlib.import_module(known.module), known.cls)


def require(kind: str, name: str) -> None:
    """Refuse a name that no algorithm of a kind has, without importing any."""
    known = _entries(kind)
    if name not in known:
        raise NotFound(f"no {kind} named {name!r}; there are {', '.join(names(kind))}{suggestion(name, known)}")


def create(kind: str, asked: Any) -> Any:
    """Return an instance from 'name' or 'name(setting=value, ...)'; an algorithm is returned as it is."""
    if not isinstance(asked, str):
        return asked
    call = _CALL.fullmatch(asked.strip())
    if call is None:
        raise UsageError(f"cannot read {asked!r} as a {kind}; write name or name(setting=value)")
    return make(load(kind, call[1]), settings_of(call[2] or ""), repr(asked))


def make(cls: Any, settings: Mapping[str, Any], source: str) -> Any:
    """Return an algorithm with settings that somebody wrote, each checked against its type; errors name the source."""
    public = {field.name for field in fields(cls) if field.init} if is_dataclass(cls) else set()
    known = sorted(name for name in public if not name.startswith("_"))
    types = get_type_hints(cls, include_extras=True) if settings else {}
    checked = {}
    for name, value in settings.items():
        if name not in known:
            has = f"its settings are {', '.join(known)}" if known else "it has no settings"
            raise UsageError(f"{source}: no setting {name!r}; {has}{suggestion(name, known)}")
        checked[name] = _checked(types[name], value, f"{source}: {name}")
    try:
        return cls(**checked)
    except (TypeError, ValueError) as error:
        raise UsageError(f"{source}: {error}") from None


def _checked(kind: Any, value: Any, source: str) -> Any:
    """Return a setting as the type that its algorithm gives it."""
    from pydantic import ConfigDict, TypeAdapter, ValidationError

    try:
        return TypeAdapter(kind, config=ConfigDict(arbitrary_types_allowed=True)).validate_python(value)
    except ValidationError as error:
        first = error.errors()[0]
        words = first["msg"].removeprefix("Value error, ").removeprefix("Input should be ")
        words = "a list such as [1, 2]" if first["type"] == "sequence_str" else words
        raise UsageError(f"{source}: expected {words}, not {value!r}") from None


def several(text: str) -> list[str]:
    """Return what stands between commas, as in 'fifo,las(levels=3,variant=pollux)': those within brackets stay."""
    return [part.strip() for part in re.split(r",(?![^()]*\))", text) if part.strip()]


def summary(kind: str, name: str) -> str:
    """Return the one line that says what an algorithm does, without importing it."""
    return _entries(kind)[name].line


@dataclass(frozen=True, slots=True)
class Description:
    """What the source of an algorithm says of it: its own words, the idea of its file, its settings and defaults."""

    module: str
    text: str
    idea: str
    settings: tuple[tuple[str, str], ...]


def describe(kind: str, name: str) -> Description:
    """Return all that an algorithm's source says of it, without importing it."""
    entry = _entries(kind)[name]
    tree = python_text.parse(entry.source, entry.module)
    made = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == entry.cls)
    settings = tuple(
        (node.target.id, ast.unparse(node.value))
        for node in made.body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None
    )
    return Description(entry.module, ast.get_docstring(made) or "", ast.get_docstring(tree) or "", settings)


def settings_of(text: str) -> Mapping[str, Any]:
    """Return the settings in 'name=value, ...'."""
    pairs = [part.partition("=") for part in re.split(r",(?![^\[]*\])", text) if part.strip()]
    try:
        values = {key.strip(): yaml_text.read(value) for key, _, value in pairs}
    except yaml_text.NotYaml:
        values = {}
    if len(values) < len(pairs) or not all(equals for _, equals, _ in pairs):
        raise UsageError(f"cannot read the settings {text!r}; write each once, as name=value with commas between")
    return {key: tuple(value) if isinstance(value, list) else value for key, value in values.items()}


@cache
def modules(folder: str) -> Mapping[str, str]:
    """Return name -> module of every file in the folders of that name, and of the entry points `cotune.FOLDER`."""
    own = {file.name[:-3]: module for module, file in _files(folder)}
    return {point.name: point.value for point in entry_points(group=f"cotune.{folder}")} | own


def offered(module: str) -> bool:
    """Whether a room's module is installed: the core works without the rooms, and asks before it enters one."""
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


@cache
def _entries(kind: str) -> dict[str, Entry]:
    """Return every algorithm of a kind by its name, read from the source alone."""
    others = (_outside(point) for point in entry_points(group=f"cotune.{KINDS[kind]}"))
    known = dict(others)
    for module, file in _files(KINDS[kind]):
        source = file.read_text(encoding="utf-8")
        tree = python_text.parse(source, module)
        listed = _listed(tree)
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and (node.name in listed or _snake(node.name) == file.name[:-3]):
                known[_snake(node.name)] = Entry(module, node.name, _first_line(node), source)
    return known


def _files(folder: str) -> Iterator[tuple[str, Traversable]]:
    """Yield (module, file) of every public file in the package's folders of that name."""
    root = files("cotune")
    parents = [(f"cotune.{entry.name}", entry) for entry in root.iterdir() if entry.is_dir()]
    for parent, inside in sorted(parents, key=lambda pair: pair[0]):
        below = inside / folder
        if below.is_dir():
            for file in below.iterdir():
                if file.name.endswith(".py") and not file.name.startswith("_"):
                    yield f"{parent}.{folder}.{file.name[:-3]}", file


def _outside(point: EntryPoint) -> tuple[str, Entry]:
    """Return the name and what is known of an algorithm of another package."""
    found = find_spec(point.module)
    if found is None or found.origin is None:
        raise NotFound(f"the entry point {point.name} = {point.value} names a module that is not installed")
    source = Path(found.origin).read_text(encoding="utf-8")
    tree = python_text.parse(source, point.module)
    made = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == point.attr]
    if not made:
        raise NotFound(f"the entry point {point.name} = {point.value} names no class of that module")
    return point.name, Entry(point.module, point.attr, _first_line(made[0]), source)


def _first_line(node: ast.ClassDef) -> str:
    return (ast.get_docstring(node) or "").partition("\n")[0]


def _listed(tree: ast.Module) -> set[str]:
    for node in tree.body:
        if isinstance(node, ast.Assign) and any(
            isinstance(target, ast.Name) and target.id == "__all__" for target in node.targets
        ):
            return set(ast.literal_eval(node.value))
    return set()


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
