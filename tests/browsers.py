"""A real Chromium for tests of pages: what it draws, what it logs, what it asks the network for."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

NEEDS = "needs Chromium and playwright (Debian package chromium, pip install playwright)"


@contextmanager
def chromium() -> Iterator[Any]:
    """Yield a browser, or skip the test."""
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None or importlib.util.find_spec("playwright") is None:
        pytest.skip(NEEDS)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        # Root may not use Chromium's own sandbox.
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-dev-shm-usage"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as started:
        yield started


@dataclass
class Watched:
    """A page whose complaints and requests are kept."""

    page: Any
    complaints: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.on("console", self._console)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))

    def _console(self, told: Any) -> None:
        if told.type in ("error", "warning"):
            self.complaints.append(told.text)


@contextmanager
def opened(browser: Any, *, width: int = 1280, height: int = 900, dark: bool = False) -> Iterator[Watched]:
    """Yield a new page that must not complain."""
    context = browser.new_context(
        viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light", reduced_motion="reduce"
    )
    watched = Watched(context.new_page())
    watched.page.set_default_timeout(60_000)
    yield watched
    context.close()
    assert watched.complaints == []


def overflow(page: Any) -> int:
    """Return by how many pixels a page is wider than the screen."""
    return int(page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth"))
