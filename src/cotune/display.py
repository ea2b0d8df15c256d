"""How far long work is: a bar where somebody watches, and lines or nothing where nobody does.

Terminal       what a program shows on stderr: a bar on a terminal; elsewhere one line per step, and in a long one one
               every few seconds in which it got further
LoggedDisplay  what `import cotune` shows: a bar on a terminal or in a notebook, else nothing; remarks are logged
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import TYPE_CHECKING, Any, Protocol

from cotune.safety.printable import printable
from cotune.units import duration

if TYPE_CHECKING:
    from rich.console import Console

logger = logging.getLogger("cotune")
_LINE_SECONDS = 5.0  # between two lines of the same step


def note(text: str) -> None:
    """Print a remark on stderr; no training ends because a remark found no room."""
    with suppress(OSError):
        print(printable(text, keep="\n\t"), file=sys.stderr)


def console(stderr: bool = False) -> Console:
    """Return a console that is plain when nobody watches."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else 160
    return Console(file=stream, highlight=False, width=width, soft_wrap=not stream.isatty())


class Progress:
    """A bar with elapsed, left and spent on a terminal; elsewhere one line per step, more of one that is long."""

    def __init__(self, total: float) -> None:
        self.total = total
        self._begun = time.monotonic()
        self._bar: Any = None
        self._task: Any = None
        self._said = ("", "")
        self._said_at = self._begun

    def update(
        self,
        done: float,
        text: str,
        left: float | None = None,
        within: tuple[float, float] | None = None,
        *,
        detail: str = "",
    ) -> None:
        """Show how far it is, what is going on, and the seconds left, with their interval, where they are known.

        `detail` is how far the step itself is, which may change many times a second.
        """
        words = f"{_detailed(text, detail)}{_left(left, within)}"
        if self._bar is not None:
            self._bar.update(self._task, completed=min(done, self.total), description=printable(words))
        elif self._is_due(text, detail):
            self._said, self._said_at = (text, detail), time.monotonic()
            note(f"[{duration(round(self._said_at - self._begun, 2))}] {words}")

    def _is_due(self, text: str, detail: str) -> bool:
        """Return whether there is news to write a line of: another step, or one that got further for some seconds."""
        waited = time.monotonic() - self._said_at >= _LINE_SECONDS
        return text != self._said[0] or (waited and detail != self._said[1])


def _detailed(text: str, detail: str) -> str:
    return f"{text}: {detail}" if detail else text


def _left(left: float | None, within: tuple[float, float] | None) -> str:
    """Return the seconds left as words, with their interval where it is known."""
    spread = f" ({duration(within[0])}..{duration(within[1])})" if within else ""
    return f", about {duration(left)}{spread} left" if left is not None and left > 0 else ""


@contextmanager
def progress(total: float) -> Iterator[Progress]:
    """Show progress on stderr while the block runs."""
    shown = Progress(total)
    if not sys.stderr.isatty():
        yield shown
        return
    from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar
    from rich.table import Column

    # Where all does not fit on a line, the end of the text is left out rather than the bar.
    words = TextColumn(
        "{task.description}", markup=False, table_column=Column(ratio=1, no_wrap=True, overflow="ellipsis")
    )
    columns = (BarColumn(bar_width=12), TaskProgressColumn(), TimeElapsedColumn(), words)
    with Bar(*columns, console=console(stderr=True), transient=True, expand=True) as bar:
        shown._bar, shown._task = bar, bar.add_task("", total=total)
        yield shown


class Silent(Progress):
    """Progress that nobody watches."""

    def update(
        self,
        done: float,
        text: str,
        left: float | None = None,
        within: tuple[float, float] | None = None,
        *,
        detail: str = "",
    ) -> None:
        """Show nothing."""


class NotebookLine(Progress):
    """One line under a notebook's cell, written over as work goes on."""

    def __init__(self, total: float, line: Any) -> None:
        super().__init__(total)
        self._line = line

    def update(
        self,
        done: float,
        text: str,
        left: float | None = None,
        within: tuple[float, float] | None = None,
        *,
        detail: str = "",
    ) -> None:
        """Write over the line."""
        share = f"{min(done / self.total, 1.0):4.0%} " if 0 < self.total < float("inf") else ""
        self._line.update({"text/plain": f"{share}{_detailed(text, detail)}{_left(left, within)}"}, raw=True)


class Display(Protocol):
    """Where progress and remarks are shown."""

    def note(self, text: str) -> None:
        """Show a remark."""
        ...

    def progress(self, total: float) -> AbstractContextManager[Progress]:
        """Show progress while the block runs."""
        ...


class Terminal:
    """Shows all on stderr, whoever reads it."""

    def note(self, text: str) -> None:
        note(text)

    def progress(self, total: float) -> AbstractContextManager[Progress]:
        return progress(total)


class LoggedDisplay:
    """Shows progress to a person who watches; remarks go to the log of `cotune`."""

    def note(self, text: str) -> None:
        logger.warning(text)

    @contextmanager
    def progress(self, total: float) -> Iterator[Progress]:
        if in_notebook():
            from IPython.display import display  # type: ignore[import-not-found]  # there is one where this is asked

            yield NotebookLine(total, display({"text/plain": ""}, raw=True, display_id=True))
        elif sys.stderr.isatty():
            with progress(total) as shown:
                yield shown
        else:
            yield Silent(total)


def in_notebook() -> bool:
    """Return whether a notebook's kernel runs this program."""
    shell = sys.modules.get("IPython")
    running = shell.get_ipython() if shell is not None else None
    return type(running).__name__ == "ZMQInteractiveShell"
