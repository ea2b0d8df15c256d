"""What verbs print: one JSON document on stdout, or plain tables; progress goes to stderr.

Without a terminal there are no colours, no boxes and no moving bars: a table is
columns of text and progress is one line per step.
"""

from __future__ import annotations

import io
import json
import math
import os
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer

from cotune.display import Progress, console, note, progress
from cotune.errors import CotuneError, InvalidFile, NotFound, UsageError
from cotune.safety.printable import printable

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import JustifyMethod
    from rich.table import Table

__all__ = [
    "Progress",
    "coloured",
    "console",
    "emit_json",
    "end_with",
    "note",
    "progress",
    "refuse_overwriting",
    "repeated",
    "say",
    "show",
    "table",
    "waiting",
    "writing",
]

_WIDEST = 1000
_LINES = "\n\t"  # what text of several lines may hold
_AT_INTERVAL = r" (?=\()"
_BREAKS = ("", _AT_INTERVAL, rf"{_AT_INTERVAL}|(?<=\.\.)", rf"{_AT_INTERVAL}|(?<=\.\.)|(?<=min) ")
_LEAST_TEXT = 12  # letters of a column of words, before rows become blocks of lines


def repeated(notes: Iterable[str | None]) -> list[str]:
    """Return the notes that several rows would bear, to be said once below them."""
    return [words for words, count in Counter(notes).items() if words and count > 1]


def emit_json(name: str, document: Mapping[str, Any]) -> None:
    """Print one document with its schema and version; numbers that are not finite become null.

    A name is one shape: that of a verb, or of one thing that it does (`profile`, `profile.layers`).
    """
    whole = {"schema": f"cotune.{name}", "version": 1, **document}
    with _printing():
        try:
            text = json.dumps(whole, allow_nan=False)  # as it is, where that will do: a long list is read once
        except (TypeError, ValueError):
            text = json.dumps(_finite(whole))
        print(text)


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _finite(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], title: str | None = None) -> None:
    """Print a table; columns of numbers are right-aligned.

    Without a terminal a row is a line, however long. On one that is too narrow, heads are broken at words, numbers
    before an interval and within it, text where it must be; if that is not enough, a row is a block of lines.
    """
    from rich.measure import Measurement

    out = console()
    columns = [printable(name) for name in columns]
    listed = [[printable(str(cell), keep="\n") for cell in row] for row in rows]
    for breaks in _BREAKS if out.is_terminal else ():
        grid = _grid(columns, listed, breaks, title, boxed=not breaks)
        needed = Measurement.get(out, out.options.update(max_width=_WIDEST), grid)
        if (needed.minimum if breaks else needed.maximum) <= out.width:
            with _printing():
                out.print(grid)
            return
    if out.is_terminal:
        _blocks(columns, listed, title)
        return
    printed = io.StringIO()
    out.file, out.width = printed, _WIDEST
    out.print(_grid(columns, listed, "", title, boxed=False), crop=False, soft_wrap=True)
    show("\n".join(line.rstrip() for line in printed.getvalue().splitlines()))


def _blocks(columns: Sequence[str], rows: Sequence[Sequence[str]], title: str | None) -> None:
    """Print every row as lines of a name and a value each, those that say nothing left out."""
    widest = max(map(len, columns))
    if title:
        say(title)
    for row in rows:
        told = ((name, cell) for name, cell in zip(columns, row, strict=True) if cell.strip())
        say("\n".join(f"{name:<{widest}}  {cell}" if name else cell for name, cell in told))
        say()


def _grid(
    columns: Sequence[str], rows: Sequence[Sequence[str]], breaks: str, title: str | None, *, boxed: bool
) -> Table:
    """Return a table whose numbers are broken where this expression says and nowhere else."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    style = box.SIMPLE_HEAD if boxed else None
    named = None if title is None else Text(printable(title))
    grid = Table(title=named, title_justify="left", box=style, pad_edge=False, collapse_padding=bool(breaks))
    cells = [list(row) for row in rows]
    for place, name in enumerate(columns):
        numeric = bool(rows) and all(row[place][:1].isdigit() or row[place][:1] in "-+~" for row in rows)
        head = re.sub(r" |(?<=-)", "\n", name) if breaks else name
        for row in cells if numeric and breaks else ():
            row[place] = re.sub(breaks, "\n", row[place])
        widest = max(len(line) for text in (head, *(row[place] for row in cells)) for line in text.split("\n"))
        least = widest if numeric else min(widest, _LEAST_TEXT)
        side: JustifyMethod = "right" if numeric else "left"
        grid.add_column(Text(head), justify=side, overflow="fold", no_wrap=numeric, min_width=least)
    for row in cells:
        grid.add_row(*(Text(cell) for cell in row))
    return grid


def say(text: str = "") -> None:
    """Print a line for people, on stdout."""
    with _printing():
        console().print(printable(text, keep=_LINES), markup=False)


def end_with(error: CotuneError | None, *, told: bool) -> None:
    """End a verb by an error, if there is one: by its exit code alone where a document has shown it."""
    if error is not None:
        raise typer.Exit(error.exit_code) if told else error


def show(text: str) -> None:
    """Print text on stdout as it is, neither broken nor marked up."""
    watched = sys.stdout.isatty()
    with _printing():
        print(printable(text, keep=_LINES + ("\x1b" if coloured() else "")) if watched else text)


def coloured() -> bool:
    """Return whether what is printed may have colours: somebody watches, and has not said NO_COLOR."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


@contextmanager
def _printing() -> Iterator[None]:
    """Turn the system's refusal to take what is printed into an error that a user can act on."""
    try:
        yield
    except BrokenPipeError:  # who read it has seen enough
        raise
    except OSError as error:
        raise CotuneError(f"cannot write the output: {error.strerror}") from None


def refuse_overwriting(path: Path, *, force: bool) -> None:
    """Refuse to write over what is there, unless that was asked for."""
    if path.exists() and not force:
        raise UsageError(f"{path} is there already; --force writes over it")


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn the system's refusal to write a file into an error that a user can act on."""
    try:
        yield
    except FileNotFoundError:
        raise NotFound(f"cannot write {path}: there is no folder {path.parent}") from None
    except OSError as error:
        raise InvalidFile(f"cannot write {path}: {error.strerror}") from None


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """Show on a terminal what a user waits for, where its progress is unknown."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.text import Text

    with console(stderr=True).status(Text(printable(what))):
        yield
