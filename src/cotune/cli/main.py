"""The `cotune` program: its verbs in the order of the flow, and what happens on errors."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from typing import Annotated

import typer

from cotune import __version__
from cotune.errors import CotuneError, Infeasible, Interrupted, UsageError

VERBS = (
    "init",
    "profile",
    "predict",
    "inspect",
    "plan",
    "place",
    "run",
    "resize",
    "export",
    "simulate",
    "serve",
    "report",
    "dashboard",
    "samples",
    "record",
    "import",
    "prices",
    "bench",
    "algorithms",
    "doctor",
)

app = typer.Typer(
    no_args_is_help=True,
    add_completion=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
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


for _verb in VERBS:
    _name = "import_" if _verb == "import" else _verb  # a word of the language cannot name a file
    _made = getattr(importlib.import_module(f"cotune.cli.{_name}"), _name)
    if isinstance(_made, typer.Typer):
        app.add_typer(_made, name=_verb)
    else:
        app.command(name=_verb)(_made)


def main() -> None:
    """Run the command line; errors a user can act on end as one line and their exit code."""
    try:
        app()
    except CotuneError as error:
        _document(error)
        print(f"cotune: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except SystemExit as leaving:
        parsing = getattr(leaving.__context__, "format_message", None)  # the parser has said on stderr what is wrong
        if leaving.code == UsageError.exit_code and parsing is not None:
            _document(UsageError(parsing()))
        if leaving.code == Interrupted.exit_code:
            _document(Interrupted("interrupted; what was measured is kept"))
        raise
    except Exception as error:  # a bug: told on stdout as well, then as any other
        _document(error)
        raise


def _document(error: Exception) -> None:
    """Print an error as the one document on stdout, where one was asked for."""
    ours = sys.argv[1 : sys.argv.index("--")] if "--" in sys.argv else sys.argv[1:]
    if "--json" in ours:
        from cotune.cli._output import emit_json

        code = getattr(error, "exit_code", CotuneError.exit_code)
        facts: dict[str, object] = {"kind": type(error).__name__, "message": str(error), "exit_code": code}
        if isinstance(error, Infeasible):
            facts |= error.document(error.nearest)
        if isinstance(known := getattr(error, "known", None), Mapping):
            facts["known"] = dict(known)
        emit_json("error", {"error": facts})
