"""What `--help` prints: the common flags of a verb in groups and examples, on one screen; `--help-all` prints all.

A flag stands in its group; a rare one is shown where all flags fit on the screen, or all are asked for.
Examples are the lines of a verb's docstring that begin with `cotune`.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

import typer

GOAL, SPACE, MEASURING, REPLAY, OUTPUT = "Goal", "Space", "Measuring", "Replay", "Output"
SCREEN = 25  # lines
_GROUPS = ("Arguments", GOAL, SPACE, MEASURING, "Options", REPLAY, OUTPUT)
_RARE = " (rare)"
_WIDEST_FLAG = 26  # letters before its text goes below it
_ALL = "--help-all"
_ASKED = "cotune.help_all"


def flag(group: str, *names: str, **settings: Any) -> Any:
    """Return an option that is shown in a group."""
    return typer.Option(*names, rich_help_panel=group, **settings)


def rare_flag(group: str, *names: str, **settings: Any) -> Any:
    """Return an option that few need, shown in a group where there is room."""
    return flag(rare(group), *names, **settings)


def rare(group: str) -> str:
    """Return the panel of what few need, within a group."""
    return group + _RARE


def asking(context: Any, words: Sequence[str]) -> list[str]:
    """Return a command line with `--help` for `--help-all`, the difference noted in its context."""
    own = words.index("--") if "--" in words else len(words)
    context.meta[_ASKED] = _ALL in words[:own]
    return ["--help" if word == _ALL and place < own else word for place, word in enumerate(words)]


def on_one_screen(command: Any) -> Any:
    """Return a command, or a group of them, whose help is written here."""
    for inner in getattr(command, "commands", {}).values():
        on_one_screen(inner)

    def write(context: Any, formatter: Any) -> None:
        formatter.write("\n".join(_help(command, context, formatter.width)) + "\n")

    command.format_help = write
    return command


def _help(command: Any, context: Any, width: int) -> list[str]:
    """Return the lines of a command's help: all flags where they fit or are asked for, else the common ones."""
    everything = _lines(command, context, width, full=context.meta.get(_ASKED, False), rare_too=True)
    if context.meta.get(_ASKED) or len(everything) <= SCREEN:
        return everything
    return _lines(command, context, width, full=False, rare_too=False)


def _lines(command: Any, context: Any, width: int, *, full: bool, rare_too: bool) -> list[str]:
    purpose, examples = _told(command.help or "")
    usage = " ".join(["Usage:", context.command_path, *command.collect_usage_pieces(context)])
    lines = [*textwrap.wrap(usage, width, subsequent_indent="  "), "", *textwrap.wrap(purpose, width), ""]
    grouped = _grouped(command, context, full=full, rare_too=rare_too)
    margin = min(_WIDEST_FLAG, max(len(flag) for rows in grouped.values() for flag, _ in rows)) + 4
    for group, rows in grouped.items():
        lines += [f"{group}:", *(line for row in rows for line in _row(*row, margin, width))]
    return [*lines, "", "Examples:", *(f"  {line}" for line in examples)] if examples else lines


def _grouped(command: Any, context: Any, *, full: bool, rare_too: bool) -> dict[str, list[tuple[str, str]]]:
    """Return the rows of each group, and how to see those that are left out."""
    shown: dict[str, list[tuple[str, str]]] = {group: [] for group in _GROUPS}
    left_out = 0
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record is None or parameter.name == "help":
            continue
        group, is_rare = _group(parameter)
        if is_rare and not rare_too:
            left_out += 1
        else:
            flag = record[0].replace(" range>", ">").replace("list[", "").replace("]>", ">")
            shown.setdefault(group, []).append((flag, record[1] if full else parameter.help or ""))
    if inner := getattr(command, "commands", {}):
        shown["Commands"] = [(name, _told(one.help or "")[0]) for name, one in inner.items()]
    elif left_out:
        shown[OUTPUT].append((_ALL, f"Show {left_out} more flags, and all defaults."))
    else:
        shown[OUTPUT].append(("-h, --help", "Show this message and exit."))
    return {group: rows for group, rows in shown.items() if rows}


def _group(parameter: Any) -> tuple[str, bool]:
    """Return where a parameter is shown, and whether few need it."""
    panel = parameter.rich_help_panel
    if panel is None:
        return ("Arguments" if parameter.param_type_name == "argument" else "Options"), False
    return panel.removesuffix(_RARE), panel.endswith(_RARE)


def _told(docstring: str) -> tuple[str, list[str]]:
    """Return what a docstring says, and its examples."""
    lines = [line.strip() for line in docstring.splitlines()]
    examples = [line for line in lines if line.startswith("cotune ")]
    return " ".join(line for line in lines if line not in examples).strip(), examples


def _row(flag: str, text: str, margin: int, width: int) -> Iterator[str]:
    """Yield the lines of one flag."""
    lines = textwrap.wrap(text, width - margin, break_on_hyphens=False) or [""]
    if len(flag) + 4 > margin:
        yield f"  {flag}"
        yield from (" " * margin + line for line in lines)
        return
    yield f"  {flag}".ljust(margin) + lines[0]
    yield from (" " * margin + line for line in lines[1:])
