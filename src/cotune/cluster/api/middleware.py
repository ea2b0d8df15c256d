"""In front of the API: what is too large, too slow or asked in another site's name goes no further.

A page of another site cannot make a browser send JSON here without asking first, which is refused, nor name this
server as its host (`dashboard.access.trusted`). Bodies are read whole before anything else is done with them, within a
size and a time.
"""

from __future__ import annotations

import asyncio
import traceback
from dataclasses import dataclass

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cotune.cluster.service.daemon import log
from cotune.dashboard.access import with_headers

_WRITES = frozenset({"POST", "PUT", "PATCH", "DELETE"})


class _Unacceptable(Exception):
    def __init__(self, status: int, words: str) -> None:
        super().__init__(words)
        self.status = status


@dataclass(frozen=True)
class RequestBounds:
    """Lets requests through to the API that are within bounds."""

    app: ASGIApp
    body_bytes: int = 3 << 20  # a job file has at most 1 MiB, which JSON may write at twice its size
    body_seconds: float = 10.0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1000})
            return
        try:
            body = await self._body(scope, receive)
        except _Unacceptable as refused:
            await JSONResponse({"error": str(refused)}, refused.status)(scope, receive, with_headers(send))
            return
        try:
            await self.app(scope, _replayed(body, receive), with_headers(send))
        except Exception as error:  # it was answered; a fault of one request must not end the others
            asked, words = f"{scope['method']} {scope['path']}", f"{type(error).__name__}: {error}"
            log("trouble", request=asked, words=words, trace=traceback.format_exc())

    async def _body(self, scope: Scope, receive: Receive) -> bytes:
        headers, most = Headers(scope=scope), self.body_bytes
        if "\0" in scope["path"] or b"%00" in scope["query_string"]:  # which no database takes
            raise _Unacceptable(400, "an address has no NUL in it")
        length = headers.get("content-length", "0")
        if length.isdecimal() and int(length) > most:
            raise _Unacceptable(413, f"a request has at most {most} bytes")
        body = bytearray()
        try:
            async with asyncio.timeout(self.body_seconds):
                while True:
                    message: Message = await receive()
                    body += message.get("body", b"")
                    if len(body) > most:
                        raise _Unacceptable(413, f"a request has at most {most} bytes")
                    if not message.get("more_body"):
                        break
        except TimeoutError:
            raise _Unacceptable(408, f"no whole request within {self.body_seconds:g} s") from None
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if scope["method"] in _WRITES and body and kind != "application/json":
            raise _Unacceptable(415, "a request is JSON: Content-Type: application/json")
        if scope["method"] in _WRITES and "sec-fetch-site" in headers and headers["sec-fetch-site"] != "same-origin":
            raise _Unacceptable(403, "pages of other sites may not change anything")
        return bytes(body)


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
