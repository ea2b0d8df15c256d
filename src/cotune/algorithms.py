"""Finding algorithms by file name: `las` is the class `Las` in `schedule/las.py`.

There is no table to add to. A file that holds several small algorithms of one idea
lists them in `__all__`; a name that starts with an underscore is a helper, never found.
Settings may follow a name: `isotonic(reading=sliced)`.
"""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import yaml

from cotune.errors import NotFound, UsageError, suggestion

KINDS = {
    "predict": "predictor",
    "plan": "search",
    "place": "placement",
    "strategies": "strategy",
    "schedule": "policy",
    "run": "engine",
}
_CALL = re.compile(r"(\w+)(?:\((.*)\))?", re.DOTALL)


def names(kind: str) -> tuple[str, ...]:
    """Return the names of every algorithm of a kind, sorted."""
    return tuple(sorted(_found(kind)))


def load(kind: str, name: str) -> Any:
    """Return the class of that name."""
    found = _found(kind)
    if name not in found:
        raise NotFound(f"no {KINDS[kind]} named {name!r}; there are {', '.join(names(kind))}{suggestion(name, found)}")
    module, cls, _ = found[name]
    return getattr(importlib.import_module(f"cotune.{kind}.{module}"), cls)


def create(kind: str, text: str) -> Any:
    """Return an instance from 'name' or 'name(setting=value, ...)'."""
    call = _CALL.fullmatch(text.strip())
    if call is None:
        raise UsageError(f"cannot read {text!r} as a {KINDS[kind]}; write name or name(setting=value)")
    cls = load(kind, call[1])
    settings = settings_of(call[2] or "")
    known = tuple(getattr(cls, "__dataclass_fields__", {}))
    for name in settings:
        if name not in known:
            has = f"its settings are {', '.join(known)}" if known else "it has no settings"
            raise UsageError(f"{text!r}: no setting {name!r}; {has}{suggestion(name, known)}")
    try:
        return cls(**settings)
    except TypeError as error:
        raise UsageError(f"{text!r}: {error}") from None


def several(text: str) -> list[str]:
    """Return what stands between commas, as in 'fifo,las(levels=3,variant=pollux)': those within brackets stay."""
    return [part.strip() for part in re.split(r",(?![^()]*\))", text) if part.strip()]


def summary(kind: str, name: str) -> str:
    """Return the one line that says what an algorithm does, without importing it."""
    return _found(kind)[name][2]


@dataclass(frozen=True, slots=True)
class Description:
    """What the source of an algorithm says of it: its own words, the idea of its file, its settings and defaults."""

    module: str
    text: str
    idea: str
    settings: tuple[tuple[str, str], ...]


def describe(kind: str, name: str) -> Description:
    """Return all that an algorithm's source says of it, without importing it."""
    module, cls, _ = _found(kind)[name]
    tree = _parsed(kind, f"{module}.py")
    made = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == cls)
    settings = tuple(
        (node.target.id, ast.unparse(node.value))
        for node in made.body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None
    )
    return Description(module, ast.get_docstring(made) or "", ast.get_docstring(tree) or "", settings)


def settings_of(text: str) -> Mapping[str, Any]:
    """Return the settings in 'name=value, ...'."""
    pairs = [part.partition("=") for part in re.split(r",(?![^\[]*\])", text) if part.strip()]
    try:
        values = {key.strip(): yaml.safe_load(value) for key, _, value in pairs}
    except yaml.YAMLError:
        values = {}
    if len(values) < len(pairs) or not all(equals for _, equals, _ in pairs):
        raise UsageError(f"cannot read the settings {text!r}; write each once, as name=value with commas between")
    return {key: tuple(value) if isinstance(value, list) else value for key, value in values.items()}


@cache
def _found(kind: str) -> dict[str, tuple[str, str, str]]:
    """Return name -> (module, class, one line) for a kind, read from the source alone."""
    found: dict[str, tuple[str, str, str]] = {}
    folder = files("cotune") / kind
    if not folder.is_dir():
        return found
    for entry in folder.iterdir():
        if not entry.name.endswith(".py") or entry.name.startswith("_"):
            continue
        module = entry.name[:-3]
        tree = _parsed(kind, entry.name)
        listed = _listed(tree)
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and (node.name in listed or _snake(node.name) == module):
                line = (ast.get_docstring(node) or "").partition("\n")[0]
                found[_snake(node.name)] = (module, node.name, line)
    return found


def _parsed(kind: str, file: str) -> ast.Module:
    return ast.parse((files("cotune") / kind / file).read_text(encoding="utf-8"))


def _listed(tree: ast.Module) -> set[str]:
    for node in tree.body:
        if isinstance(node, ast.Assign) and any(
            isinstance(target, ast.Name) and target.id == "__all__" for target in node.targets
        ):
            return set(ast.literal_eval(node.value))
    return set()


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
