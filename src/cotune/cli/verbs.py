"""The verbs of `cotune`, in the order of the flow."""

from __future__ import annotations

import importlib
from typing import Annotated

import typer

from cotune import __version__

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
