"""Engines on the command line: made from the settings, and always closed again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from cotune.config import Settings
from cotune.run import Engine


@contextmanager
def running_engine(settings: Settings, again: str = "the same command") -> Iterator[Engine]:
    """Yield the engine of the job file; whatever happens, nothing it started stays behind.

    `again` is what goes on after Ctrl-C from what was measured.
    """
    from cotune import algorithms
    from cotune.cli._output import note
    from cotune.errors import UsageError

    cls = algorithms.load("run", settings.engine)
    try:
        engine: Engine = cls(**settings.engine_settings)
    except TypeError as error:
        raise UsageError(f"engine {settings.engine}: {error}") from None
    try:
        yield engine
    except KeyboardInterrupt:
        note(f"interrupted: what was measured is kept, and {again} goes on from there")
        raise
    finally:
        engine.close()
