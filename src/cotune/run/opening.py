"""Engines made from their name and settings, and always closed again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from cotune import registry
from cotune.errors import UsageError
from cotune.run.launch import Engine


def require_engine(engine: object) -> None:
    """Refuse what is no engine: a name that none has, or an object that lacks what engines do."""
    named = next(iter(engine), None) if isinstance(engine, Mapping) else engine
    if isinstance(named, str):
        registry.require("engine", named)
    elif named is not None and not isinstance(named, Engine):
        words = "an engine is a name, a name with settings, or has start, stop, wait, now and close"
        raise UsageError(f"{words}; this is {type(engine).__name__}: {engine!r:.80}")


@contextmanager
def opened_engine(engine: str | Engine, settings: Mapping[str, Any]) -> Iterator[Engine]:
    """Yield the engine of that name, or the one that is given; whatever happens, nothing it started stays behind."""
    if not isinstance(engine, str):
        yield engine  # whoever made it closes it
        return
    made: Engine = registry.make(registry.load("engine", engine), settings, f"engine {engine}")
    try:
        yield made
    finally:
        made.close()
