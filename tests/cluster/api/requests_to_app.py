"""Asking an app without a socket: one request in, status, headers and body out."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlsplit


@dataclass(frozen=True)
class Answer:
    """What came back."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Client:
    """Somebody who asks an app, with a token or without."""

    app: Any
    token: str | None = None
    host: str = "127.0.0.1:8791"

    def ask(self, method: str, path: str, document: Any = None, body: bytes | None = None, **headers: str) -> Answer:
        given = {"host": self.host, **{name.replace("_", "-"): value for name, value in headers.items()}}
        if self.token is not None:
            given["authorization"] = f"Bearer {self.token}"
        if document is not None:
            body = json.dumps(document).encode()
            given.setdefault("content-type", "application/json")
        return asyncio.run(self._asked(method, path, body or b"", given))

    def get(self, path: str, **headers: str) -> Answer:
        return self.ask("GET", path, **headers)

    def post(self, path: str, document: Any = None, **headers: str) -> Answer:
        return self.ask("POST", path, document, **headers)

    async def _asked(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> Answer:
        place = urlsplit(quote(path, safe="/?&=%:,+"))
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": _decoded(place.path),
            "raw_path": place.path.encode(),
            "query_string": place.query.encode(),
            "headers": [(name.lower().encode(), value.encode("latin-1", "replace")) for name, value in headers.items()],
            "server": ("127.0.0.1", 8791),
            "client": ("127.0.0.1", 50000),
        }
        parts: list[bytes] = []
        started: dict[str, Any] = {}
        told_whole = False

        async def receive() -> dict[str, Any]:
            nonlocal told_whole
            if told_whole:
                await asyncio.Event().wait()  # whoever asks stays to the end
            told_whole = True
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: dict[str, Any]) -> None:
            if message["type"] == "http.response.start":
                started.update(message)
            else:
                parts.append(message.get("body", b""))

        await self.app(scope, receive, send)
        told = {name.decode(): value.decode() for name, value in started["headers"]}
        return Answer(int(started["status"]), told, b"".join(parts))


def _decoded(path: str) -> str:
    from urllib.parse import unquote

    return unquote(path)
