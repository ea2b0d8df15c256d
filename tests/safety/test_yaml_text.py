from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotune.safety.yaml_text import NotYaml, read

BOMB = "a: &a [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{chr(98 + n)}: &{chr(98 + n)} [{','.join(['*' + chr(97 + n)] * 10)}]\n" for n in range(9)
)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: " + "[" * 2000 + "]" * 2000, "more than 64 levels"),
        ("\n".join(f"{'  ' * n}a:" for n in range(400)), "more than 64 levels"),
        (BOMB, "aliases stand for more than"),
        ("engine: &e {local: *e}", "holds itself"),
        ("a: &a [*a]", "holds itself"),
        ('a: "\\ud800"', "half a letter"),
        ('"\\0": 1', "NUL"),
        ("a: 1\na: 2", "written twice"),
        ("a: 2026-13-45", "month"),
        ("a: [1", "expected"),
    ],
)
def test_yaml_out_of_bounds_is_refused_in_one_line(text: str, problem: str) -> None:
    with pytest.raises(NotYaml, match=problem) as caught:
        read(text)
    assert "\n" not in str(caught.value)


def test_true_and_false_alone_are_truth_values() -> None:
    assert read("[true, True, FALSE]") == [True, True, False]
    assert read("[on, Off, yes, NO, y, n]") == ["on", "Off", "yes", "NO", "y", "n"]


def test_ordinary_aliases_and_merges_are_read() -> None:
    assert read("a: &a {x: 1}\nb: {<<: *a, y: 2}\nc: *a") == {"a": {"x": 1}, "b": {"x": 1, "y": 2}, "c": {"x": 1}}


@given(st.text(st.characters()))
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(NotYaml):
        read(text)
