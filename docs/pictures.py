"""The pictures of docs/report.md and docs/dashboard.md, taken in Chromium.

    python docs/pictures.py STORE REPORT.html

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
from dataclasses import replace
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import sync_playwright

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
    for kind, name in (("simulate", "simulations"), ("place", "placements")):
        page.goto(f"{address}#/{name}/{results[kind]}")
        page.wait_for_selector(f"main[data-shown='{name}/{results[kind]}']")
        shot(page, f"dashboard-{name}", 1240 if kind == "simulate" else 860)
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


def main() -> None:
    """Take all pictures."""
    source, page = Path(sys.argv[1]), Path(sys.argv[2])
    IMAGES.mkdir(exist_ok=True)
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
                with sync_playwright() as driver:
                    browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
                    dashboard(browser, address, results)
                    report(browser, page)
                    browser.close()
            finally:
                server.terminate()
                server.communicate(timeout=20)


if __name__ == "__main__":
    main()
