"""Every view of the dashboard in a real Chromium: what it shows, follows, answers and never runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from browsers import opened, overflow
from cotune.store import open_store
from cotune.types import Config
from dashboard.conftest import Served
from dashboard.stocked import HOSTILE, JOB, begin, bulk, sample

pytestmark = pytest.mark.xdist_group("browser")  # one browser and one server for all

VIEWS = ("", "samples", "placements", "samples/probe0")


def visit(page: Any, served: Served, view: str = "") -> None:
    page.goto(f"{served.address}#/{view}")
    page.wait_for_selector(f"main[data-shown='{view or 'overview'}']")


def job_page(page: Any, served: Served, name: str = "resnet-cifar") -> None:
    visit(page, served)
    page.get_by_role("link", name=name, exact=True).first.click()
    page.wait_for_selector("#answer .choice")


def drawn(page: Any, count: int) -> None:
    page.wait_for_function(f"() => document.querySelectorAll('.plot[data-drawn] .main-svg').length >= {count}")


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize(("width", "dark"), [(390, True), (1440, False)])
def test_every_view_fits_its_screen(browser: Any, served: Served, view: str, width: int, dark: bool) -> None:
    with opened(browser, width=width, dark=dark) as watched:
        visit(watched.page, served, view)
        assert overflow(watched.page) <= 0
        assert watched.page.locator("main h1").count() == 1
        assert all(url.startswith((served.base, "data:")) for url in watched.asked)


def test_the_overview_leads_to_everything(browser: Any, served: Served) -> None:
    with opened(browser) as watched:
        page = watched.page
        visit(page, served)
        shown = page.locator("main").inner_text()
        for wanted in ("resnet-cifar", str(served.plan), "ctr.json", "accuracy at least 0.85"):
            assert wanted in shown
        targets = page.locator("main a").evaluate_all("links => links.map(link => link.getAttribute('href'))")
        assert all(target.startswith("#/") for target in targets)
        assert page.locator("nav a[aria-current=page]").inner_text() == "Overview"
        page.get_by_role("link", name="ctr.json").click()
        page.wait_for_selector("text=proven optimal")
        assert page.locator("nav a[aria-current=page]").inner_text() == "Placements"


def test_sliders_plan_anew_and_come_back(browser: Any, served: Served) -> None:
    with opened(browser) as watched:
        page = watched.page
        job_page(page, served)
        drawn(page, 5)
        first = page.locator("#answer .choice").inner_text()
        slider = page.get_by_label("Deadline", exact=True)
        assert "2 min 30 s" in (slider.get_attribute("aria-valuetext") or "")
        slider.press("Home")
        page.wait_for_selector("#answer.refused")
        assert "binds" in page.locator("#answer .choice").inner_text()
        assert page.locator("text=The nearest that can be had").count() == 1
        slider.press("End")
        page.wait_for_selector("#answer:not(.refused)")
        cost = page.locator("#answer .tile").nth(2).inner_text()
        page.get_by_label("Price of t4").fill("1000")
        page.wait_for_function("cost => document.querySelectorAll('#answer .tile')[2].innerText !== cost", arg=cost)
        assert "USD" in page.locator("#answer .tile").nth(2).inner_text()
        page.get_by_label("no price: count device-seconds").check()
        page.wait_for_function("() => document.querySelector('#answer').innerText.includes('device-seconds')")
        page.get_by_role("button", name="As it was asked").click()
        page.wait_for_function("first => document.querySelector('#answer .choice').innerText === first", arg=first)
        assert float(page.locator("#answer").get_attribute("data-milliseconds")) > 0


def test_the_target_moves_the_plan(browser: Any, served: Served) -> None:
    with opened(browser) as watched:
        page = watched.page
        job_page(page, served)
        before = page.locator("#answer .tile").all_inner_texts()
        page.get_by_label("Target accuracy").fill("400")
        tiles = "[...document.querySelectorAll('#answer .tile')].map(tile => tile.innerText)"
        page.wait_for_function(f"before => {tiles}.some(text => !before.includes(text))", arg=before)
        page.get_by_label("no target").check()
        page.wait_for_function("() => document.querySelector('#slide-target').disabled")


def test_a_moved_slider_keeps_its_answer_when_the_store_changes(browser: Any, served: Served) -> None:
    with opened(browser) as watched, open_store(str(served.store)) as store:
        page = watched.page
        job_page(page, served)
        page.wait_for_selector("#link.live")
        page.get_by_label("Target accuracy").fill("700")
        page.get_by_label("Target accuracy").blur()
        asked = f"of {page.locator('#slide-target').get_attribute('aria-valuetext')} asked"
        page.wait_for_selector(f"#answer >> text={asked}")
        page.evaluate("document.querySelector('#answer').dataset.old = 'yes'")
        ended = store.sample("run-ended")
        store.save(JOB, replace(ended, ended=False))
        page.wait_for_selector("#answer:not([data-old])")
        page.wait_for_selector(f"#answer >> text={asked}")
        page.wait_for_selector("article.live")
        store.save(JOB, ended)
        page.wait_for_selector("article.live", state="detached")


def test_a_run_is_followed_while_it_grows(browser: Any, served: Served) -> None:
    with opened(browser) as watched, open_store(str(served.store)) as store:
        page = watched.page
        visit(page, served)
        page.wait_for_selector("#link.live")
        assert page.locator("article.live").count() == 0
        begin(store, served.plan, 0)
        page.wait_for_selector("article.live >> text=starting")
        begin(store, served.plan, 3)
        page.wait_for_selector("article.live >> text=/about .* left/")
        shown = page.locator("article.live").inner_text()
        assert "epoch 3 of at most" in shown
        assert "of 0.85" in shown
        assert page.locator("article.live svg.spark polyline").count() == 1
        begin(store, served.plan, 5)
        page.wait_for_selector("article.live >> text=epoch 5 of at most")
        store.save(JOB, replace(store.sample("run-live"), ended=True))
        page.wait_for_selector("article.live", state="detached")
        page.wait_for_selector("td >> text=11")


def test_placements_show_stages_and_proof(browser: Any, served: Served) -> None:
    with opened(browser) as watched:
        page = watched.page
        visit(page, served, f"placements/{served.placement}")
        drawn(page, 1)
        assert page.locator("text=proven optimal").count() == 1
        assert page.locator(".stage").count() == page.locator("[aria-label=Stages] tbody tr").count()
        assert page.locator(".stage.slowest").count() == 1


def test_an_empty_store_says_what_to_do_and_follows_the_first_sample(
    browser: Any, tmp_path: Path, serve: Callable[..., str]
) -> None:
    path = tmp_path / "store.db"
    with open_store(str(path)) as store, opened(browser) as watched:
        page, empty = watched.page, Served(serve(path), path)
        for view in ("", "samples", "placements"):
            visit(page, empty, view)
            assert page.locator(".empty").count() == 1
        visit(page, empty)
        page.wait_for_selector("#link.live")
        store.save(JOB, sample(np.random.default_rng(0), Config.data_parallel(16, 1, "t4"), 2, "first"))
        page.wait_for_selector("text=resnet-cifar")


def test_names_that_want_to_be_code_stay_names(browser: Any, tmp_path: Path, serve: Callable[..., str]) -> None:
    path = tmp_path / "store.db"
    rng = np.random.default_rng(0)
    job = replace(JOB, name=HOSTILE, metric="<img src=x onerror=window.hacked=1>")
    with open_store(str(path)) as store:
        for place, (workers, batch) in enumerate([(1, 16), (2, 32), (4, 64), (1, 64)]):
            one = sample(rng, Config.data_parallel(batch, workers, "<i>t4</i>"), 6, f"s{place}")
            store.save(job, replace(one, failure=None, warning="<b>warned</b>", folder="<u>f</u>"))
        store.save_result("place", HOSTILE, {})
    with opened(browser) as watched:
        page, served = watched.page, Served(serve(path), path)
        for view in ("", "samples", "samples/s0", "placements"):
            visit(page, served, view)
        job_page(page, served, name=HOSTILE)
        drawn(page, 3)
        assert page.locator("h1").inner_text() == HOSTILE
        assert page.locator("main b, main i, main u, main img, main script").count() == 0
        assert page.evaluate("window.hacked") is None


def test_ten_thousand_runs_are_paged(browser: Any, tmp_path: Path, serve: Callable[..., str]) -> None:
    path = tmp_path / "store.db"
    with open_store(str(path)) as store:
        bulk(store, 10_000)
    with opened(browser) as watched:
        page, served = watched.page, Served(serve(path), path)
        visit(page, served)
        assert "10,000" in page.locator("main").inner_text()
        visit(page, served, "samples")
        assert page.locator("tbody tr").count() == 100
        assert "1 to 100 of 10,000" in page.locator(".pager").inner_text()
        page.get_by_role("button", name="Older").click()
        page.wait_for_selector("text=101 to 200 of 10,000")
        page.get_by_label("What").select_option("run")
        page.wait_for_selector("text=1 to 100 of 200")
        page.locator("tbody a").first.click()
        page.wait_for_selector("text=Learning curve")


def test_the_keyboard_is_enough_and_the_theme_is_remembered(browser: Any, served: Served) -> None:
    with opened(browser) as watched:
        page = watched.page
        visit(page, served)
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
        page.keyboard.press("Enter")
        assert page.evaluate("document.activeElement.id") == "main"
        assert page.locator("main h1").inner_text() == "Overview"
        page.get_by_role("button", name="Theme").click()
        page.get_by_role("button", name="Theme").click()
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(13, 18, 24)"
        page.reload()
        page.wait_for_selector("main[data-shown]")
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(13, 18, 24)"
        unnamed = page.evaluate(
            """() => [...document.querySelectorAll('button, select, input, a, [role=img], [role=region]')]
            .filter(one => !(one.getAttribute('aria-label') || one.textContent.trim() || one.labels?.length)).length"""
        )
        assert unnamed == 0


def test_a_page_that_is_not_there_leads_back(browser: Any, served: Served) -> None:
    with opened(browser) as watched:
        page = watched.page
        page.goto(f"{served.address}#/nowhere")
        page.get_by_role("link", name="Back to the overview").click()
        page.wait_for_selector("main[data-shown=overview]")


def test_the_token_opens_the_page_once_and_for_all(browser: Any, tmp_path: Path, serve: Callable[..., str]) -> None:
    path = tmp_path / "store.db"
    open_store(str(path)).close()
    address = serve(path, "--token", "correct-horse-battery")
    context = browser.new_context()
    page = context.new_page()
    page.goto(address.partition("?")[0])
    page.get_by_label("Token").fill("wrong")
    page.get_by_role("button").click()
    page.wait_for_selector("text=That token is wrong.")
    page.get_by_label("Token").fill("correct-horse-battery")
    page.get_by_role("button").click()
    page.wait_for_selector("main[data-shown=overview]")
    assert "token" not in page.url
    context.close()


LUMINANCE = """names => {
  const probe = document.createElement('span');
  document.body.append(probe);
  const luminance = name => {
    probe.style.color = `var(--${name})`;
    const parts = getComputedStyle(probe).color.match(/[\\d.]+/g).slice(0, 3).map(part => part / 255);
    const [r, g, b] = parts.map(part => part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  return Object.fromEntries(names.map(name => [name, luminance(name)]));
}"""


@pytest.mark.parametrize("dark", [False, True])
def test_every_colour_of_text_stands_out_from_what_is_behind_it(browser: Any, served: Served, dark: bool) -> None:
    texts = ("ink", "muted", "accent", "warn", "good", "s1", "s2", "s3", "s4", "s5", "s6")
    with opened(browser, dark=dark) as watched:
        visit(watched.page, served)
        found = watched.page.evaluate(LUMINANCE, ["bg", "card", "wash", *texts])
    for behind in ("bg", "card", "wash"):
        for text in texts:
            light, deep = sorted((found[text], found[behind]), reverse=True)
            contrast = (light + 0.05) / (deep + 0.05)
            least = 4.5 if text in ("ink", "muted", "accent", "warn", "good", "s1") else 3.0
            assert contrast >= least, f"{text} on {behind}: {contrast:.2f}"
