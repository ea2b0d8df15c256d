"""The dashboard's server: the store's answers over HTTP, the page's files, and what changes as events.

Answers are computed in threads, so a slow one does not hold up the others.
"""

from __future__ import annotations

import asyncio
import math
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager, suppress
from functools import cache
from importlib import resources
from types import FrameType
from typing import Annotated, Any

import uvicorn
from anyio.to_thread import current_default_thread_limiter
from fastapi import FastAPI, Query, Request
from fastapi.responses import JSONResponse, Response
from fastapi.sse import EventSourceResponse, ServerSentEvent
from starlette.types import ASGIApp

from cotune import __version__
from cotune.dashboard.access import Guard, trusted
from cotune.dashboard.answers import StoreAnswers
from cotune.dashboard.beats import Beats, as_json
from cotune.dashboard.what_if import WhatIf
from cotune.errors import CotuneError, NotFound, UsageError
from cotune.reports.page import asset, plotly_script
from cotune.store import Store
from cotune.store.views import State

MOST_OFFSET = 10**9
THREADS = 8  # that answer at the same time, fewer than the connections of a store: the others wait their turn
_SHARED = ("base.css", "figures.js")
_KINDS = {"css": "text/css", "js": "text/javascript", "html": "text/html", "svg": "image/svg+xml"}


@cache
def page_file(name: str) -> bytes | None:
    """Return a file of the page, or None."""
    if name == "plotly.js":
        return plotly_script().encode()
    if name in _SHARED:
        return asset(name).encode()
    folder = resources.files("cotune.dashboard").joinpath("assets")
    found = [entry for entry in folder.iterdir() if entry.name == name]
    return found[0].read_bytes() if found else None


def create(store: Store, token: str | None = None, host: str = "127.0.0.1") -> tuple[ASGIApp, Beats]:
    """Return the dashboard of a store, guarded, and its events, which are to be closed before its server."""
    answers = StoreAnswers(store)
    beats = Beats(answers)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        current_default_thread_limiter().total_tokens = THREADS
        beating = asyncio.create_task(beats.run())
        yield
        beating.cancel()
        with suppress(asyncio.CancelledError):
            await beating

    app = FastAPI(
        title="cotune", version=__version__, docs_url=None, redoc_url=None, openapi_url=None, lifespan=lifespan
    )
    _routes(app, answers, beats)
    return trusted(Guard(app, token), host), beats


def _routes(app: FastAPI, answers: StoreAnswers, beats: Beats) -> None:
    @app.exception_handler(CotuneError)
    async def told(_: Request, error: CotuneError) -> Response:
        known = {NotFound: 404, UsageError: 400, CotuneError: 503}  # the last: busy, try again
        status = known.get(type(error), 500)
        return JSONResponse({"error": str(error)}, status_code=status)

    @app.get("/")
    def index() -> Response:
        return file_response("index.html", page_file("index.html"))

    @app.get("/assets/{name}")
    def assets(name: str) -> Response:
        return file_response(name, page_file(name))

    @app.get("/api/overview")
    def overview() -> Response:
        return _answer(answers.overview())

    @app.get("/api/samples")
    def samples(
        job: str | None = None,
        purpose: Annotated[str | None, Query(pattern="^(probe|run)$")] = None,
        state: State | None = None,
        limit: Annotated[int, Query(ge=1, le=500)] = 100,
        offset: Annotated[int, Query(ge=0, le=MOST_OFFSET)] = 0,
    ) -> Response:
        return _answer(answers.samples(job, purpose, state, limit, offset))

    @app.get("/api/samples/{id}")
    def sample(id: str) -> Response:
        return _answer(answers.sample(id))

    @app.get("/api/jobs/{key}")
    def job(key: str) -> Response:
        return _answer(answers.opened(key))

    @app.get("/api/jobs/{key}/what-if")
    def what_if(key: str, asked: Annotated[WhatIf, Query()], request: Request) -> Response:
        prices = {
            name.removeprefix("price."): float(value)
            for name, value in request.query_params.items()
            if name.startswith("price.") and _is_price(value)
        }
        return _answer(answers.what_if(key, asked, prices))

    @app.get("/api/results/{id}")
    def result(id: str) -> Response:
        return _answer(answers.result(id))

    @app.get("/api/events", response_class=EventSourceResponse)
    async def events() -> AsyncIterator[ServerSentEvent]:
        async with aclosing(beats.stream()) as stream:
            async for event in stream:
                yield event


def _answer(document: dict[str, Any]) -> Response:
    return Response(as_json(document), media_type="application/json", headers={"cache-control": "no-store"})


def file_response(name: str, content: bytes | None) -> Response:
    """Return a file of a page, or that there is none."""
    if content is None:
        return JSONResponse({"error": "no such file"}, status_code=404)
    kind = _KINDS[name.rpartition(".")[2]]
    keep = "max-age=86400" if name == "plotly.js" else "no-cache"
    return Response(content, media_type=kind, headers={"cache-control": keep})


def _is_price(text: str) -> bool:
    try:
        return 0 <= float(text) < math.inf
    except ValueError:
        return False


class _Server(uvicorn.Server):
    """A server that lets its watchers go first: open event streams would hold up its end."""

    def __init__(self, config: uvicorn.Config, before: Callable[[], None]) -> None:
        super().__init__(config)
        self._before = before

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._before()
        super().handle_exit(sig, frame)


def serve(app: ASGIApp, beats: Beats, listener: socket.socket) -> None:
    """Answer requests until a signal ends it."""
    settings = uvicorn.Config(app, log_level="warning", access_log=False, timeout_graceful_shutdown=5)
    _Server(settings, beats.close).run(sockets=[listener])
