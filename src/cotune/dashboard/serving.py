"""Serving a dashboard on a socket until it is told to end."""

from __future__ import annotations

import socket
from collections.abc import Callable
from types import FrameType

import uvicorn

from cotune.dashboard.app import Dashboard


class _Server(uvicorn.Server):
    """A server that lets its watchers go first: open event streams would hold up its end."""

    def __init__(self, config: uvicorn.Config, before: Callable[[], None]) -> None:
        super().__init__(config)
        self._before = before

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._before()
        super().handle_exit(sig, frame)


def serve(dashboard: Dashboard, listener: socket.socket) -> None:
    """Answer requests until a signal ends it."""
    settings = uvicorn.Config(dashboard.app, log_level="warning", access_log=False, timeout_graceful_shutdown=5)
    _Server(settings, dashboard.close).run(sockets=[listener])
