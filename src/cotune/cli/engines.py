"""Engines on the command line: made from the settings, and always closed again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from cotune.jobfile.settings import Settings
from cotune.run.launch import Engine

AGAIN = ", and the same command goes on from there"


@contextmanager
def running_engine(settings: Settings, afterwards: Callable[[], str] = lambda: AGAIN) -> Iterator[Engine]:
    """Yield the engine of the job file; whatever happens, nothing it started stays behind.

    `afterwards` says what may be done after Ctrl-C with what was measured.
    """
    from cotune import registry
    from cotune.cli.output import note

    cls = registry.load("engine", settings.engine)
    engine: Engine = registry.make(cls, settings.engine_settings, f"engine {settings.engine}")
    try:
        yield engine
    except KeyboardInterrupt:
        note(f"interrupted: what was measured is kept{afterwards()}")
        raise
    finally:
        engine.close()
