"""Documents without what differs between two runs of the same program: folders, moments, ids.

A value that cannot be held still is replaced by its type in angle brackets, so that its place and type
are kept: `"<number>"`, `"<text>"`. Numbers are kept to eight digits, which is more than is compared.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_DIGITS = 8
_CLOCK = re.compile(r"\.(?:started|decision_seconds_\w+|searched\.seconds|searches\.[^.]+\.seconds)$")
_SAID_ANYWHERE = frozenset({"schema", "version", "unit", "kind", "exit_code"})  # the same on every machine
_ID = re.compile(r"\b[0-9a-f]{12}\b")
_MOMENT = re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:\d\d)?")
_KINDS = {bool: "flag", int: "number", float: "number", str: "text", type(None): "null", dict: "object", list: "list"}


@dataclass(frozen=True)
class Names:
    """What folders are called, and ids: each by when it was first met in the scenario."""

    folders: Mapping[Path, str]
    ids: dict[str, str] = field(default_factory=dict)

    def named(self, text: str) -> str:
        """Return a text without what only this run has."""
        for folder, name in self.folders.items():
            text = text.replace(str(folder), name)
        text = _ID.sub(lambda match: self.ids.setdefault(match[0], f"<id {len(self.ids) + 1}>"), text)
        return _MOMENT.sub("<moment>", text)


def normalised(value: Any, names: Names, place: str = "") -> Any:
    """Return a document in which equal runs are equal."""
    if isinstance(value, dict):
        return {names.named(key): normalised(entry, names, f"{place}.{key}") for key, entry in value.items()}
    if isinstance(value, list):
        return [normalised(entry, names, place) for entry in value]
    if _CLOCK.search(place):
        return typed(value, names)
    if isinstance(value, str):
        return names.named(value)
    return float(f"{value:.{_DIGITS}g}") if isinstance(value, float) else value


def typed(value: Any, names: Names) -> Any:
    """Return a document of types alone."""
    if isinstance(value, dict):
        return {
            names.named(key): entry if key in _SAID_ANYWHERE else typed(entry, names) for key, entry in value.items()
        }
    if isinstance(value, list):
        return [typed(entry, names) for entry in value]
    return f"<{type_of(value)}>"


def type_of(value: Any) -> str:
    """Return the type of a value in a document, or the one that stands in its place."""
    if isinstance(value, str) and value in ("<number>", "<text>", "<flag>", "<null>"):
        return value[1:-1]
    return _KINDS[type(value)]
