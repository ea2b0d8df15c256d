"""Numbers of the command line that can be reckoned with: finite, and within what a database and a sum can hold.

Every verb is looked through once, so that no option needs to say so itself.
"""

from __future__ import annotations

import math
from typing import Any

import typer

MOST = 10**12
MOST_SEED = 2**63 - 1


def within_bounds(command: Any) -> Any:
    """Return a command, or a group of them, whose options refuse `nan`, `inf` and numbers beyond a million millions."""
    for inner in getattr(command, "commands", {}).values():
        within_bounds(inner)
    for option in command.params:
        option.callback = _checking(option.callback)
    return command


def _checking(before: Any) -> Any:
    def check(context: Any, option: Any, value: Any) -> Any:
        for one in value if isinstance(value, list | tuple) else (value,):
            _require_bounded(one, option)
        return before(context, option, value) if before is not None else value

    return check


def _require_bounded(value: Any, option: Any) -> None:
    most = MOST_SEED if option.name == "seed" else MOST
    if isinstance(value, float) and not (math.isfinite(value) and abs(value) <= most):
        raise typer.BadParameter(f"{value} is not a number from {-most:,} to {most:,}", param=option)
    if isinstance(value, int) and abs(value) > most:
        raise typer.BadParameter(f"{value} is not a whole number from {-most:,} to {most:,}", param=option)
