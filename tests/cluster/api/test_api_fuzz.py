"""Whatever is asked of the HTTP API, as its OpenAPI document says or not, the answer is no fault of the server's."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.importorskip("fastapi", reason="needs cotune[dashboard] (pip install fastapi uvicorn)")

from cluster.api.requests_to_app import Client
from cotune.cluster.api import tokens
from cotune.cluster.api.app import create
from cotune.cluster.service.queue import Queue
from cotune.cluster.service.snapshot import JobSnapshot
from cotune.store import open_store

TEXT = "name: digits\nrun: python train.py {batch_size} {epochs}\nexamples: 1440\nepochs: 2\n"
PLAIN = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20)
VALUES = st.recursive(PLAIN, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner))
LIKELY = VALUES | st.sampled_from(
    [TEXT, ".", "..", "2h", "-1", "accuracy=0.97", "las", 10**20, "\x00", "\ud800", {"": {}}]
)


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    with open_store(str(tmp_path / "store.db")) as store:
        queue = Queue(store)
        queue.submit(JobSnapshot.written(TEXT, tmp_path, "cotune.yaml")[0])
        token = tokens.add(tmp_path / "tokens", "ada", "admin", "")
        yield Client(create(queue, tokens.TokenFile(tmp_path / "tokens"), (tmp_path,)), token)


def properties(spec: dict[str, Any], operation: dict[str, Any]) -> list[str]:
    """Return the names that the body of an operation may have."""
    content = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
    return list(spec["components"]["schemas"].get(content.get("$ref", "").rpartition("/")[2], {}).get("properties", {}))


@settings(max_examples=120, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_request_is_answered_with_a_fault_of_the_server(client: Client, data: st.DataObject) -> None:
    spec = client.get("/api/v1/openapi.json").json
    path, method = data.draw(
        st.sampled_from([(path, method) for path, ways in spec["paths"].items() for method in ways])
    )
    operation = spec["paths"][path][method]
    known = client.get("/api/v1/jobs").json["jobs"][0]["id"]
    id = data.draw(st.just(known) | st.text(min_size=1, max_size=20))
    query = {
        one["name"]: data.draw(LIKELY)
        for one in operation.get("parameters", ())
        if one["in"] == "query" and data.draw(st.booleans())
    }
    if path.endswith(("/wait", "/events")):
        query["seconds"] = 0
    words = "&".join(f"{name}={quote(str(value), errors='replace')}" for name, value in query.items())
    names = properties(spec, operation)
    body = data.draw(st.dictionaries(st.sampled_from(names), LIKELY) | VALUES) if names else None
    raw = None if body is None else json.dumps(body).encode()
    place = path.replace("{id}", quote(id, safe="", errors="replace"))
    answer = client.ask(method.upper(), f"{place}?{words}", body=raw, content_type="application/json")
    assert answer.status < 500, answer.body
