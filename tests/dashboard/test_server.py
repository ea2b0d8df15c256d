"""The dashboard's answers, and who gets them: a real server asked over the line."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from sqlalchemy import text

from cli import jobs
from cotune.dashboard.access import loopback
from cotune.store import open_store
from dashboard.conftest import Served
from dashboard.stocked import GOAL, SECRET

TOKEN = "correct-horse-battery"


def test_the_overview_has_jobs_plans_and_results(served: Served) -> None:
    told = served.json("/api/overview")
    (job,) = told["jobs"]
    assert (job["name"], job["samples"], job["failed"], job["planned"]) == ("resnet-cifar", 10, 1, 1)
    assert job["outcome"] in ("met", "missed"), "the run that ended is judged by its goal"
    assert {found["kind"] for found in told["results"]} == {"place"}
    assert told["plans"][0]["words"] == str(served.plan)


def test_no_secret_of_a_job_is_in_any_answer(served: Served) -> None:
    key = served.json("/api/overview")["jobs"][0]["key"]
    paths = ["/", "/api/overview", "/api/samples", f"/api/jobs/{key}", "/api/samples/probe0"]
    for path in [*paths, f"/api/results/{served.placement}"]:
        status, shown, _ = served.get(path)
        assert status == 200
        assert SECRET not in shown
        assert "API_KEY" not in shown


def test_another_goal_gets_another_plan_and_the_same_gets_the_same(served: Served) -> None:
    key = served.json("/api/overview")["jobs"][0]["key"]
    told = served.json(f"/api/jobs/{key}")
    assert told["question"]["priced"] == ["t4 at 0.35 USD an hour, as given"]
    asked = f"target={GOAL.target}&deadline={GOAL.deadline}"
    again = served.json(f"/api/jobs/{key}/what-if?{asked}")
    assert again["plan"] == told["answer"]["plan"]
    assert again["figure"] == told["answer"]["figure"]
    relaxed = served.json(f"/api/jobs/{key}/what-if?target={GOAL.target}&deadline=100000")
    assert relaxed["plan"]["forecast"]["cost"]["mid"] <= again["plan"]["forecast"]["cost"]["mid"]
    fast = served.json(f"/api/jobs/{key}/what-if?target={GOAL.target}&deadline=100000&prefer=fast")
    assert fast["plan"]["forecast"]["seconds"]["mid"] < relaxed["plan"]["forecast"]["seconds"]["mid"]
    dear = served.json(f"/api/jobs/{key}/what-if?{asked}&price.t4=3.5")
    assert dear["plan"]["forecast"]["cost"]["mid"] == pytest.approx(10 * again["plan"]["forecast"]["cost"]["mid"])
    plain = served.json(f"/api/jobs/{key}/what-if?{asked}&unpriced=true")
    assert plain["unit"] == "device-seconds"
    refused = served.json(f"/api/jobs/{key}/what-if?target={GOAL.target}&deadline=5")
    assert refused["plan"] is None
    assert refused["refusal"]["constraint"] == "deadline"
    assert refused["table"]["marked"] is None


@pytest.mark.parametrize(
    "query", ["target=nan", "deadline=-1", "deadline=0", "confidence=2", "prefer=best", "deadline=soon"]
)
def test_questions_that_make_no_sense_are_refused(served: Served, query: str) -> None:
    key = served.json("/api/overview")["jobs"][0]["key"]
    assert served.get(f"/api/jobs/{key}/what-if?{query}")[0] == 422


@pytest.mark.parametrize(
    "path",
    ["/api/jobs/nothing", "/api/results/nothing", "/api/samples/nothing", "/assets/nothing.js", "/assets/..%2fapp.py"],
)
def test_what_is_not_there_is_not_found(served: Served, path: str) -> None:
    assert served.get(path)[0] == 404


def test_pages_of_samples_are_bounded(served: Served) -> None:
    assert served.get("/api/samples?limit=100000")[0] == 422
    assert served.json("/api/samples?state=failed")["rows"][0]["id"] == "oom"
    assert served.json("/api/samples?limit=3&offset=9")["total"] == 10
    status, shown, _ = served.get("/api/samples/probe")
    assert status == 400
    assert "samples start with 'probe'" in json.loads(shown)["error"]


def test_a_page_may_load_nothing_from_elsewhere_and_be_framed_by_nobody(served: Served) -> None:
    _, _, headers = served.get("/")
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self';" in policy
    assert "frame-ancestors 'none'" in policy
    assert headers["x-content-type-options"] == "nosniff"


def test_another_site_cannot_reach_it_through_a_name_of_its_own(served: Served) -> None:
    assert served.get("/api/overview", Host="evil.example")[0] == 400
    for own in ("localhost:1", "LOCALHOST:1", "Localhost.", "127.0.0.1", "[::1]:80"):
        assert served.get("/api/overview", Host=own)[0] == 200


def test_another_user_of_this_machine_needs_the_token(served: Served) -> None:
    other = Served(served.base, served.store)
    assert other.get("/api/overview")[0] == 401
    assert other.get("/assets/app.js")[0] == 401
    assert len(urlsplit(served.address).query.removeprefix("token=")) >= 32
    status, _, headers = other.get(f"/?{urlsplit(served.address).query}")
    assert status == 303
    assert f"cotune_token_{urlsplit(served.address).port}=" in headers["set-cookie"], "ports of a host share cookies"


@pytest.mark.parametrize(
    ("path", "status"),
    [
        (f"/api/samples?offset={2**63}", 422),
        (f"/api/samples?offset={10**9}", 200),
        ("/api/samples?offset=1e3", 422),
        ("/api/samples/a%00b", 400),
        ("/api/samples?job=%00", 400),
        ("/api/results/%00", 400),
        ("/api/samples/%ff%fe", 404),
        ("/api/jobs/KEY/what-if?target=1e308&deadline=1e308", 200),
        ("/api/jobs/KEY/what-if?deadline=1e-308&price.t4=1e308", 200),
        ("/api/jobs/KEY/what-if?max_cost=1e-308&confidence=0.9999999", 200),
        ("/api/jobs/KEY/what-if?price.t4=nan&price.=1&price.none=3", 200),
    ],
)
def test_odd_questions_are_answered_or_refused_and_never_break_it(served: Served, path: str, status: int) -> None:
    key = served.json("/api/overview")["jobs"][0]["key"]
    assert served.get(path.replace("KEY", key))[0] == status


def test_two_hundred_questions_at_once_are_all_answered(served: Served) -> None:
    key = served.json("/api/overview")["jobs"][0]["key"]
    paths = ["/api/overview", "/api/samples", f"/api/jobs/{key}", "/api/samples/probe0"] * 50
    with ThreadPoolExecutor(len(paths)) as crowd:
        assert {status for status, _, _ in crowd.map(served.get, paths)} == {200}


def test_without_the_token_there_is_only_the_question_for_it(tmp_path: Path, serve: Callable[..., str]) -> None:
    path = tmp_path / "store.db"
    open_store(str(path)).close()
    address = serve(path, "--token", TOKEN)
    assert address.endswith(f"?token={TOKEN}")
    place = urlsplit(address)
    locked = Served(f"http://{place.netloc}/", path)
    for wrong in (
        {},
        {"Authorization": "Bearer wrong"},
        {"Authorization": f"Basic {TOKEN}"},
        {"Cookie": "cotune_token=x"},
    ):
        assert locked.get("/api/overview", **wrong)[0] == 401
    assert locked.get("/assets/app.js")[0] == 401
    status, shown, _ = locked.get("/")
    assert status == 401
    assert "asks for its token" in shown
    assert locked.get("/?token=wrong")[1].count("That token is wrong.") == 1
    assert locked.get("/login", "POST", "token=wrong")[0] == 401
    assert locked.get("/api/overview", Authorization=f"Bearer {TOKEN}")[0] == 200
    status, _, headers = locked.get("/login", "POST", f"token={TOKEN}")
    assert (status, headers["location"]) == (303, "/")
    assert "HttpOnly" in headers["set-cookie"]
    assert "SameSite=strict" in headers["set-cookie"]
    assert locked.get("/", Cookie=headers["set-cookie"].split(";")[0])[0] == 200


def test_beyond_this_machine_there_is_always_a_token(tmp_path: Path, serve: Callable[..., str]) -> None:
    path = tmp_path / "store.db"
    open_store(str(path)).close()
    address = serve(path, "--host", "0.0.0.0")
    token = urlsplit(address).query.removeprefix("token=")
    assert len(token) >= 32
    open_to_all = Served(address.replace("0.0.0.0", "127.0.0.1").partition("?")[0], path)
    assert open_to_all.get("/api/overview")[0] == 401
    assert open_to_all.get("/api/overview", Authorization=f"Bearer {token}")[0] == 200


def cotune(folder: Path, *words: object, code: int) -> str:
    done = jobs.cotune(folder, "dashboard", "--no-open", *map(str, words))
    assert done.code == code, done.err
    assert len(done.err.strip().splitlines()) == 1, done.err
    return done.err


def test_a_store_that_is_not_there_is_named_and_not_made(tmp_path: Path) -> None:
    assert "no store at" in cotune(tmp_path, "--store", tmp_path / "store.db", code=3)
    assert list(tmp_path.iterdir()) == []


def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    open_store(str(path)).close()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert f"cannot listen on 127.0.0.1 port {port}" in cotune(tmp_path, "--store", path, "--port", port, code=2)


def test_a_short_token_is_not_enough_for_others(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    open_store(str(path)).close()
    assert "at least 16 letters" in cotune(tmp_path, "--store", path, "--host", "0.0.0.0", "--token", "short", code=2)


def test_a_store_that_breaks_while_somebody_looks_is_told_in_one_line(
    tmp_path: Path, serve: Callable[..., str]
) -> None:
    path = tmp_path / "store.db"
    open_store(str(path)).close()
    broken = Served(serve(path), path)
    with open_store(str(path)) as store, store.writing() as connection:
        connection.execute(text("DROP TABLE evaluations"))
        connection.execute(text("DROP TABLE samples"))
    status, shown, _ = broken.get("/api/overview")
    assert status == 500
    assert "cannot use the store" in json.loads(shown)["error"]


@pytest.mark.parametrize(
    ("host", "local"), [("127.0.0.1", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("gpu-1", False)]
)
def test_this_machine_is_known_by_its_names(host: str, local: bool) -> None:
    assert loopback(host) is local
