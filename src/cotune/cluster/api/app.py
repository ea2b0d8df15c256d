"""The routes of the HTTP API: each reads a request, asks `QueueAccess` and writes JSON, in the words of the verbs.

Answers are worked out in threads; a stream of events looks into the store twice a second for all that came since.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Annotated, Any

from anyio.to_thread import current_default_thread_limiter, run_sync
from fastapi import Depends, FastAPI, Query, Request, Security
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from fastapi.routing import APIRoute
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer, SecurityScopes
from fastapi.sse import EventSourceResponse, ServerSentEvent
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp

from cotune import __version__
from cotune.cluster.api.middleware import RequestBounds
from cotune.cluster.api.queue_access import Forbidden, QueueAccess, require
from cotune.cluster.api.requests import JobId, NewJob, NewPriority, NewRules
from cotune.cluster.api.tokens import AccessScope, Caller, TokenFile
from cotune.cluster.service.queue import Queue
from cotune.cluster.service.rules import QuotaFull
from cotune.cluster.service.states import IllegalMove, State
from cotune.dashboard.access import trusted
from cotune.dashboard.app import file_response, page_file
from cotune.dashboard.beats import as_json
from cotune.errors import CotuneError, Infeasible, InvalidFile, NotFound, UsageError, suggestion
from cotune.safety.printable import printable

THREADS = 8  # that answer at the same time, fewer than the connections of a store
MOST_STREAMS = 64
_LOOK = 0.5  # seconds between two looks for what is new
_MOST_EVENTS = 1000  # in one look
_OWN = ("queue.html", "queue.css", "queue.js")  # files of the page
_SHARED = ("base.css", "dashboard.css", "dom.js", "icon.svg")  # of the dashboard's


class UnknownKey(UsageError):
    """A parameter in an address that its route does not take."""


_STATUS: dict[type[CotuneError], int] = {
    NotFound: 404,
    IllegalMove: 409,
    UsageError: 400,
    InvalidFile: 422,
    Forbidden: 403,
    QuotaFull: 429,
    Infeasible: 409,
    UnknownKey: 422,
}


def create(queue: Queue, tokens: TokenFile, roots: tuple[Path, ...], host: str = "127.0.0.1") -> ASGIApp:
    """Return the API of a queue, to be served at a host; jobs may be in the folders of `roots`."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        current_default_thread_limiter().total_tokens = THREADS
        yield

    app = FastAPI(
        title="cotune",
        description="The queue of a cotune service: submit training jobs, look at them, hold and cancel them.",
        version=__version__,
        openapi_url="/api/v1/openapi.json",
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
        redirect_slashes=False,
        dependencies=[Depends(_known_keys)],
    )
    app.state.tokens = tokens
    access = QueueAccess(queue, tuple(root.resolve() for root in roots))
    _errors(app)
    _page(app)
    _looking(app, access)
    _changing(app, access)
    _following(app, access)
    return trusted(RequestBounds(app), host)


def _known_keys(request: Request) -> None:
    """Refuse a parameter that is not there: whoever misspells one would wait for what never comes."""
    route = request.scope["route"]
    if not isinstance(route, APIRoute) or not route.include_in_schema:
        return
    known = [field.alias for field in route.dependant.query_params]
    unknown = next((name for name in request.query_params if name not in known), None)
    if unknown is not None:
        there = f"there are {', '.join(known)}{suggestion(unknown, known)}" if known else "there are none"
        raise UnknownKey(f"no parameter {printable(unknown)[:80]!r} of {route.path}; {there}")


_BEARER = HTTPBearer(auto_error=False, description="A token of `cotune token`.")


async def _caller(
    request: Request,
    needed: SecurityScopes,
    given: Annotated[HTTPAuthorizationCredentials | None, Depends(_BEARER)],
) -> Caller:
    """Return whose token a request brings, if it has the scopes that the route needs."""
    tokens: TokenFile = request.app.state.tokens
    caller = tokens.caller(given.credentials) if given is not None else None
    if caller is None:
        words = "the token is missing or wrong: Authorization: Bearer TOKEN"
        raise HTTPException(401, words, {"www-authenticate": "Bearer"})
    for scope in needed.scopes:
        require(caller, AccessScope(scope))
    return caller


Reader = Annotated[Caller, Security(_caller, scopes=[AccessScope.READ])]
Submitter = Annotated[Caller, Security(_caller, scopes=[AccessScope.SUBMIT])]
Admin = Annotated[Caller, Security(_caller, scopes=[AccessScope.ADMIN])]


def _errors(app: FastAPI) -> None:
    @app.exception_handler(CotuneError)
    async def known(_: Request, error: CotuneError) -> Response:
        status = next((_STATUS[kind] for kind in type(error).__mro__ if kind in _STATUS), 503)
        return JSONResponse({"error": str(error), "exit_code": error.exit_code}, status)

    @app.exception_handler(HTTPException)
    async def nowhere(_: Request, error: HTTPException) -> Response:
        return JSONResponse({"error": str(error.detail), "exit_code": 2}, error.status_code, error.headers)

    @app.exception_handler(Exception)
    async def unforeseen(_: Request, error: Exception) -> Response:
        words = f"the service cannot answer this ({type(error).__name__}); its log says more"
        return JSONResponse({"error": words, "exit_code": 1}, 500)

    @app.exception_handler(RequestValidationError)
    async def refused(_: Request, error: RequestValidationError) -> Response:
        slips = [f"{'.'.join(map(str, slip['loc'][1:]))}: {slip['msg']}" for slip in error.errors()[:5]]
        return JSONResponse({"error": "; ".join(slips).encode("utf-8", "replace").decode(), "exit_code": 2}, 422)


def _looking(app: FastAPI, access: QueueAccess) -> None:
    @app.get("/api/v1/health", tags=["service"])
    def health() -> Response:
        """Say that the service answers; needs no token."""
        access.queue.last_event()
        return _answer("health", {"ok": True})

    @app.get("/api/v1/service", tags=["service"])
    def service(caller: Reader) -> Response:
        """Say who works the queue off, how many jobs there are of each state, and what your token may do."""
        return _answer("service", access.service(caller))

    @app.get("/api/v1/occupancy", tags=["service"])
    def occupancy(caller: Reader, seconds: Annotated[float, Query(ge=60, le=30 * 86_400)] = 3600.0) -> Response:
        """Return how many units were held over the last seconds, by type of device, over all teams."""
        return _answer("occupancy", access.occupancy(caller, seconds))

    @app.get("/api/v1/jobs", tags=["jobs"])
    def jobs(
        caller: Reader,
        state: Annotated[list[State] | None, Query()] = None,
        team: Annotated[str | None, Query(max_length=200)] = None,
        last: Annotated[int, Query(ge=1, le=10_000)] = 1000,
    ) -> Response:
        """List the newest jobs in the order they were submitted, as `cotune queue --json` does."""
        return _answer("queue", access.listed(caller, state, team, last))

    @app.get("/api/v1/jobs/{id}", tags=["jobs"])
    def status(caller: Reader, id: JobId) -> Response:
        """Return all that is known of a job, as `cotune status --json` does."""
        return _answer("status", access.status(caller, id))

    @app.get("/api/v1/jobs/{id}/why", tags=["jobs"])
    def why(caller: Reader, id: JobId) -> Response:
        """Return why a job stands where it does, as `cotune why --json` does."""
        return _answer("why", access.why(caller, id))

    @app.get("/api/v1/jobs/{id}/logs", tags=["jobs"])
    def logs(
        caller: Reader,
        id: JobId,
        rank: Annotated[int, Query(ge=0, le=1_000_000)] = 0,
        last: Annotated[int, Query(ge=0, le=10_000)] = 1000,
    ) -> Response:
        """Return the events of a job, and the last lines of its measuring and of a worker, as `cotune logs --json`."""
        return _answer("logs", access.logs(caller, id, rank, last))

    @app.get("/api/v1/rules", tags=["service"])
    def rules(caller: Reader) -> Response:
        """Return the policy and the teams' quotas, as `cotune rules --json` does."""
        return _answer("rules", access.rules(caller))


def _changing(app: FastAPI, access: QueueAccess) -> None:
    @app.post("/api/v1/jobs", tags=["jobs"], status_code=201)
    def submit(caller: Submitter, new: NewJob) -> Response:
        """Submit a job, as `cotune submit --json` does; its deadline counts from now."""
        return _answer("submit", access.submit(caller, new), 201)

    @app.post("/api/v1/dry-run", tags=["jobs"])
    def dry_run(caller: Submitter, new: NewJob) -> Response:
        """Return when a job would start and end, as `cotune submit --dry-run --json` does; nothing is submitted."""
        return _answer("submit.dry_run", access.foresee(caller, new))

    @app.patch("/api/v1/rules", tags=["service"])
    def change_rules(caller: Admin, change: NewRules) -> Response:
        """Change the policy or quotas of the service while it runs, as `cotune rules` does."""
        return _answer("rules", access.change_rules(caller, change.policy, change.model_dump(exclude_unset=True)))

    @app.patch("/api/v1/jobs/{id}", tags=["jobs"])
    def prioritise(caller: Admin, id: JobId, change: NewPriority) -> Response:
        """Give a job another priority; higher goes first."""
        found = access.ask(caller, id, lambda id, by: access.queue.prioritise(id, change.priority, by))
        return _answer("prioritise", found)

    for name in ("cancel", "hold", "release"):
        _asking(app, access, name)


def _asking(app: FastAPI, access: QueueAccess, name: str) -> None:
    def asked(caller: Submitter, id: JobId) -> Response:
        return _answer(name, access.ask(caller, id, getattr(access.queue, name)))

    path = f"/api/v1/jobs/{{id}}/{name}"
    words = f"Do what `cotune {name}` does; to do it twice changes nothing."
    app.post(path, name=name, tags=["jobs"], description=words)(asked)


def _following(app: FastAPI, access: QueueAccess) -> None:
    streams = 0

    @app.get("/api/v1/jobs/{id}/wait", tags=["jobs"])
    async def wait(caller: Reader, id: JobId, seconds: Annotated[float, Query(ge=0, le=60)] = 30.0) -> Response:
        """Answer when a job has ended, or with what it is after some seconds."""
        until = time.monotonic() + seconds
        while not (await run_sync(access.job, caller, id)).is_final and time.monotonic() < until:
            await asyncio.sleep(min(_LOOK, max(until - time.monotonic(), 0.0)))
        return _answer("wait", await run_sync(access.status, caller, id))

    async def one_of_few() -> AsyncIterator[None]:
        nonlocal streams
        if streams >= MOST_STREAMS:
            raise HTTPException(503, f"{MOST_STREAMS} follow already; ask for /api/v1/jobs instead")
        streams += 1
        try:
            yield
        finally:
            streams -= 1

    @app.get("/api/v1/events", tags=["events"], dependencies=[Depends(one_of_few)], response_class=EventSourceResponse)
    async def events(
        request: Request,
        caller: Reader,
        after: Annotated[int | None, Query(ge=0, le=2**53)] = None,
        seconds: Annotated[float | None, Query(ge=0, le=86_400)] = None,
    ) -> AsyncIterator[ServerSentEvent]:
        """Stream what happens to jobs (server-sent events) after an event: those to come if none is named.

        A client that comes again names the last one it had by `Last-Event-ID`, and misses nothing. `seconds` ends it.
        """
        until = math.inf if seconds is None else time.monotonic() + seconds
        seen = request.headers.get("last-event-id", "")
        begin = int(seen) if seen.isdecimal() and len(seen) < 16 else after
        last = await run_sync(access.queue.last_event) if begin is None else begin
        yield ServerSentEvent(retry=1000)
        while True:
            last, found = await run_sync(access.events, caller, last, _MOST_EVENTS)
            for event in found:
                yield ServerSentEvent(raw_data=as_json(event).decode(), event="job", id=str(event["number"]))
            if time.monotonic() >= until:
                return
            await asyncio.sleep(_LOOK)


def _answer(name: str, document: dict[str, Any], status: int = 200) -> Response:
    body = as_json({"schema": f"cotune.{name}", "version": 1, **document})
    return Response(body, status, {"cache-control": "no-store"}, "application/json")


def _page(app: FastAPI) -> None:
    """Serve the page of the service: files without anybody's data, which ask the API with the token typed into them."""

    @app.get("/", include_in_schema=False)
    def index() -> Response:
        return file_response("queue.html", _content("queue.html"))

    @app.get("/assets/{name}", include_in_schema=False)
    def assets(name: str) -> Response:
        return file_response(name, _content(name))


@cache
def _content(name: str) -> bytes | None:
    if name in _SHARED:
        return page_file(name)
    return resources.files("cotune.cluster.api").joinpath("assets", name).read_bytes() if name in _OWN else None
