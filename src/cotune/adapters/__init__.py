"""Reading what others write (job traces, logs, published measurements), and writing what they read."""

from __future__ import annotations

from importlib.resources import files


def modules(package: str) -> tuple[str, ...]:
    """Return the names of a package's files, one for each tool; those that begin with `_` are its own."""
    entries = (entry.name for entry in files(package).iterdir())
    return tuple(sorted(name[:-3] for name in entries if name.endswith(".py") and not name.startswith("_")))
