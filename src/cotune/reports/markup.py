"""HTML that escapes by itself: what is not `Markup` is text, and stays text."""

from __future__ import annotations

import html
import json
from collections.abc import Iterable
from typing import Any

_VOID = {"meta", "br", "hr", "link"}
_LONG = 70  # letters from which a cell is prose and may break


class Markup(str):
    """HTML that is safe to put into a page as it stands."""

    __slots__ = ()


def escaped(part: object) -> Markup:
    """Return a part of a page: markup as it is, everything else as text."""
    return part if isinstance(part, Markup) else Markup(html.escape(str(part)))


def join(parts: Iterable[object]) -> Markup:
    """Return some parts one after the other."""
    return Markup("".join(escaped(part) for part in parts))


def tag(name: str, /, *children: object, **attributes: object) -> Markup:
    """Return an element; a trailing underscore and inner ones of an attribute's name are as HTML needs them."""
    words = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{html.escape(str(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Markup(f"<{name}{words}>") if name in _VOID else Markup(f"<{name}{words}>{join(children)}</{name}>")


def data(value: Any) -> Markup:
    """Return JSON that cannot end the script it stands in."""
    return Markup(json.dumps(value, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c"))


def table(head: Iterable[object], rows: Iterable[Iterable[object]], caption: str, marked: int | None = None) -> Markup:
    """Return a table that scrolls by itself when it is wider than the page; one row may be marked."""
    heads = join(tag("th", cell, scope="col") for cell in head)
    body = join(
        tag("tr", *(_cell(cell) for cell in row), class_="marked" if place == marked else None)
        for place, row in enumerate(rows)
    )
    inner = tag("table", tag("caption", caption, class_="hidden"), tag("thead", tag("tr", heads)), tag("tbody", body))
    return tag("div", inner, class_="scroll", tabindex="0", role="region", aria_label=caption)


def _cell(content: object) -> Markup:
    long = len(str(content)) > _LONG and not isinstance(content, Markup)
    return tag("td", content, class_="text" if long else None)
