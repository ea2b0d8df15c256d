"""How far long work is: a bar where somebody watches, and lines or nothing where nobody does.

Terminal       what a program shows on stderr: a bar on a terminal; elsewhere one line per step, and in a long one one
               every few seconds in which it got further
LoggedDisplay  what `import cotune` shows: a bar on a terminal or in a notebook, else nothing; remarks are logged
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import TYPE_CHECKING, Protocol

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


Show = Callable[[float, str, str, str], None]  # how far, the step, how far that is, and all of it as words


class Progress:
    """How far long work is, told to whatever shows it."""

    def __init__(self, total: float, show: Show) -> None:
        self.total, self._show = total, show

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
        spread = f" ({duration(within[0])}..{duration(within[1])})" if within else ""
        remaining = f", about {duration(left)}{spread} left" if left is not None and left > 0 else ""
        self._show(done, text, detail, f"{text}: {detail}{remaining}" if detail else f"{text}{remaining}")


class _Lines:
    """One line on stderr for each step, and in a long one one every few seconds in which it got further."""

    def __init__(self, since: float) -> None:
        self._begun = time.monotonic() - since
        self._said_at = time.monotonic()
        self._said = ("", "")

    def __call__(self, _: float, text: str, detail: str, words: str) -> None:
        waited = time.monotonic() - self._said_at >= _LINE_SECONDS
        if text != self._said[0] or (waited and detail != self._said[1]):
            self._said, self._said_at = (text, detail), time.monotonic()
            note(f"[{duration(round(self._said_at - self._begun, 2))}] {words}")


@contextmanager
def progress(total: float, since: float = 0.0) -> Iterator[Progress]:
    """Show progress on stderr while the block runs: a bar with elapsed, left and spent on a terminal, else lines.

    What is shown began `since` seconds ago.
    """
    if not sys.stderr.isatty():
        yield Progress(total, _Lines(since))
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
        task = bar.add_task("", total=total)
        bar.tasks[0].start_time = bar.get_time() - since

        def show(done: float, _: str, __: str, words: str) -> None:
            bar.update(task, completed=min(done, total), description=printable(words))

        yield Progress(total, show)


class Display(Protocol):
    """Where progress and remarks are shown."""

    def note(self, text: str) -> None:
        """Show a remark."""
        ...

    def progress(self, total: float, since: float = 0.0) -> AbstractContextManager[Progress]:
        """Show progress while the block runs; it began `since` seconds ago."""
        ...


class Terminal:
    """Shows all on stderr, whoever reads it."""

    note = staticmethod(note)
    progress = staticmethod(progress)


class LoggedDisplay:
    """Shows progress to a person who watches; remarks go to the log of `cotune`."""

    def note(self, text: str) -> None:
        logger.warning(text)

    @contextmanager
    def progress(self, total: float, since: float = 0.0) -> Iterator[Progress]:
        if in_notebook():
            from IPython.display import display  # type: ignore[import-not-found]  # there is one where this is asked

            line = display({"text/plain": ""}, raw=True, display_id=True)

            def write_over(done: float, _: str, __: str, words: str) -> None:
                share = f"{min(done / total, 1.0):4.0%} " if 0 < total < float("inf") else ""
                line.update({"text/plain": f"{share}{words}"}, raw=True)

            yield Progress(total, write_over)
        elif sys.stderr.isatty():
            with progress(total, since) as shown:
                yield shown
        else:
            yield Progress(total, lambda *_: None)


def in_notebook() -> bool:
    """Return whether a notebook's kernel runs this program."""
    shell = sys.modules.get("IPython")
    running = shell.get_ipython() if shell is not None else None
    return type(running).__name__ == "ZMQInteractiveShell"
