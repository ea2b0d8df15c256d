"""Who may look: whoever has the token, from this machine alone unless it was opened to others.

A request is let in when it names this server as its host (another site's page cannot make a
browser do that) and, where there is a token, brings it: as `Authorization: Bearer`, or as the
cookie that the login page sets. Tokens are compared in constant time. Other users of this machine
do not have it: it is printed, and never on a command line.
"""

from __future__ import annotations

import hmac
import ipaddress
from dataclasses import dataclass, field
from importlib import resources
from typing import Any
from urllib.parse import parse_qs

from starlette.datastructures import Headers
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import cookie_parser
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

COOKIE = "cotune_token"
HERE = ("localhost", "localhost.", "127.0.0.1", "[::1]")  # names of this machine in a Host header
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "x-frame-options": "DENY",
}
_LOGIN = resources.files("cotune.dashboard").joinpath("assets", "login.html").read_text(encoding="utf-8")


def loopback(host: str) -> bool:
    """Return whether a host is this machine alone."""
    name = host.lower().rstrip(".")
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def trusted(app: ASGIApp, host: str) -> ASGIApp:
    """Return an app that is served at a host; one of this machine alone answers to no other name."""
    names = (*HERE, host) if loopback(host) else ("*",)
    return TrustedHostMiddleware(app, names, www_redirect=False)


@dataclass
class Guard:
    """Lets requests through to an app, or does not; adds the headers that keep a page to itself."""

    app: ASGIApp
    token: str | None
    _secret: bytes = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._secret = (self.token or "").encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        reply: ASGIApp
        if "\0" in scope["path"] or b"%00" in scope["query_string"]:  # which no database takes
            reply = PlainTextResponse("an address has no NUL in it\n", status_code=400)
        elif self.token is None or self._brings(headers, _cookie(scope)):
            reply = self.app
        else:
            reply = await self._ask(scope, receive)
        await reply(scope, receive, with_headers(send))

    def _right(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), self._secret)

    def _brings(self, headers: Headers, cookie: str) -> bool:
        scheme, _, bearer = headers.get("authorization", "").partition(" ")
        held = cookie_parser(headers.get("cookie", "")).get(cookie, "")
        return (scheme.lower() == "bearer" and self._right(bearer)) or self._right(held)

    async def _ask(self, scope: Scope, receive: Receive) -> Response:
        """Return the login page, or the way in for whoever brings the token."""
        query = parse_qs(scope["query_string"].decode("latin-1"))
        given = query.get("token", [""])[0]
        if scope["method"] == "POST" and scope["path"] == "/login":
            given = parse_qs((await _body(receive)).decode("utf-8", "replace")).get("token", [""])[0]
        if given and self._right(given):
            opened = RedirectResponse("/", status_code=303)
            opened.set_cookie(_cookie(scope), given, httponly=True, samesite="strict")
            return opened
        if scope["path"].startswith("/api/"):
            return PlainTextResponse("the token is missing or wrong\n", 401, {"www-authenticate": "Bearer"})
        words = "That token is wrong." if given else "This dashboard asks for its token."
        return HTMLResponse(_LOGIN.replace("WORDS", words), status_code=401)


def _cookie(scope: Scope) -> str:
    """Return the cookie's name, which has the port in it: a browser does not tell the ports of a host apart."""
    return f"{COOKIE}_{(scope.get('server') or ('', 0))[1]}"


async def _body(receive: Receive, most: int = 4096) -> bytes:
    body = b""
    while len(body) < most:
        message: Message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body"):
            break
    return body[:most]


def with_headers(send: Send) -> Send:
    """Return what sends an answer with the headers that keep a page to itself."""

    async def wrapped(message: Any) -> None:
        if message["type"] == "http.response.start":
            known = {name for name, _ in message["headers"]}
            extra = [(name.encode(), value.encode()) for name, value in HEADERS.items() if name.encode() not in known]
            message = message | {"headers": [*message["headers"], *extra]}
        await send(message)

    return wrapped
