"""The page of a service in a real Chromium: it shows the queue and why jobs wait, and does what the token allows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from browsers import opened, overflow
from cotune.cluster.api.listening import answering
from cotune.cluster.api.tokens import AccessScope, TokenFile, add
from cotune.cluster.service.cluster_in_use import ClusterInUse
from cotune.cluster.service.leadership import Leadership
from cotune.cluster.service.queue import Queue
from cotune.cluster.service.snapshot import JobSnapshot
from cotune.store import open_store, rows
from cotune.types import Cluster, Device

pytestmark = pytest.mark.xdist_group("browser")
TEXT = "name: digits\nrun: python train.py {batch_size} {epochs}\nexamples: 1440\nepochs: 2\n"
CLUSTER = Cluster((Device("fast", 4, per_node=2), Device("slow", 2, per_node=2)))


@dataclass
class Page:
    address: str
    queue: Queue
    tokens: dict[str, str]
    folder: Path


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Page]:
    file, store = tmp_path / "tokens", str(tmp_path / "store.db")
    tokens = {
        "eve": add(file, "eve", AccessScope.READ, "vision"),
        "ada": add(file, "ada", AccessScope.SUBMIT, "vision"),
        "root": add(file, "root", AccessScope.ADMIN, ""),
    }
    (tmp_path / "cotune.yaml").write_text(TEXT)
    (tmp_path / "train.py").write_text("pass\n")
    about = {"host": "here", "policy": "joint", "version": "1", "slots": 6}
    with open_store(store) as opened_store:
        queue = Queue(opened_store)
        id = queue.submit(JobSnapshot.written(TEXT, tmp_path, "cotune.yaml", {"team": "vision"})[0])
        queue.submit(JobSnapshot.written(TEXT, tmp_path, "cotune.yaml", {"team": "speech", "name": "secret"})[0])
        occupancy = ClusterInUse(CLUSTER).document([], [(id, "fast", 2)])
        leadership = Leadership(opened_store, {**about, "cluster": rows.of_record(CLUSTER), "occupancy": occupancy})
        assert leadership.take()
        with answering("0", file, (tmp_path,), store) as address:
            yield Page(address.removesuffix("api/v1/"), queue, tokens, tmp_path)
        leadership.release()


def enter(page: Any, served: Page, who: str) -> None:
    page.goto(served.address)
    page.get_by_label("Token").fill(served.tokens[who])
    page.get_by_role("button", name="Open the queue").click()
    page.wait_for_selector("main[data-shown=queue]")


@pytest.mark.parametrize(("width", "dark"), [(390, True), (1280, False)])
def test_a_reader_sees_the_queue_the_cluster_and_why_and_may_change_nothing(
    browser: Any, served: Page, width: int, dark: bool
) -> None:
    with opened(browser, width=width, dark=dark) as watched:
        page = watched.page
        enter(page, served, "eve")
        page.get_by_role("button", name="why digits").click()
        page.wait_for_selector("#why")
        shown = page.locator("main").inner_text()
        for words in ("digits is queued", "fast: 2 of 4 held, 2 to measure digits", "slow: 0 of 2 held", "node 1"):
            assert words in shown
        assert "secret" not in shown, "another team's job"
        assert page.locator("svg.use").count() == 2
        assert page.get_by_role("button", name="cancel digits").count() == 0
        assert page.get_by_text("Submit a job").count() == 0
        assert overflow(page) <= 0
        assert all(url.startswith((served.address, "data:")) for url in watched.asked)


def test_a_submitter_hands_in_holds_and_cancels_jobs_of_its_team(browser: Any, served: Page) -> None:
    with opened(browser) as watched:
        page = watched.page
        page.on("dialog", lambda dialog: dialog.accept())
        enter(page, served, "ada")
        page.get_by_text("Submit a job").click()
        page.get_by_label("Path of the job file").fill(str(served.folder))
        page.get_by_label("Deadline").fill("2h")
        page.get_by_role("button", name="Submit", exact=True).click()
        page.wait_for_selector("#handed:has-text('digits was submitted as')")
        first, _, new = served.queue.jobs()
        assert (new.team, new.deadline, new.file.user) == ("vision", 7200.0, "ada")
        page.locator(f"#hold-{first.id}").click()
        page.wait_for_selector(f"#release-{first.id}")
        page.locator(f"#cancel-{new.id}").click()
        page.wait_for_selector(f"#cancel-{new.id}", state="detached")
        assert [job.state.value for job in served.queue.jobs()] == ["queued", "queued", "cancelled"]
        assert page.get_by_label("priority of digits").count() == 0, "which is for administrators"


def test_an_administrator_gives_another_priority_and_a_wrong_token_is_told(browser: Any, served: Page) -> None:
    with opened(browser) as watched:
        page = watched.page
        enter(page, served, "root")
        assert "secret" in page.locator("main").inner_text()
        field = page.get_by_label("priority of digits")
        field.fill("7")
        field.press("Tab")
        page.wait_for_selector("#said:has-text('priority of digits is 7')", state="attached")
        assert served.queue.jobs()[0].priority == 7
        page.get_by_role("button", name="Forget the token").click()
        page.get_by_label("Token").fill("nobody's")
        page.get_by_role("button", name="Open the queue").click()
        page.wait_for_selector("text=That token is not known here.")
        watched.complaints.clear()  # the browser notes the refusal


def test_replies_that_come_after_the_token_was_forgotten_are_not_shown(browser: Any, served: Page) -> None:
    with opened(browser) as watched:
        page = watched.page
        late: list[Any] = []

        def hold_back(route: Any) -> None:
            late.append(route)

        enter(page, served, "root")
        page.route("**/api/v1/occupancy", hold_back)
        with page.expect_request("**/api/v1/occupancy"):
            pass
        page.get_by_role("button", name="Forget the token").click()
        with page.expect_response("**/api/v1/occupancy"):
            late.pop(0).continue_()
        page.evaluate("() => new Promise(requestAnimationFrame)")
        assert page.locator("main").get_attribute("data-shown") == "token"
        assert "secret" not in page.locator("main").inner_text()


def test_the_files_of_the_page_hold_no_data_and_need_no_token(served: Page) -> None:
    import urllib.error
    import urllib.request

    with urllib.request.urlopen(served.address) as reply:
        assert "default-src 'none'" in reply.headers["content-security-policy"]
    for path in ("assets/tokens", "assets/..%2ftokens.py", "api/v1/occupancy"):
        with pytest.raises(urllib.error.HTTPError, match=r"401|404"):
            urllib.request.urlopen(served.address + path)
    assert TokenFile(served.folder / "tokens").caller(served.tokens["eve"]) is not None
