"""Names and messages of others in the terminal, and stores that cannot be written: shown, and without power."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cli.jobs import cotune
from cotune.cli import output
from cotune.run.tail import from_report
from cotune.store import open_store
from cotune.types import Config, Evaluation, Failure, Job, Sample

ESCAPES = "\x1b[2J\x1b]0;owned\x07 \u202e[/red][bold]"


def test_nothing_of_others_moves_the_cursor_or_is_taken_as_markup(capsys: pytest.CaptureFixture[str]) -> None:
    output.say(ESCAPES)
    output.note(ESCAPES)
    output.table(["name", ESCAPES], [[ESCAPES, "1"]], title=ESCAPES)
    with output.progress(3) as shown:
        shown.update(1, ESCAPES)
    out, err = capsys.readouterr()
    for text in (out, err):
        assert not {"\x1b", "\x07", "\u202e"} & set(text)
        assert "[/red][bold]" in text


def test_an_error_shows_what_it_names(tmp_path: Path) -> None:
    done = cotune(tmp_path, "simulate", f"{ESCAPES}.csv", "--cluster", "8")
    assert done.code == 3
    assert "\x1b" not in done.err
    assert "\\x1b[2J" in done.err


def sample(**changes: object) -> Sample:
    whole = Sample(Config.data_parallel(8, 1), 1.0, 1.0, 0.5, id="s1", started="2026-01-01T00:00:00+00:00")
    return replace(whole, **changes)  # type: ignore[arg-type]


def test_half_a_letter_in_a_metric_poisons_nothing(tmp_path: Path) -> None:
    said = from_report("x", '{"at": 1.0, "epoch": 1, "accuracy": 0.5, "metrics": {"\\ud800": 2.0}}')
    assert said is not None
    assert said.metrics == (("\\ud800", 2.0),)
    path = tmp_path / "store.db"
    point = Evaluation(1.0, 0.5, 1.0, (("\ud800", 2.0),))
    failure = Failure("it said \x1b[2J")
    with open_store(str(path)) as store:
        store.save(Job("x", ("t",)), sample(curve=(point,), failure=failure))
        assert store.samples()[0].curve[0].metrics == (("\\ud800", 2.0),)
    for flags in ([], ["--json"]):
        done = cotune(tmp_path, "samples", "--store", str(path), *flags)
        assert done.code == 0, done.err
        assert "\x1b" not in done.out
