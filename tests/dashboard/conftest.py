"""A dashboard as a user starts it, on a store with something in it, and a browser to look with."""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from cotune.store import open_store
from dashboard.stocked import placed, stock

pytest.importorskip("fastapi", reason="needs cotune[dashboard] (pip install fastapi uvicorn)")
pytest.importorskip("uvicorn", reason="needs cotune[dashboard] (pip install fastapi uvicorn)")


@dataclass(frozen=True)
class Served:
    """A running dashboard."""

    address: str
    store: Path
    plan: Any = None
    placement: str = ""

    @property
    def base(self) -> str:
        """Return the address without its token."""
        return self.address.partition("?")[0]

    def get(self, path: str, method: str = "GET", body: str | None = None, **headers: str) -> tuple[int, str, Any]:
        """Return status, text and headers of an answer."""
        place = urlsplit(self.address)
        connection = http.client.HTTPConnection(str(place.hostname), place.port, timeout=60)
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        if (token := parse_qs(place.query).get("token")) and "Authorization" not in given:
            given["Authorization"] = f"Bearer {token[0]}"
        connection.request(method, path, body=body, headers=given)
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return answer.status, text, answer.headers

    def json(self, path: str, **headers: str) -> Any:
        status, text, _ = self.get(path, **headers)
        assert status == 200, text
        return json.loads(text)


@contextmanager
def serving(store: Path, *words: str) -> Iterator[str]:
    """Run `cotune dashboard` as a program of its own and yield its address."""
    call = [sys.executable, "-m", "cotune", "dashboard", "--store", str(store), "--port", "0", "--no-open", "--json"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COTUNE")}
    process = subprocess.Popen([*call, *words], stdout=subprocess.PIPE, text=True, env=environment, cwd=store.parent)
    try:
        assert process.stdout is not None
        yield json.loads(process.stdout.readline())["address"]
    finally:
        process.terminate()
        process.communicate(timeout=60)


@pytest.fixture(scope="module")
def serve() -> Iterator[Callable[..., str]]:
    with ExitStack() as stack:
        yield lambda store, *words: stack.enter_context(serving(store, *words))


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, serve: Callable[..., str]) -> Served:
    path = tmp_path_factory.mktemp("served") / "store.db"
    with open_store(str(path)) as store:
        plan = stock(store)
        placement = placed(store)
    return Served(serve(path), path, plan, placement)
