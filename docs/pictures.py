"""The pictures of docs/report.md, docs/dashboard.md and docs/service.md, taken in Chromium.

    python docs/pictures.py STORE REPORT.html
    python docs/pictures.py                          # that of the service alone: it runs one, with small real jobs

STORE and REPORT are made by the commands in docs/dashboard.md and docs/report.md. The run of
the live picture is the store's own, shown half-way.
"""

from __future__ import annotations

import io
import json
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import sync_playwright

from cotune.cluster.api.tokens import AccessScope, add
from cotune.identity import timestamp
from cotune.store import open_store
from cotune.store.views import result_list
from cotune.types import Sample

IMAGES = Path(__file__).parent / "images"


def keep(picture: bytes, name: str) -> None:
    """Write a small PNG: these pages need few colours."""
    image = Image.open(io.BytesIO(picture)).convert("RGB").quantize(colors=256, dither=Image.Dither.NONE)
    image.save(IMAGES / f"{name}.png", optimize=True)
    print(f"{name}.png {(IMAGES / f'{name}.png').stat().st_size // 1024} KB")


def shot(page: Any, name: str, height: int | None = None) -> None:
    """Take a picture of what is on the screen, when everything is drawn."""
    page.wait_for_function(
        "() => [...document.querySelectorAll('.plot')].every(plot => plot.querySelector('.main-svg'))"
    )
    page.wait_for_timeout(400)
    if height is not None:
        page.set_viewport_size({"width": page.viewport_size["width"], "height": height})
    page.wait_for_timeout(400)
    keep(page.screenshot(), name)


def half(run: Sample) -> Sample:
    """Return a run as it was half-way."""
    points = run.curve[: len(run.curve) // 2]
    return replace(run, id="half-way", curve=points, epochs=points[-1].epoch, accuracy=points[-1].accuracy,
                   seconds=points[-1].seconds, ended=False, started=timestamp())  # fmt: skip


def dashboard(browser: Any, address: str, results: dict[str, str]) -> None:
    """Take the pictures of the dashboard."""
    page = browser.new_page(viewport={"width": 1280, "height": 900}, reduced_motion="reduce")
    page.goto(address)
    page.wait_for_selector("article.live")
    shot(page, "dashboard-overview")
    page.click("main td a")
    page.wait_for_selector("#answer .choice")
    page.locator(".if").evaluate("one => scrollTo(0, one.offsetTop - 60)")
    shot(page, "dashboard-what-if", 980)
    view = f"placements/{results['place']}"
    page.goto(f"{address}#/{view}")
    page.wait_for_selector(f"main[data-shown='{view}']")
    shot(page, "dashboard-placements", 860)
    page.close()
    dark = browser.new_page(viewport={"width": 400, "height": 860}, color_scheme="dark")
    dark.goto(address)
    dark.wait_for_selector("article.live")
    shot(dark, "dashboard-phone")
    dark.close()


def report(browser: Any, file: Path) -> None:
    """Take the pictures of the report."""
    for name, scheme in (("report", "light"), ("report-dark", "dark")):
        page = browser.new_page(viewport={"width": 1180, "height": 1300}, color_scheme=scheme)
        page.goto(file.resolve().as_uri())
        page.wait_for_selector("html[data-drawn]")
        if scheme == "dark":
            page.locator("text=Where scaling stops paying").first.evaluate("one => scrollTo(0, one.offsetTop - 40)")
            page.set_viewport_size({"width": 1180, "height": 900})
        shot(page, name)
        page.close()


LESSON = """\
import json, os, pathlib, sys, time
import cotune
kept = pathlib.Path(os.environ["COTUNE_CHECKPOINT"]) / "epoch.json"
first = json.loads(kept.read_text()) + 1 if os.environ.get("COTUNE_RESUME") == "1" and kept.exists() else 1
for epoch in range(first, int(sys.argv[2]) + 1):
    time.sleep(1.6 / int(os.environ["WORLD_SIZE"]) ** 0.8)
    kept.write_text(json.dumps(epoch))
    if cotune.report(epoch=epoch, accuracy=1 - 0.5 ** (epoch / 5)):
        break
"""
LESSON_FILE = """\
name: {name}
run: {python} train.py {{batch_size}} {{epochs}}
examples: 1000
epochs: {epochs}
search: {{workers: [1, 2, 4], batch_size: [50]}}
budget: {{profile: 10s}}
"""


@contextmanager
def busy_service(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield the address of a service that works off jobs of two teams, and a token that may do everything."""
    store, tokens = str(folder / "team.db"), folder / "tokens"
    call = [sys.executable, "-m", "cotune"]
    secret = add(tokens, "ada", AccessScope.ADMIN, "")
    for name, team, epochs, deadline in (
        ("lenet-digits", "vision", 30, "10m"),
        ("resnet-cifar", "vision", 60, "10m"),
        ("speech-small", "speech", 45, "15m"),
        ("detector", "vision", 50, "8m"),
        ("tagger", "speech", 25, "10m"),
    ):
        (folder / name).mkdir()
        (folder / name / "train.py").write_text(LESSON)
        text = LESSON_FILE.format(name=name, python=sys.executable, epochs=epochs)
        (folder / name / "cotune.yaml").write_text(text)
        goal = ["--team", team, "--deadline", deadline, "--store", store]
        subprocess.run([*call, "submit", name, *goal], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    words = ["serve", "--store", store, "--cluster", "2x2", "--listen", "0", "--tokens", str(tokens)]
    service = subprocess.Popen([*call, *words], stderr=subprocess.PIPE, text=True, cwd=folder)
    assert service.stderr is not None
    told = (json.loads(line) for line in service.stderr)
    address = next(one["address"] for one in told if one["event"] == "listening")
    reading = threading.Thread(target=lambda: [*told], daemon=True)  # so that it never waits for a reader
    reading.start()
    try:
        yield address.removesuffix("api/v1/"), secret
    finally:
        service.terminate()
        service.wait(60)


def service(browser: Any) -> None:
    """Take the picture of a service's page while some jobs run, one is measured and others wait."""
    with tempfile.TemporaryDirectory() as folder, busy_service(Path(folder)) as (address, token):
        page = browser.new_page(viewport={"width": 1280, "height": 1000}, reduced_motion="reduce")
        page.goto(address)
        page.get_by_label("Token").fill(token)
        page.get_by_role("button", name="Open the queue").click()
        page.wait_for_selector("main[data-shown=queue]")
        page.wait_for_function(
            "() => [...document.querySelectorAll('td')].filter(cell => cell.innerText === 'running').length > 1",
            timeout=180_000,
        )
        page.wait_for_timeout(20_000)  # for the picture of what was in use to have something in it
        shot(page, "service", 1180)
        page.close()


def main() -> None:
    """Take all pictures, or that of the service alone."""
    IMAGES.mkdir(exist_ok=True)
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        if sys.argv[1:]:
            store_and_report(browser, Path(sys.argv[1]), Path(sys.argv[2]))
        service(browser)
        browser.close()


def store_and_report(browser: Any, source: Path, page: Path) -> None:
    """Take the pictures of a store's dashboard, and of a report."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "cotune.db"
        shutil.copy(source, copy)
        with open_store(str(copy)) as store:
            known = store.jobs()[0]
            run = next(sample for sample in store.samples(known) if sample.purpose == "run")
            store.save(replace(known.definition, name=known.name), half(run))
            results = {found.kind: found.id for found in result_list(store)}
            words = ["dashboard", "--store", copy.name, "--port", "0", "--no-open", "--json"]
            call = [sys.executable, "-m", "cotune", *words]
            server = subprocess.Popen(call, stdout=subprocess.PIPE, text=True, cwd=folder)
            assert server.stdout is not None
            address = json.loads(server.stdout.readline())["address"]
            try:
                dashboard(browser, address, results)
                report(browser, page)
            finally:
                server.terminate()
                server.communicate(timeout=20)


if __name__ == "__main__":
    main()
