"""`cotune dashboard`: a store in the browser."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from cotune.cli.options import Json, StoreUrl, require_store

if TYPE_CHECKING:
    import socket

PORT = 8790
LEAST_TOKEN = 16


def dashboard(
    store: StoreUrl = None,
    host: Annotated[str, typer.Option("--host", help="Where to listen; beyond this machine a token is asked for.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="Which port; 0 takes a free one.")] = PORT,
    token: Annotated[
        str | None,
        typer.Option("--token", envvar="COTUNE_DASHBOARD_TOKEN", help="What visitors must know (made up if need be)."),
    ] = None,
    no_open: Annotated[bool, typer.Option("--no-open", help="Do not open a browser.")] = False,
    json: Json = False,
) -> None:
    """Look at jobs, live runs, plans and what-ifs in a browser. Reads a store, simulations included."""
    import secrets
    from pathlib import Path

    from cotune.errors import UsageError, missing_extra
    from cotune.store.location import locate

    try:
        from cotune.dashboard.access import loopback
        from cotune.dashboard.app import create
        from cotune.dashboard.serving import serve
        from cotune.reports.page import plotly_script
    except ImportError as error:
        raise missing_extra(f"{error.name}, a part of the dashboard,", "dashboard") from None
    from cotune.cli.output import emit_json, note
    from cotune.store import Store

    plotly_script()
    local = loopback(host)
    if token is not None and len(token) < LEAST_TOKEN and not local:
        raise UsageError(f"a token for others must have at least {LEAST_TOKEN} letters")
    token = token or (None if local else secrets.token_urlsafe(24))
    url = locate(store, Path.cwd())
    require_store(url)
    with Store(url) as kept, _listening(host, port) as listener:
        shown = f"[{host}]" if ":" in host else host
        address = f"http://{shown}:{listener.getsockname()[1]}/" + (f"?token={token}" if token else "")
        note(f"dashboard of {kept.label} at {address} (Ctrl-C ends it)")
        if json:
            emit_json("dashboard", {"store": kept.label, "address": address})
            sys.stdout.flush()
        if not no_open:
            _open(address)
        serve(create(kept, token, local=local), listener)


def _listening(host: str, port: int) -> socket.socket:
    import socket

    from cotune.errors import UsageError

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


def _open(address: str) -> None:
    import threading
    import webbrowser

    threading.Timer(0.5, webbrowser.open, (address,)).start()
