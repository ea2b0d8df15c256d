"""The verbs of `cotune`, in the order of the flow.

A verb is a file in `cli/verbs/` or in a room's `verbs/` with a function (or a group) of the same name. It is
imported when it is called; the list of verbs is read from the first lines of their files.
"""

from __future__ import annotations

import ast
import importlib
from functools import cache, partial
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from cotune import __version__
from cotune.cli.help import ALL, on_one_screen
from cotune.errors import suggestion

ORDER = (  # what a newcomer does first; verbs that are not named here follow
    *("init", "profile", "plan", "run", "predict", "report", "dashboard", "samples", "resize"),
    *("export", "import", "record", "backup", "prices", "doctor", "algorithms", "model", "place", "pipeline"),
    *("simulate", "serve", "submit", "queue", "status", "logs", "wait", "why", "hold", "release", "prioritise"),
    *("cancel", "rules", "token", "bench"),
)

_HELP = {"help_option_names": ["-h", "--help", ALL]}
_MOST = 10**12  # of a number that can be reckoned with: what a database and a sum can hold
_MOST_SEED = 2**63 - 1


@cache
def verbs() -> dict[str, Path]:
    """Return name -> file of every verb that is installed, in the order of the flow."""
    files = sorted(Path(__file__).parents[1].glob("*/verbs/[!_]*.py"))
    known = {file.stem.rstrip("_"): file for file in files}  # a word of the language cannot name a module
    first = {name: known[name] for name in ORDER if name in known}
    return first | known


class Verbs(TyperGroup):
    """The group of all verbs, each imported when it is asked for."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002  # the parser's own signature
        return list(verbs())

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return _command(cmd_name) if cmd_name in verbs() else super().get_command(ctx, cmd_name)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find a verb; where there is none of that name, say which was meant."""
        if args and not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            near = suggestion(args[0], self.list_commands(ctx)) or "; `cotune --help` lists them"
            ctx.fail(f"no verb {args[0]!r}{near}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, _purpose(file)) for name, file in verbs().items()])


@cache
def _command(name: str) -> Any:
    """Return a verb as a command, its file imported."""
    file = verbs()[name]
    made: Any = getattr(importlib.import_module(f"cotune.{file.parents[1].name}.verbs.{file.stem}"), file.stem)
    holder = typer.Typer(add_completion=False, rich_markup_mode=None, context_settings=_HELP)
    if isinstance(made, typer.Typer):
        holder.add_typer(made, name=name)
        group: Any = typer.main.get_command(holder)
        return _prepared(group.commands[name])
    holder.command(name=name)(made)
    return _prepared(typer.main.get_command(holder))


def _prepared(command: Any) -> Any:
    """Return a command, or a group of them, with its help in groups and its numbers within bounds."""
    for inner in getattr(command, "commands", {}).values():
        _prepared(inner)
    on_one_screen(command)
    for option in command.params:
        option.callback = partial(_checked, option.callback)
    return command


def _checked(before: Any, context: Any, option: Any, value: Any) -> Any:
    """Refuse `nan`, `inf` and numbers beyond a million millions, whatever the option."""
    most = _MOST_SEED if option.name == "seed" else _MOST
    for one in value if isinstance(value, list | tuple) else (value,):
        if isinstance(one, int | float) and not abs(one) <= most:
            raise typer.BadParameter(f"{one} is not a number from {-most:,} to {most:,}", param=option)
    return before(context, option, value) if before is not None else value


def _purpose(file: Path) -> str:
    """Return what a verb does: the rest of its file's first line, after its name."""
    line = (ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or "").partition("\n")[0]
    purpose = line.partition(": ")[2]
    return purpose[:1].upper() + purpose[1:]


app = typer.Typer(
    cls=Verbs,
    no_args_is_help=True,
    add_completion=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings=_HELP,
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"cotune {__version__}")
        raise typer.Exit


@app.callback()
def cotune(
    _version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """How many workers, which batch size, which devices? Measure a training job, plan it, run it."""
