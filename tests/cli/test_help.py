"""Help on one screen: the common flags in groups, examples that parse, and everything with `--help-all`."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cli import jobs
from cotune.cli import app, help

SCREEN = 25  # lines
MAIN = ("init", "profile", "plan", "run", "predict", "report", "dashboard", "export", "import")
MANY = ("simulate", "serve", "submit", "place")


def commands(words: tuple[str, ...], command: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield a verb and whatever is below it."""
    yield words, command
    for name, inner in getattr(command, "commands", {}).items():
        yield from commands((*words, name), inner)


def every() -> list[tuple[tuple[str, ...], Any]]:
    return [pair for verb in app.verbs() for pair in commands((verb,), app._command(verb))]


def told(words: tuple[str, ...], command: Any) -> str:
    """Return the help of a command on a terminal of 80 columns."""
    context = command.make_context(
        f"cotune {' '.join(words)}", [], resilient_parsing=True, terminal_width=80, max_content_width=80
    )
    return str(command.get_help(context))


@pytest.fixture(scope="module")
def verbs() -> list[tuple[tuple[str, ...], Any]]:
    return every()


def test_every_verb_is_told_on_one_screen_of_eighty_columns(verbs: list[tuple[tuple[str, ...], Any]]) -> None:
    for words, command in verbs:
        text = told(words, command)
        assert len(text.splitlines()) <= SCREEN, " ".join(words)
        assert max(map(len, text.splitlines())) <= 80, " ".join(words)
        assert "--json" in text or hasattr(command, "commands"), " ".join(words)


def test_all_flags_are_told_when_they_are_asked_for(
    verbs: list[tuple[tuple[str, ...], Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["cotune", help.ALL])
    for words, command in verbs:
        text = told(words, command)
        flags = [option.opts[0] for option in command.params if option.param_type_name == "option"]
        assert [flag for flag in flags if flag not in text] == [], words


def test_main_verbs_end_with_examples_that_parse(verbs: list[tuple[tuple[str, ...], Any]]) -> None:
    known = {words[0]: command for words, command in verbs if len(words) == 1}
    for verb in MAIN + MANY:
        _, _, examples = told((verb,), known[verb]).partition("\nExamples:\n")
        assert examples, verb
        for line in examples.splitlines():
            cotune, named, *arguments = shlex.split(line)
            assert (cotune, named) == ("cotune", verb)
            known[verb].make_context(line, arguments)


def test_budget_has_one_meaning(verbs: list[tuple[tuple[str, ...], Any]]) -> None:
    budgets = {option.help for _, command in verbs for option in command.params if "--budget" in option.opts}
    assert budgets == {"What measuring may take: 90s, 5m."}


def test_the_flag_for_everything_reaches_a_verb_and_nothing_after_the_dashes(tmp_path: Path) -> None:
    short, full = (jobs.cotune(tmp_path, "plan", flag).out for flag in ("-h", "--help-all"))
    assert "--accuracy-predictor" in full
    assert "--accuracy-predictor" not in short
    own = jobs.cotune(tmp_path, "plan", "--no-measure", "--json", "--", "python", "train.py", "--help-all")
    assert "train.py --help-all" in own.out
