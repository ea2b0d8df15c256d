"""`cotune dashboard`: a store in the browser."""

from __future__ import annotations

import html
import secrets
import socket
import sys
import tempfile
import threading
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Annotated
from urllib.parse import quote

import typer

from cotune.cli.help import OUTPUT, flag
from cotune.cli.options import Json, StoreUrl, require_store
from cotune.cli.output import emit_json, note
from cotune.errors import UsageError, missing_extra
from cotune.safety import private
from cotune.store import Store
from cotune.store.location import locate

PORT = 8790
LEAST_TOKEN = 16


def dashboard(
    store: StoreUrl = None,
    host: Annotated[str, typer.Option("--host", help="Where to listen; others need the token of the address.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="Which port; 0 takes a free one.")] = PORT,
    token: Annotated[
        str | None,
        typer.Option("--token", envvar="COTUNE_DASHBOARD_TOKEN", help="What visitors must know (made up if need be)."),
    ] = None,
    no_open: Annotated[bool, flag(OUTPUT, "--no-open", help="Do not open a browser.")] = False,
    json: Json = False,
) -> None:
    """Look at jobs, live runs, plans and what-ifs in a browser. Reads a store, simulations included.

    cotune dashboard
    cotune dashboard --store postgresql://host/team --port 8900 --no-open
    """
    try:
        from cotune.dashboard.access import loopback
        from cotune.dashboard.app import create, serve
        from cotune.reports.page import plotly_script
    except ImportError as error:
        raise missing_extra(f"{error.name}, a part of the dashboard,", "dashboard") from None
    plotly_script()
    local = loopback(host)
    if token is not None and len(token) < LEAST_TOKEN and not local:
        raise UsageError(f"a token for others must have at least {LEAST_TOKEN} letters")
    token = token or secrets.token_urlsafe(24)
    url = locate(store, Path.cwd())
    require_store(url)
    with Store(url) as opened, _listening(host, port) as listener:
        shown = f"[{host}]" if ":" in host else host
        address = f"http://{shown}:{listener.getsockname()[1]}/?token={quote(token)}"
        note(f"dashboard of {opened.label} at {address} (Ctrl-C ends it)")
        if json:
            emit_json("dashboard", {"store": opened.label, "address": address})
            sys.stdout.flush()
        with nullcontext() if no_open else _opening(address):
            serve(*create(opened, token, host), listener)


def _listening(host: str, port: int) -> socket.socket:
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(128)
    except OSError as error:
        raise UsageError(
            f"cannot listen on {host} port {port} ({error.strerror}); try --port 0 for a free one"
        ) from None
    return listener


@contextmanager
def _opening(address: str) -> Iterator[None]:
    """Open a browser by a file for the user alone: the command line of a browser is seen by everybody."""
    with tempfile.TemporaryDirectory(prefix="cotune-") as folder:
        page = Path(folder) / "open.html"
        private.write(page, f'<meta http-equiv="refresh" content="0; url={html.escape(address)}">')
        opening = threading.Timer(0.5, webbrowser.open, (page.as_uri(),))
        opening.start()
        yield
        opening.cancel()
