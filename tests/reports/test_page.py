"""`cotune report` on a recording: the terminal, the JSON and the page in a real browser."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from browsers import opened, overflow
from cli import jobs
from cli.jobs import Done
from lab.worlds import world

pytestmark = pytest.mark.xdist_group("page")  # one page and one browser for all

ASKED = ("--target", "accuracy=0.8", "--deadline", "1h")
HOSTILE = '<script>alert("x")</script><b>&"name'


def cotune(folder: Path, *words: object, code: int = 0) -> Done:
    done = jobs.cotune(folder, *map(str, words))
    assert done.code == code, done.err
    return done


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording whose job has a name that wants to be markup."""
    place = world(tmp_path_factory.mktemp("report") / "world")
    job = place / "job.yaml"
    lines = [line for line in job.read_text().splitlines() if not line.startswith("name:")]
    job.write_text("\n".join([f"name: {json.dumps(HOSTILE)}", *lines]) + "\n")
    return place


@pytest.fixture(scope="module")
def written(folder: Path) -> tuple[Path, str]:
    """The page, and what the command printed."""
    file = folder.parent / "report.html"
    return file, cotune(folder, "report", "--recording", folder, *ASKED, "-o", file).out


@pytest.fixture(scope="module")
def page_file(written: tuple[Path, str]) -> Path:
    return written[0]


def test_the_decision_table_comes_first_and_plots_on_demand(folder: Path, written: tuple[Path, str]) -> None:
    shown = cotune(folder, "report", "--recording", folder, *ASKED, "--plots").out
    assert shown.split("\n")[1].startswith("->")
    for line in ("goal ", "plan ", "reason ", "scaling ", "run ", "measured "):
        assert f"\n{line}" in shown
    assert "┌" in shown
    assert "\x1b[" not in shown
    assert "┌" not in written[1]
    assert written[1].split("\n")[1] == shown.split("\n")[1]


def test_the_document_has_what_the_page_shows(folder: Path) -> None:
    told: dict[str, Any] = cotune(folder, "report", "--recording", folder, *ASKED, "--json").json
    assert told["schema"] == "cotune.report"
    assert told["plan"]["probability"] >= 0.9
    assert told["plan"]["config"] in [entry["config"] for entry in told["frontier"]]
    assert told["scaling"]["pays_up_to"] in (1, 2, 4, 8)
    assert told["configs"] == 20
    assert told["runs"][0]["met"] is True
    assert told["runs"][0]["forecast"]["config"] == told["plan"]["config"]
    assert told["profile"]["samples"] <= 16
    plan = cotune(folder, "plan", "--recording", folder, *ASKED, "--json").json
    for made in (plan, told):
        made["plan"].get("continues", {}).pop("sample", None)  # each replays its own probes
    assert plan["plan"] == told["plan"], "report and plan tell the same"


def test_a_goal_out_of_reach_still_gives_a_page(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "refused.html"
    words = ("report", "--recording", folder, "--target", "0.8", "--deadline", "1s", "-o", file)
    told = cotune(folder, *words, "--json", code=5).json
    assert "No plan meets this goal" in file.read_text()
    assert "no config reaches accuracy 0.8 within 1 s" in told["refusal"]["message"]
    assert told["refusal"]["constraint"]
    assert len(told["refusal"]["nearest"]) == 3


def test_a_page_that_cannot_be_written_is_one_line(folder: Path, tmp_path: Path) -> None:
    words = ("report", "--recording", folder, *ASKED, "-o", tmp_path / "nowhere" / "report.html")
    assert "there is no folder" in cotune(folder, *words, code=3).err


def test_the_page_asks_the_network_for_nothing_and_draws_everything(browser: Any, page_file: Path) -> None:
    with opened(browser) as watched:
        page = watched.page
        page.goto(page_file.as_uri())
        page.wait_for_selector("html[data-drawn]")
        assert watched.asked == [page_file.as_uri()]
        assert page.locator(".plot .main-svg").count() >= 5
        headings = page.locator("h2").all_inner_texts()
        for wanted in (
            "The plan",
            "Plan and rivals",
            "Cost against time",
            "Where scaling stops paying",
            "Seconds per epoch",
        ):
            assert wanted in headings
        for wanted in ("Learning curves", "Forecast against measured", "What was measured, and what it cost"):
            assert wanted in headings
        assert headings.index("The plan") < headings.index("Cost against time") < headings.index("Plan and rivals")
        assert page.locator("h1").inner_text() == HOSTILE
        assert page.locator("b").count() == 0
        legend = page.locator(".plot").first.inner_text()
        for wanted in ("deadline 1 h 00 min", "frontier", "plan", "meets the goal"):
            assert wanted in legend
        named = page.locator(".plot").evaluate_all("plots => plots.map(plot => plot.getAttribute('aria-label'))")
        assert all(named)


@pytest.mark.parametrize("dark", [False, True])
def test_the_page_follows_the_scheme_and_fits_a_phone(browser: Any, page_file: Path, dark: bool) -> None:
    with opened(browser, width=390, height=800, dark=dark) as watched:
        page = watched.page
        page.goto(page_file.as_uri())
        page.wait_for_selector("html[data-drawn]")
        assert overflow(page) <= 0
        ink = page.locator(".plot .xtick text").first.evaluate("text => getComputedStyle(text).fill")
        brightness = sum(float(part) for part in ink.removeprefix("rgb(").removesuffix(")").split(",")) / 3
        assert (brightness > 128) == dark


def test_the_page_prints_in_light_colours_even_when_the_screen_is_dark(browser: Any, page_file: Path) -> None:
    with opened(browser, dark=True) as watched:
        page = watched.page
        page.goto(page_file.as_uri())
        page.wait_for_selector("html[data-drawn]")
        page.emulate_media(media="print")
        page.wait_for_function(
            "() => getComputedStyle(document.querySelector('.plot .xtick text')).fill === 'rgb(86, 97, 112)'"
        )
        assert page.pdf(format="A4")[:4] == b"%PDF"
