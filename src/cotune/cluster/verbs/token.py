"""`cotune token`: who may use the HTTP API of a service, and for what."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cotune.cli.options import Json
from cotune.cli.output import emit_json, say
from cotune.cluster.api import tokens as access


def token(
    name: Annotated[str, typer.Argument(help="Whose token it is; shown beside what is done with it.")],
    tokens: Annotated[Path, typer.Option("--tokens", help="The file of tokens; only hashes are kept in it.")],
    scope: Annotated[str, typer.Option("--scope", help="read, submit or admin; each holds those before it.")] = "read",
    team: Annotated[str, typer.Option("--team", help="Only this team's jobs (all).")] = "",
    revoke: Annotated[bool, typer.Option("--revoke", help="Take it out again, at once.")] = False,
    json: Json = False,
) -> None:
    """Make a token for the HTTP API of cotune serve, print it once, and keep its hash in a file."""
    if revoke:
        access.revoke(tokens, name)
        emit_json("token", {"name": name, "revoked": True}) if json else say(f"revoked {name}")
        return
    made = access.add(tokens, name, scope, team)
    if json:
        emit_json("token", {"name": name, "scope": scope, "team": team, "token": made})
    else:
        say(made)
