"""Finding algorithms by name: entry points of installed packages, our own among them.

    [project.entry-points."cotune.policies"]
    las = "cotune.cluster.policies.las:Las"          # file las.py, class Las

An algorithm is one file in a folder of its kind (several small ones of one idea share a file), and one line in the
`pyproject.toml` of its package. Settings may follow a name: `isotonic(reading=sliced)`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
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


def names(kind: str) -> tuple[str, ...]:
    """Return the names of every algorithm of a kind, sorted."""
    return tuple(sorted(modules(KINDS[kind])))


def load(kind: str, name: str) -> Any:
    """Return the class of that name."""
    require(kind, name)
    return _points(KINDS[kind])[name].load()


def require(kind: str, name: str) -> None:
    """Refuse a name that no algorithm of a kind has, without importing any."""
    point = _points(KINDS[kind]).get(name)
    if point is None or not is_there(point.module):
        known, new = names(kind), ", ".join(unlisted(KINDS[kind]))
        hint = f"; {new} is not among the installed entry points: `pip install -e .` lists it" if new else ""
        raise NotFound(f"no {kind} named {name!r}; there are {', '.join(known)}{suggestion(name, known)}{hint}")


def create(kind: str, asked: Any) -> Any:
    """Return an instance from 'name' or 'name(setting=value, ...)'; an algorithm is returned as it is."""
    if not isinstance(asked, str):
        return asked
    call = _CALL.fullmatch(asked.strip())
    if call is None:
        raise UsageError(f"cannot read {asked!r} as a {kind}; write name or name(setting=value)")
    return make(load(kind, call[1]), settings_of(call[2]) if call[2] else {}, repr(asked))


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
    return describe(kind, name).text.partition("\n")[0]


@dataclass(frozen=True, slots=True)
class Description:
    """What the source of an algorithm says of it: its own words, the idea of its file, its settings and defaults."""

    module: str
    text: str
    idea: str
    settings: tuple[tuple[str, str], ...]


@cache
def describe(kind: str, name: str) -> Description:
    """Return all that an algorithm's source says of it, without importing it."""
    point = _points(KINDS[kind])[name]
    tree = _source(point.module)
    made = next((node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == point.attr), None)
    if made is None:
        raise NotFound(f"the entry point {point.name} = {point.value} names no class of that module")
    settings = tuple(
        (node.target.id, ast.unparse(node.value))
        for node in made.body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None
    )
    return Description(point.module, ast.get_docstring(made) or "", ast.get_docstring(tree) or "", settings)


@cache
def _source(module: str) -> ast.Module:
    found = find_spec(module)
    assert found is not None
    assert found.origin is not None
    return python_text.parse(Path(found.origin).read_text(encoding="utf-8"), module)


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


def modules(folder: str) -> Mapping[str, str]:
    """Return name -> module of the entry points `cotune.FOLDER` whose modules are there."""
    return {name: point.module for name, point in _points(folder).items() if is_there(point.module)}


def part(folder: str, name: str) -> Any:
    """Return what an entry point `cotune.FOLDER` names."""
    return _points(folder)[name].load()


def of_room(name: str, wanted_by: str) -> Any:
    """Return what a room offers to the core by that name; the core works without the rooms."""
    point = _points("rooms").get(name)
    if point is None or not is_there(point.module):
        raise UsageError(f"{wanted_by} needs a room of cotune that is not installed")
    return point.load()


def unlisted(folder: str) -> list[str]:
    """Return the modules of our own in the folders of that name that no installed entry point names."""
    root, listed = Path(__file__).parent, {point.module for point in entry_points(group=f"cotune.{folder}")}
    files = sorted(root.glob(f"*/{folder}/[!_]*.py"))
    modules = (".".join(("cotune", *file.relative_to(root).with_suffix("").parts)) for file in files)
    return [module for module in modules if module not in listed]


@cache
def _points(folder: str) -> dict[str, EntryPoint]:
    """Return the entry points `cotune.FOLDER` by name; where another package has one of ours, ours stands."""
    points = sorted(entry_points(group=f"cotune.{folder}"), key=lambda point: point.module.startswith("cotune."))
    return {point.name: point for point in points}


def is_there(module: str) -> bool:
    """Whether a module is installed: the core works without the rooms, and asks before it enters one."""
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False
