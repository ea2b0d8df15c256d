"""The queue over HTTP: the same words as the verbs, for whoever may."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest

pytest.importorskip("fastapi", reason="needs cotune[dashboard] (pip install fastapi uvicorn)")

from cluster.api.requests_to_app import Client
from cotune.cluster.api import tokens as access
from cotune.cluster.api.app import create
from cotune.cluster.api.listening import answering
from cotune.cluster.api.middleware import RequestBounds
from cotune.cluster.service.queue import Queue
from cotune.cluster.service.snapshot import MOST_BYTES
from cotune.errors import InvalidFile, NotFound, UsageError
from cotune.store import open_store

TEXT = "name: digits\nrun: python train.py {batch_size} {epochs}\nexamples: 1440\nepochs: 2\n"


@dataclass(frozen=True)
class Service:
    """An API that was opened to others, with a token of each kind."""

    queue: Queue
    root: Path
    tokens: Path

    def caller(self, scope: str, team: str = "") -> Client:
        name = f"{scope}-{team}"
        token = access.add(self.tokens, name, scope, team)
        return Client(self.app, token)

    @property
    def app(self) -> object:
        return create(self.queue, access.TokenFile(self.tokens), (self.root,), "0.0.0.0")

    @property
    def here(self) -> Client:
        app = create(self.queue, access.TokenFile(self.tokens), (self.root,))
        return Client(app, self.caller("admin").token)


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    root = tmp_path / "jobs"
    root.mkdir()
    with open_store(str(tmp_path / "store.db")) as store:
        yield Service(Queue(store), root, tmp_path / "tokens")


def test_a_job_is_handed_in_looked_at_held_released_and_cancelled(service: Service) -> None:
    client = service.here
    made = client.post("/api/v1/jobs", {"text": TEXT, "deadline": "2h", "team": "vision", "priority": 5})
    assert made.status == 201
    id = made.json["job"]
    (listed,) = client.get("/api/v1/jobs").json["jobs"]
    assert (listed["id"], listed["state"], listed["deadline"], listed["team"]) == (id, "queued", 7200.0, "vision")
    assert client.get(f"/api/v1/jobs/{id}").json["job"]["folder"] == str(service.root)
    assert "no service runs" in client.get(f"/api/v1/jobs/{id}/why").json["words"]
    assert client.post(f"/api/v1/jobs/{id}/hold").json["job"]["held"] is True
    assert client.post(f"/api/v1/jobs/{id}/release").json["job"]["held"] is False
    assert client.ask("PATCH", f"/api/v1/jobs/{id}", {"priority": 7}).json["job"]["priority"] == 7
    for _ in range(2):
        assert client.post(f"/api/v1/jobs/{id}/cancel").json["job"]["state"] == "cancelled"
    assert client.post(f"/api/v1/jobs/{id}/hold").status == 409
    assert client.get(f"/api/v1/jobs/{id}/wait?seconds=60").json["job"]["state"] == "cancelled"
    assert client.get("/api/v1/service").json["counts"]["cancelled"] == 1


def test_events_are_streamed_from_where_a_client_left_off(service: Service) -> None:
    client = service.here
    id = client.post("/api/v1/jobs", {"text": TEXT}).json["job"]
    client.post(f"/api/v1/jobs/{id}/cancel")
    whole = client.get("/api/v1/events?after=0&seconds=0")
    assert whole.headers["content-type"].startswith("text/event-stream")
    told = [json.loads(line[6:]) for line in whole.body.decode().splitlines() if line.startswith("data: ")]
    assert [(event["job"], event["state"]) for event in told] == [(id, "queued"), (id, "cancelled")]
    again = client.get("/api/v1/events?seconds=0", last_event_id=str(told[0]["number"])).body.decode()
    assert again.count("data: ") == 1
    assert "cancelled" in again


def test_the_specification_is_published_and_names_every_route(service: Service) -> None:
    found = Client(service.app).get("/api/v1/openapi.json")
    assert found.status == 200
    paths = found.json["paths"]
    actions = {f"/api/v1/jobs/{{id}}{tail}" for tail in ("", "/why", "/wait", "/logs", "/cancel", "/hold", "/release")}
    others = {f"/api/v1/{name}" for name in ("jobs", "events", "service", "health", "rules", "dry-run", "occupancy")}
    assert actions | others == set(paths)


def test_without_a_token_nothing_is_told_or_done(service: Service) -> None:
    service.caller("admin")
    for client in (Client(service.app), Client(service.app, "wrong"), Client(service.app, "ünknown")):
        for method, path in (("GET", "/api/v1/jobs"), ("POST", "/api/v1/jobs"), ("GET", "/api/v1/events")):
            answer = client.ask(method, path)
            assert answer.status == 401
            assert answer.headers["www-authenticate"] == "Bearer"


def test_a_scope_holds_those_before_it_and_no_other(service: Service) -> None:
    read, submit, admin = (service.caller(scope) for scope in ("read", "submit", "admin"))
    assert read.post("/api/v1/jobs", {"text": TEXT}).status == 403
    id = submit.post("/api/v1/jobs", {"text": TEXT}).json["job"]
    assert read.get(f"/api/v1/jobs/{id}").status == 200
    assert read.post(f"/api/v1/jobs/{id}/cancel").status == 403
    assert submit.ask("PATCH", f"/api/v1/jobs/{id}", {"priority": 9}).status == 403
    assert admin.ask("PATCH", f"/api/v1/jobs/{id}", {"priority": 9}).status == 200
    assert submit.post(f"/api/v1/jobs/{id}/cancel").json["job"]["reason"] == "cancelled by submit-"


def test_another_teams_jobs_are_not_there(service: Service) -> None:
    vision, text = service.caller("submit", "vision"), service.caller("submit", "text")
    assert vision.post("/api/v1/jobs", {"text": TEXT, "team": "text"}).status == 403
    theirs = vision.post("/api/v1/jobs", {"text": TEXT}).json["job"]
    own = text.post("/api/v1/jobs", {"text": TEXT}).json["job"]
    assert service.queue.get(theirs).team == "vision"
    assert [job["id"] for job in text.get("/api/v1/jobs").json["jobs"]] == [own]
    assert text.get("/api/v1/jobs?team=vision").json["jobs"] == []
    for method, tail in (("GET", ""), ("GET", "/why"), ("GET", "/wait"), ("POST", "/cancel"), ("POST", "/hold")):
        assert text.ask(method, f"/api/v1/jobs/{theirs}{tail}").status == 404
    assert text.get("/api/v1/events?after=0&seconds=0").body.count(b"data: ") == 1
    (ahead,) = text.get(f"/api/v1/jobs/{own}/why").json["ahead"]
    assert (ahead["id"], ahead["name"]) == (None, "another team's job")


def test_rules_and_quotas_are_for_admins_of_all_teams(service: Service) -> None:
    admin, vision, submit = service.caller("admin"), service.caller("admin", "vision"), service.caller("submit", "text")
    change = {"policy": "las", "quotas": {"text": {"jobs": 1}, "vision": {"workers": 2}}}
    assert [one.ask("PATCH", "/api/v1/rules", change).status for one in (submit, vision, admin)] == [403, 403, 200]
    assert submit.get("/api/v1/rules").json["quotas"] == {"text": {"workers": None, "jobs": 1}}
    assert submit.post("/api/v1/jobs", {"text": TEXT}).status == 201
    full = submit.post("/api/v1/jobs", {"text": TEXT})
    assert (full.status, full.json["exit_code"]) == (429, 8)
    assert admin.ask("PATCH", "/api/v1/rules", {"policy": "nobody"}).status == 404
    assert admin.ask("PATCH", "/api/v1/rules", {"quotas": {"text": {"jobs": None}}}).json["policy"] == "las"
    assert submit.post("/api/v1/jobs", {"text": TEXT}).status == 201


def test_logs_are_for_those_who_see_the_job_and_end_with_what_came_last(service: Service, tmp_path: Path) -> None:
    vision, text = service.caller("submit", "vision"), service.caller("read", "text")
    id = vision.post("/api/v1/jobs", {"text": TEXT}).json["job"]
    (tmp_path / "profile.log").write_text("probe 1\n")
    (tmp_path / "rank-0.log").write_text("epoch 1\nepoch 2\n")
    service.queue.change(id, lambda one: one, "measured", folder=str(tmp_path))
    found = vision.get(f"/api/v1/jobs/{id}/logs?last=2").json
    assert found["lines"] == ["epoch 1", "epoch 2"]
    assert [event["words"] for event in found["events"]] == ["submitted", "measured"]
    assert text.get(f"/api/v1/jobs/{id}/logs").status == 404


def test_a_dry_run_hands_nothing_in(service: Service) -> None:
    refused = service.here.post("/api/v1/dry-run", {"text": TEXT})
    assert refused.status == 404
    assert "measure it first" in refused.json["error"]
    assert service.caller("read").post("/api/v1/dry-run", {"text": TEXT}).status == 403
    assert service.queue.last_event() == 0


def test_a_token_that_is_revoked_is_out_at_once(service: Service) -> None:
    client = service.caller("admin")
    assert client.get("/api/v1/jobs").status == 200
    access.revoke(service.tokens, "admin-")
    assert client.get("/api/v1/jobs").status == 401
    service.tokens.unlink()
    assert client.get("/api/v1/jobs").status == 401


def test_tokens_are_kept_as_hashes_in_a_file_for_its_owner(service: Service) -> None:
    client = service.caller("read", "vision")
    assert client.token
    assert client.token not in service.tokens.read_text()
    assert service.tokens.stat().st_mode & 0o077 == 0
    service.tokens.chmod(0o644)
    with pytest.raises(InvalidFile, match="chmod 600"):
        access.read(service.tokens)
    service.tokens.chmod(0o600)
    with pytest.raises(UsageError, match="there already"):
        access.add(service.tokens, "read-vision", "read", "")
    with pytest.raises(UsageError, match="no scope"):
        access.add(service.tokens, "other", "root", "")
    with pytest.raises(NotFound, match="no token"):
        access.revoke(service.tokens, "nobody")


def test_jobs_come_from_opened_folders_alone_whatever_links_say(service: Service) -> None:
    client, outside = service.here, service.root.parent / "outside"
    outside.mkdir()
    (outside / "cotune.yaml").write_text(TEXT)
    (service.root / "link").symlink_to(outside)
    (service.root / "cotune.yaml").symlink_to(outside / "cotune.yaml")
    for given in (
        {"path": str(outside)},
        {"path": "link"},
        {"path": "link/cotune.yaml"},
        {"path": "."},
        {"path": "../outside/cotune.yaml"},
        {"text": TEXT, "folder": "/etc"},
        {"text": TEXT, "folder": "link"},
    ):
        assert client.post("/api/v1/jobs", given).status == 403, given
    (service.root / "own").mkdir()
    (service.root / "own" / "cotune.yaml").write_text(TEXT)
    assert "no script 'train.py'" in client.post("/api/v1/jobs", {"path": "own"}).json["error"]
    (service.root / "own" / "train.py").touch()
    assert client.post("/api/v1/jobs", {"path": "own"}).status == 201
    assert len(client.get("/api/v1/jobs").json["jobs"]) == 1


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[1, 2]",
        "run:\n\t- x",
        "{" * 3000,
        "a: &a [x, x]\nb: [*a, *a]\n",
        "run: python x.py\nnonsense: 1\n",
        "name: only\n",
        "run: python x.py\nsearch: {workers: [a\tb]}\n",
        "!!python/object/apply:os.system ['true']",
        "\x07\x1b",
    ],
)
def test_what_is_no_job_file_is_refused_in_a_sentence(service: Service, text: str) -> None:
    answer = service.here.post("/api/v1/jobs", {"text": text})
    assert answer.status == 422
    assert answer.json["error"]
    assert service.queue.last_event() == 0


def test_requests_that_make_no_sense_are_refused(service: Service) -> None:
    client = service.here
    assert client.post("/api/v1/jobs", {}).status == 400
    assert client.post("/api/v1/jobs", {"text": TEXT, "path": "x"}).status == 400
    assert client.post("/api/v1/jobs", {"text": TEXT, "shell": True}).status == 422
    assert client.post("/api/v1/jobs", {"text": TEXT, "name": "\ud800"}).status == 422
    assert client.post("/api/v1/jobs", {"text": TEXT, "priority": 10**30}).status == 422
    assert client.ask("POST", "/api/v1/jobs", body=b"{", content_type="application/json").status == 422
    assert client.ask("POST", "/api/v1/jobs", body=b"{}", content_type="text/plain").status == 415
    assert client.get("/api/v1/jobs?state=nowhere").status == 422
    assert client.get("/api/v1/jobs/%00").status == 400
    assert client.get("/api/v1/jobs/none").status == 404
    assert client.get("/elsewhere").status == 404


def test_what_is_too_large_is_not_read(service: Service) -> None:
    client = service.here
    assert client.post("/api/v1/jobs", {"text": "#" * (MOST_BYTES + 1)}).status == 422
    assert client.post("/api/v1/jobs", {"text": "#" * RequestBounds.body_bytes}).status == 413


def test_pages_of_other_sites_cannot_use_it(service: Service) -> None:
    here = service.here
    assert Client(here.app, here.token, host="evil.example").get("/api/v1/jobs").status == 400
    assert here.post("/api/v1/jobs", {"text": TEXT}, sec_fetch_site="cross-site").status == 403
    assert "access-control-allow-origin" not in here.get("/api/v1/jobs", origin="https://evil.example").headers


def test_what_nobody_foresaw_is_answered_in_json_and_logged_in_one_line(
    service: Service, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise SystemError("AST constructor recursion depth mismatch")

    monkeypatch.setattr(Queue, "submit", broken)
    answer = service.here.post("/api/v1/jobs", {"text": TEXT})
    assert answer.status == 500
    assert answer.json["error"] == "the service cannot answer this (SystemError); its log says more"
    (line,) = capsys.readouterr().err.splitlines()
    told = json.loads(line)
    assert (told["event"], told["request"]) == ("trouble", "POST /api/v1/jobs")
    assert told["words"] == "SystemError: AST constructor recursion depth mismatch"
    assert "in broken" in told["trace"]


def test_parameters_that_are_not_there_are_refused_and_those_that_are_named(service: Service) -> None:
    client = service.here
    id = client.post("/api/v1/jobs", {"text": TEXT}).json["job"]
    refused = client.get(f"/api/v1/jobs/{id}/wait?timeout=1")
    assert refused.status == 422
    assert refused.json["error"] == "no parameter 'timeout' of /api/v1/jobs/{id}/wait; there are seconds"
    assert client.get("/api/v1/jobs?sate=queued").json["error"].endswith("did you mean 'state'?")
    assert client.post(f"/api/v1/jobs/{id}/hold?force=1").json["error"].endswith("there are none")
    assert client.get("/api/v1/jobs?state=queued&state=held").status == 422
    assert client.get("/?from=mail").status == 200


def test_every_refusal_has_the_same_key(service: Service) -> None:
    client, deep = service.here, b"[" * 100_000
    refused = [
        client.get("/api/v1/elsewhere"),
        client.ask("DELETE", "/api/v1/jobs"),
        client.ask("POST", "/api/v1/jobs", body=deep, content_type="application/json"),
    ]
    assert [answer.status for answer in refused] == [404, 405, 400]
    assert all(list(answer.json) == ["error", "exit_code"] for answer in refused)
    assert refused[1].headers["allow"]


def test_what_the_server_says_is_a_line_of_the_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    access.add(tmp_path / "tokens", "ada", "read", "")
    with answering("0", tmp_path / "tokens", (), str(tmp_path / "store.db")) as url:
        port = urlsplit(url).port
        with socket.create_connection(("127.0.0.1", port)) as asking:
            asking.sendall(b"\0\0\r\n\r\n")
            while asking.recv(1024):
                pass
    (line,) = capsys.readouterr().err.splitlines()
    assert json.loads(line) | {"at": ""} == {
        "at": "",
        "event": "http",
        "level": "warning",
        "words": "Invalid HTTP request received.",
    }


@pytest.mark.parametrize("name", ["", " ", "a\nb", "\x1b[2J"])
def test_a_token_needs_a_name_that_shows(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="a token has a name of letters that show"):
        access.add(tmp_path / "tokens", name, "read", "")
    assert not (tmp_path / "tokens").exists()
