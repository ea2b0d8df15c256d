"""In front of the API: what is too large, asked in another site's name or brings no token goes no further.

A page of another site cannot make a browser send JSON here without asking first, which is answered to nobody, nor name
this server as its host. Bodies are read whole before anything else is done with them, within a size and a time.
"""

from __future__ import annotations

import asyncio
import traceback
from dataclasses import dataclass

from starlette.datastructures import Headers
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cotune.cluster.api.page import PATHS
from cotune.cluster.api.tokens import EVERYBODY_HERE, Caller, TokenFile
from cotune.cluster.service.daemon import log
from cotune.dashboard.access import host_of, loopback, with_headers

OPEN_PATHS = frozenset({"/api/v1/openapi.json", "/api/v1/health"})  # that say nothing of anybody's jobs
_WRITES = frozenset({"POST", "PUT", "PATCH", "DELETE"})


@dataclass(frozen=True)
class RequestLimits:
    """What one request may take."""

    body_bytes: int = 3 << 20  # a job file has at most 1 MiB, which JSON may write at twice its size
    body_seconds: float = 10.0


class _Unacceptable(Exception):
    def __init__(self, status: int, words: str) -> None:
        super().__init__(words)
        self.status = status


@dataclass(frozen=True)
class AccessMiddleware:
    """Lets requests through to the API, each with its caller, or does not."""

    app: ASGIApp
    tokens: TokenFile | None  # None: everybody on this machine is let in
    local: bool = True  # whether only this machine is listened to
    limits: RequestLimits = RequestLimits()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1000})
            return
        try:
            caller = self._caller(scope)
            body = await self._body(scope, receive)
        except _Unacceptable as refused:
            await _refusal(refused)(scope, receive, with_headers(send))
            return
        if caller is not None:
            scope.setdefault("state", {})["caller"] = caller
        try:
            await self.app(scope, _replayed(body, receive), with_headers(send))
        except Exception as error:  # it was answered; whatever it is, one request's fault is nobody else's
            asked, words = f"{scope['method']} {scope['path']}", f"{type(error).__name__}: {error}"
            log("trouble", request=asked, words=words, trace=traceback.format_exc())

    def _caller(self, scope: Scope) -> Caller | None:
        headers = Headers(scope=scope)
        if self.local and not loopback(host_of(headers.get("host", ""))):
            raise _Unacceptable(403, "this service is for this machine alone")
        if "\0" in scope["path"] or b"%00" in scope["query_string"]:  # which no database takes
            raise _Unacceptable(400, "an address has no NUL in it")
        if scope["path"] in OPEN_PATHS or (scope["method"] in ("GET", "HEAD") and scope["path"] in PATHS):
            return None
        if self.tokens is None:
            return EVERYBODY_HERE
        scheme, _, given = headers.get("authorization", "").partition(" ")
        caller = self.tokens.caller(given.strip()) if scheme.lower() == "bearer" else None
        if caller is None:
            raise _Unacceptable(401, "the token is missing or wrong: Authorization: Bearer TOKEN")
        return caller

    async def _body(self, scope: Scope, receive: Receive) -> bytes:
        headers, most = Headers(scope=scope), self.limits.body_bytes
        length = headers.get("content-length", "0")
        if length.isdecimal() and int(length) > most:
            raise _Unacceptable(413, f"a request has at most {most} bytes")
        body = bytearray()
        try:
            async with asyncio.timeout(self.limits.body_seconds):
                while True:
                    message: Message = await receive()
                    body += message.get("body", b"")
                    if len(body) > most:
                        raise _Unacceptable(413, f"a request has at most {most} bytes")
                    if not message.get("more_body"):
                        break
        except TimeoutError:
            raise _Unacceptable(408, f"no whole request within {self.limits.body_seconds:g} s") from None
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if scope["method"] in _WRITES and body and kind != "application/json":
            raise _Unacceptable(415, "a request is JSON: Content-Type: application/json")
        if scope["method"] in _WRITES and "sec-fetch-site" in headers and headers["sec-fetch-site"] != "same-origin":
            raise _Unacceptable(403, "pages of other sites may not change anything")
        return bytes(body)


def _refusal(refused: _Unacceptable) -> Response:
    extra = {"www-authenticate": "Bearer"} if refused.status == 401 else {}
    return JSONResponse({"error": str(refused)}, refused.status, extra)


def _replayed(body: bytes, receive: Receive) -> Receive:
    """Return what hands out a body that was read, and then what comes after it."""
    replayed = False

    async def again() -> Message:
        nonlocal replayed
        if replayed:
            return await receive()
        replayed = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again
