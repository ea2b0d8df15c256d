"""How soon the dashboard shows something, and how soon it answers, with ten thousand samples in Chromium.

    python benchmarks/dashboard.py [samples]

First paint is the browser's own (first contentful paint). An answer is timed in the page, from
the move of a slider to the new plan in the document; the figure follows in the next frame.
Wanted: first paint under 1 s, answers under 100 ms.
"""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from cotune.space import Axis, Space
from cotune.store import open_store, rows
from cotune.store.schema import evaluations, samples
from cotune.types import Cluster, Config, Device, Evaluation, Job, Sample, Terms

EXAMPLES = 50_000
WORKERS, BATCHES = tuple(range(1, 33)), (16, 32, 64, 128, 256, 512)
SPACE = Space((Axis("workers", WORKERS), Axis("batch_size", BATCHES), Axis("device", ("t4",))))
CLUSTER = Cluster((Device("t4", 32, 0.35, 8),))
JOB = Job("many", ("python", "train.py", "{batch_size}"), EXAMPLES)
MOVES = 40


def start(rng: np.random.Generator, number: int) -> Sample:
    workers, batch = int(rng.choice(WORKERS)), int(rng.choice(BATCHES))
    step = 0.01 + 0.0004 * batch + (0.02 if workers > 1 else 0.0) + (0.01 if workers > 8 else 0.0)
    pace = step * EXAMPLES / (workers * batch) * float(np.exp(0.03 * rng.normal()))
    whole = workers * batch
    curve = tuple(
        Evaluation(float(e), 0.95 - 0.8 / (1 + e / (1 + whole / 2000)) ** 0.9 + 0.003 * float(rng.normal()), pace * e)
        for e in range(1, 11 if number % 10 == 0 else 1)
    )
    config = Config.data_parallel(batch, workers, "t4")
    accuracy = curve[-1].accuracy if curve else None
    epochs = float(len(curve) or 0.1)
    return Sample(config, epochs, pace, accuracy, Terms(startup=1.0), curve, 1 + pace * epochs, id=f"s{number:06d}",
                  started="2026-01-01T00:00:00+00:00")  # fmt: skip


def fill(path: Path, count: int) -> None:
    rng = np.random.default_rng(0)
    made = [start(rng, number) for number in range(count)]
    owner = {"job": JOB.name, "fingerprint": JOB.fingerprint}
    with open_store(str(path)) as store, store._writing_of(JOB) as connection:
        connection.execute(samples.insert(), [{**rows.of_sample(one), **owner} for one in made])
        points = [rows.of_evaluation(point, one.id, at) for one in made for at, point in enumerate(one.curve)]
        connection.execute(evaluations.insert(), points)


def first_paint(browser: Any, address: str) -> tuple[float, float]:
    """Return milliseconds to the first contentful paint, and to the list of jobs."""
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    page.add_init_script(
        "new MutationObserver(() => { if (!window.listed && document.querySelector('main td a'))"
        " window.listed = performance.now(); }).observe(document, {subtree: true, childList: true})"
    )
    page.goto(address)
    page.wait_for_function("() => window.listed && performance.getEntriesByName('first-contentful-paint').length")
    paint = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    listed = page.evaluate("window.listed")
    page.close()
    return paint, listed


def answers(browser: Any, address: str) -> tuple[float, list[float], list[float]]:
    """Return seconds to open a job, and milliseconds of each answer: in the page, and in the server alone."""
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    in_server: list[float] = []
    page.on("response", lambda got: in_server.append(got.json()["milliseconds"]) if "what-if" in got.url else None)
    page.goto(address)
    page.wait_for_selector("main td a")
    begun = time.perf_counter()
    page.click("main td a")
    page.wait_for_selector("#answer .choice", timeout=300_000)
    opened = time.perf_counter() - begun
    page.wait_for_selector(".plot.tall[data-drawn]")
    page.get_by_label("no deadline").uncheck()
    page.get_by_label("no target").uncheck()
    found = []
    for move in range(MOVES):
        name = ("slide-deadline", "slide-target", "slide-price-t4")[move % 3]
        before = page.locator("#answer").get_attribute("data-answers")
        page.evaluate(
            "([name, value]) => { const one = document.getElementById(name); one.disabled = false;"
            " const off = document.getElementById(name + '-off'); if (off) off.checked = false;"
            " one.value = value; one.dispatchEvent(new Event('input')) }",
            [name, 300 + 17 * move % 600],
        )
        page.wait_for_function("before => document.querySelector('#answer').dataset.answers !== before", arg=before)
        found.append(float(page.locator("#answer").get_attribute("data-milliseconds")))
        page.wait_for_timeout(150)  # let the figure be drawn, as a person would
    page.close()
    return opened, found, in_server


def told(name: str, values: list[float], wanted: float) -> None:
    middle, high, most = statistics.median(values), float(np.quantile(values, 0.9)), max(values)
    verdict = "met" if high < wanted else "missed"
    line = f"median {middle:6.1f}  p90 {high:6.1f}  max {most:6.1f} ms"
    print(f"{name:42} {line}  (wanted {wanted:.0f}: {verdict})")


def main() -> None:
    from playwright.sync_api import sync_playwright

    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    program = shutil.which("chromium") or shutil.which("google-chrome")
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "store.db"
        fill(store, count)
        words = ["dashboard", "--store", str(store), "--port", "0", "--no-open", "--json"]
        server = subprocess.Popen([sys.executable, "-m", "cotune", *words], stdout=subprocess.PIPE, text=True)
        assert server.stdout is not None
        address = json.loads(server.stdout.readline())["address"]
        try:
            with sync_playwright() as driver:
                browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
                paints = [first_paint(browser, address) for _ in range(5)]
                opened, in_page, in_server = answers(browser, address)
                browser.close()
        finally:
            server.terminate()
            server.communicate(timeout=20)
    print(f"{count} samples of {len(SPACE)} configs")
    told("first contentful paint", [paint for paint, _ in paints], 1000)
    told("jobs listed", [listed for _, listed in paints], 1000)
    told("what if: slider to answer in the page", in_page, 100)
    told("what if: in the server alone", in_server, 100)
    print(f"the job opened, and was learnt, in {opened:.1f} s (once; later answers use what was learnt)")


if __name__ == "__main__":
    main()
