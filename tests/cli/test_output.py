"""What tables and bars look like: on a terminal of 80 columns, and where nobody watches."""

from __future__ import annotations

import io
import re

import pytest

from cotune.cli.output import progress, repeated, table

HEAD = ("", "workers", "global batch", "epochs", "time", "accuracy", "cost in device-seconds", "P(met)", "known from")
ROW = (
    "->",
    1,
    128,
    "4 (4..5)",
    "10 min 00 s (7 min 31 s..13 min 40 s)",
    "97.65 (97.16..98.15)",
    "9.8 (7.31..13.4)",
    "1.00",
)
OUTCOME = "ended without a report: call cotune.report(epoch=..., accuracy=...) or give a --pattern"


class Terminal(io.StringIO):
    """A stream that people watch."""

    def isatty(self) -> bool:
        return True


def narrow(patch: pytest.MonkeyPatch) -> Terminal:
    """A terminal of 80 columns, as both output streams from now on."""
    seen = Terminal()
    for name, value in {"COLUMNS": "80", "TERM": "xterm"}.items():
        patch.setenv(name, value)
    patch.setattr("sys.stdout", seen)
    patch.setattr("sys.stderr", seen)
    return seen


def lines(seen: Terminal) -> list[str]:
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", seen.getvalue()).splitlines()


def test_a_decision_table_is_broken_at_words_and_intervals_on_a_narrow_terminal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen = narrow(monkeypatch)
    table(HEAD, [(*ROW, "interpolated")])
    shown = lines(seen)
    assert max(map(len, shown)) <= 80
    words = " ".join(shown).split()
    assert {"workers", "interpolated", "97.65", "(97.16..", "98.15)", "device-"} <= set(words)


def test_a_row_is_a_block_of_lines_where_no_table_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = narrow(monkeypatch)
    monkeypatch.setenv("COLUMNS", "60")
    table(HEAD, [(*ROW, "interpolated"), (*ROW[:-1], "0.93", "measured")])
    shown = lines(seen)
    assert max(map(len, shown)) <= 60
    assert [line.split()[-1] for line in shown if line.startswith("P(met)")] == ["1.00", "0.93"]
    assert shown.count("") == 2, "one after each row"


def test_a_row_is_a_line_however_long_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    table(HEAD, [(*ROW, OUTCOME * 3), (*ROW, "ok")])
    said = capsys.readouterr().out.splitlines()
    assert len(said) == 3
    assert not any(line.endswith(" ") for line in said)


def test_a_bar_keeps_its_place_beside_a_long_text(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = narrow(monkeypatch)
    with progress(60) as shown:
        shown.update(30, "probe 1 of at most 14: seconds per epoch of batch 16 on 1 worker (global batch 16)")
    assert any("50%" in line and "probe 1 of at most 14" in line for line in lines(seen))


def test_a_note_of_several_rows_is_said_once() -> None:
    assert repeated(["shares cores", None, "shares cores", "odd"]) == ["shares cores"]
