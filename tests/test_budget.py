"""What a reader of the tree has to hold in mind may only fall; `tests/budget.json` holds the limits.

python tests/test_budget.py        lower the limits to what the tree holds; none is ever raised
"""

from __future__ import annotations

import functools
import json
import tempfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from budget import flows
from budget.counts import count, sources

LIMITS = Path(__file__).with_name("budget.json")
HELD = (
    *("tokens", "records", "constants", "files", "repeated_file_names"),
    *("largest_import_cycle", "cyclic_modules_outside_predict"),
    *("tests_lines", "benchmarks_lines", "pages_kb", "dialect_per_1000_words"),
)
SLACK = 1.01  # a limit this far above its count was not lowered with it
MOST_TOKENS_A_LINE = 10.9
MEDIAN_FUNCTION_BODY = 4  # lines: counts fall by removing things, not by longer functions


@functools.cache
def counted() -> Mapping[str, float]:
    return count(sources())


@functools.cache
def prepared() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="cotune-budget-"))
    flows.prepare(folder)
    return folder


def limits() -> dict[str, dict[str, float]]:
    document: dict[str, dict[str, float]] = json.loads(LIMITS.read_text())
    return document


def require_within(name: str, value: float, limit: float) -> None:
    assert value <= limit, f"{name}: {value:,} is over its limit of {limit:,}"
    assert limit <= value * SLACK + 1, f"{name} fell to {value:,}: lower its limit with `python {Path(__file__).name}`"


@pytest.mark.parametrize("name", HELD)
def test_no_count_of_the_tree_rises(name: str) -> None:
    require_within(name, counted()[name], limits()["held"][name])


@pytest.mark.parametrize("flow", flows.FLOWS)
@pytest.mark.timeout(120)
def test_no_command_runs_through_more_functions_or_files(flow: str) -> None:
    for what, value in flows.trace(flow, prepared()).items():
        require_within(f"{flow} {what}", value, limits()["traced"][flow][what])


def test_counts_fall_by_removing_and_not_by_squeezing() -> None:
    assert counted()["tokens_a_code_line"] <= MOST_TOKENS_A_LINE
    assert counted()["median_function_body"] <= MEDIAN_FUNCTION_BODY
    hidden = [str(source.path) for source in sources() if {"attr", "attrs", "msgspec"} & _imported(source.text)]
    assert hidden == [], "records that the count of records does not see"


def _imported(text: str) -> set[str]:
    words = (line.split() for line in text.splitlines())
    return {line[1].split(".")[0] for line in words if len(line) > 1 and line[0] in ("import", "from")}


def write_limits() -> None:
    """Lower every limit to what the tree holds, and record the counts that are not held."""
    known = limits() if LIMITS.exists() else {"held": {}, "traced": {}}
    now = counted()
    held = {name: min(now[name], known["held"].get(name, now[name])) for name in HELD}
    traced: dict[str, Mapping[str, float]] = {}
    for flow in flows.FLOWS:
        found, before = flows.trace(flow, prepared()), known["traced"].get(flow, {})
        traced[flow] = {what: min(value, before.get(what, value)) for what, value in found.items()}
    recorded = {name: value for name, value in now.items() if name not in HELD}
    document = {"held": held, "traced": traced, "recorded": recorded}
    LIMITS.write_text(json.dumps(document, indent=2) + "\n")


if __name__ == "__main__":
    write_limits()
