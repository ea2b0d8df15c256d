"""What `--help` prints: the common flags of a verb in groups, and examples, on one screen; `--help-all` prints all.

Examples are the lines of a verb's docstring that begin with `cotune`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from typing import Any

import typer

GOAL, SPACE, MEASURING, REPLAY, OUTPUT = "Goal", "Space", "Measuring", "Replay", "Output"
ALL = "--help-all"
_GROUPS = ("Arguments", GOAL, SPACE, MEASURING, "Options", REPLAY, OUTPUT)
_RARE = " (rare)"
_FEW = 13  # flags that fit on a screen with their groups and examples


def flag(group: str, *names: str, **settings: Any) -> Any:
    """Return an option that is shown in a group."""
    return typer.Option(*names, rich_help_panel=group, **settings)


def rare_flag(group: str, *names: str, **settings: Any) -> Any:
    """Return an option that few need, shown in a group where there is room."""
    return flag(rare(group), *names, **settings)


def rare(group: str) -> str:
    """Return the panel of what few need, within a group."""
    return group + _RARE


def on_one_screen(command: Any) -> None:
    """Let a command's help show its flags in groups, and its examples below them."""
    lines = [line.strip() for line in (command.help or "").splitlines()]
    examples = [line for line in lines if line.startswith("cotune ")]
    command.help = " ".join(line for line in lines if line not in examples).strip()
    command.format_options = partial(_write_groups, command, examples)


def _write_groups(command: Any, examples: Sequence[str], context: Any, formatter: Any) -> None:
    own = sys.argv[: sys.argv.index("--")] if "--" in sys.argv else sys.argv
    full, left_out = ALL in own, 0
    shown: dict[str, list[tuple[str, str]]] = {group: [] for group in _GROUPS}
    for parameter in command.params:
        record = parameter.get_help_record(context)
        if record is None:
            continue
        panel = parameter.rich_help_panel or ("Arguments" if parameter.param_type_name == "argument" else "Options")
        if panel.endswith(_RARE) and not full and len(command.params) > _FEW:
            left_out += 1
        else:
            names = record[0].replace(" range>", ">").replace("list[", "").replace("]>", ">")
            shown[panel.removesuffix(_RARE)].append((names, record[1] if full else parameter.help or ""))
    more = f" ({ALL}: {left_out} more flags)" if left_out else ""
    shown[OUTPUT].append(("-h, --help", f"Show this message and exit{more}."))
    shown["Commands"] = [(name, one.help or "") for name, one in getattr(command, "commands", {}).items()]
    formatter.write_paragraph()
    for group, rows in shown.items():
        if rows:
            formatter.write(f"{group}:\n")
            with formatter.indentation():
                formatter.write_dl(rows)
    if examples:
        formatter.write("\nExamples:\n" + "".join(f"  {line}\n" for line in examples))
