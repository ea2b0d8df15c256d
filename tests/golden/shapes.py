"""The shape of documents: keys, types and units. More keys may come; none goes, none changes its type or unit.

A value may be null where some golden document of the same schema has null in the same place; the entries
of a list are alike, so a list may be longer, shorter or empty. Whether a real start has a warning depends on the
machine that trains it.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from golden.commands import EXPECTED
from golden.normal import type_of

_UNIT = "unit"
_WARNING = ".warning"


@dataclass(frozen=True)
class Shapes:
    """The types and units that the golden documents have, by schema and place."""

    types: dict[tuple[str, str], set[str]]
    units: dict[tuple[str, str], set[Any]]

    @staticmethod
    def of_all() -> Shapes:
        """Read all golden documents."""
        found = Shapes(defaultdict(set), defaultdict(set))
        for file in sorted(EXPECTED.glob("*.json")):
            for outcome in json.loads(file.read_text(encoding="utf-8")):
                document = outcome["document"]
                for place, value in _places(document, ""):
                    found.types[document["schema"], place].add(type_of(value))
                    if place.endswith(f".{_UNIT}"):
                        found.units[document["schema"], place].add(value)
        return found

    def problems(self, golden: dict[str, Any], document: dict[str, Any]) -> list[str]:
        """Return where a document has not the shape of the golden one."""
        if golden["schema"] != document["schema"]:
            return [f"the schema is {document['schema']}, not {golden['schema']}"]
        return list(self._differing(golden["schema"], "", golden, document))

    def _differing(self, schema: str, place: str, golden: Any, value: Any) -> Iterator[str]:
        if place.endswith(_WARNING) and isinstance(value, str):
            return
        if type_of(value) not in self.types[schema, place]:
            told = " or ".join(sorted(self.types[schema, place]))
            yield f"{place or 'the document'} is {type_of(value)}, not {told}"
        elif place.endswith(f".{_UNIT}") and value not in self.units[schema, place]:
            yield f"{place} is {value!r}, not one of {sorted(map(str, self.units[schema, place]))}"
        elif isinstance(golden, dict) and isinstance(value, dict):
            for key, entry in golden.items():
                if key not in value:
                    yield f"{place}.{key} is gone"
                else:
                    yield from self._differing(schema, f"{place}.{key}", entry, value[key])
        elif isinstance(golden, list) and isinstance(value, list) and golden:
            common = _common(golden)
            for entry in value:
                yield from self._differing(schema, f"{place}[]", common, entry)


def _places(value: Any, place: str) -> Iterator[tuple[str, Any]]:
    yield place, value
    if isinstance(value, dict):
        for key, entry in value.items():
            yield from _places(entry, f"{place}.{key}")
    elif isinstance(value, list):
        for entry in value:
            yield from _places(entry, f"{place}[]")


def _common(entries: list[Any]) -> Any:
    """Return what all entries of a list have: the keys of all objects, else the first entry."""
    if not all(isinstance(entry, dict) for entry in entries):
        return entries[0]
    keys = [key for key in entries[0] if all(key in entry for entry in entries)]
    return {key: _shared([entry[key] for entry in entries]) for key in keys}


def _shared(values: list[Any]) -> Any:
    objects = [value for value in values if isinstance(value, dict)]
    return _common(objects) if objects else values[0]
