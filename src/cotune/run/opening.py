"""Engines made from their name and settings, and always closed again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from cotune import registry
from cotune.run.launch import Engine


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
