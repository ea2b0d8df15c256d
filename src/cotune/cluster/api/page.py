"""The page of a service: files that hold nobody's data, and ask the API with the token that is typed into them."""

from __future__ import annotations

from functools import cache
from importlib import resources

from fastapi import FastAPI
from fastapi.responses import Response

from cotune.dashboard.app import file_response, page_file

_OWN = ("queue.html", "queue.css", "queue.js")
_SHARED = ("base.css", "dashboard.css", "dom.js", "icon.svg")
PATHS = frozenset({"/", *(f"/assets/{name}" for name in (*_OWN, *_SHARED))})


def add_page(app: FastAPI) -> None:
    """Serve the page and its files."""

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
    if name not in _OWN:
        return None
    return resources.files("cotune.cluster.api").joinpath("assets", name).read_bytes()
