"""Answering HTTP beside a service: a socket, and a thread that serves it until the service ends."""

from __future__ import annotations

import logging
import socket
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from cotune.cluster.api.tokens import TokenFile, read
from cotune.cluster.service.daemon import log
from cotune.errors import UsageError, missing_extra

PORT = 8791
_BACKLOG = 512
_PATIENCE = 5  # seconds for answers that are being written when the service ends
_TURN = 0.0005  # seconds that a thread may keep others waiting; an answer takes some ten turns


def address_of(text: str) -> tuple[str, int]:
    """Return the host and the port of an address as it is written: 8791, 127.0.0.1:8791 or [::1]:8791."""
    host, _, port = text.rpartition(":")
    host = host.strip("[]") or "127.0.0.1"
    if not port.isdecimal() or int(port) > 65535:
        raise UsageError(f"cannot read the address {text!r}; write 127.0.0.1:{PORT}, or a port alone")
    return host, int(port)


def token_file(path: Path | None) -> TokenFile:
    """Return the tokens of a file, or raise what is wrong with it."""
    if path is None:
        raise UsageError("a submitted job runs a command: name a file of tokens (`cotune token` makes one)")
    read(path)
    return TokenFile(path)


@contextmanager
def answering(listen: str, tokens: Path | None, folders: Sequence[Path], store: str | None) -> Iterator[str]:
    """Serve the API of a store in a thread; yield its address. Jobs are commands, so only tokens let anybody in.

    Submitted jobs may be in some folders, by default in the present one.
    """
    try:
        import uvicorn

        from cotune.cluster.api.app import create
    except ImportError as error:
        raise missing_extra(f"{error.name}, a part of the HTTP API,", "dashboard") from None
    from cotune.cluster.service.queue import Queue
    from cotune.store import open_store

    (host, port), known = address_of(listen), token_file(tokens)
    with open_store(store, Path()) as opened, _listener(host, port) as listener, _short_turns(), _logged():
        app = create(Queue(opened), known, tuple(folders) or (Path.cwd(),), host)
        settings = uvicorn.Config(
            app,
            log_config=None,
            log_level="warning",
            access_log=False,
            timeout_graceful_shutdown=_PATIENCE,
            server_header=False,
        )
        server = uvicorn.Server(settings)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, name="http", daemon=True)
        thread.start()
        shown = f"[{host}]" if ":" in host else host
        try:
            yield f"http://{shown}:{listener.getsockname()[1]}/api/v1/"
        finally:
            server.should_exit = True
            thread.join(2 * _PATIENCE)


class LogLines(logging.Handler):
    """Writes what the server says into the log of the service."""

    def emit(self, record: logging.LogRecord) -> None:
        log("http", level=record.levelname.lower(), words=record.getMessage())


@contextmanager
def _logged() -> Iterator[None]:
    said, handler = logging.getLogger("uvicorn.error"), LogLines()
    said.addHandler(handler)
    said.propagate = False
    try:
        yield
    finally:
        said.removeHandler(handler)
        said.propagate = True


@contextmanager
def _short_turns() -> Iterator[None]:
    """Have threads take turns more often, so that no answer waits for a whole decision."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(min(before, _TURN))
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def _listener(host: str, port: int) -> socket.socket:
    try:
        family, *_, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(place)
        listener.listen(_BACKLOG)
    except OSError as error:
        raise UsageError(f"cannot listen on {host} port {port} ({error.strerror}); port 0 takes a free one") from None
    return listener
