from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotune.safety.printable import is_printable, printable


@given(st.text(st.characters()))
def test_what_is_printed_stands_on_one_line_and_shows_as_it_is(text: str) -> None:
    shown = printable(text)
    assert is_printable(shown)
    assert len(shown.splitlines()) <= 1
    shown.encode("utf-8")


@pytest.mark.parametrize("text", ["lenet-5", "naïve größe 模型", "a b=c;d", ""])
def test_plain_text_is_left_alone(text: str) -> None:
    assert printable(text) == text


@pytest.mark.parametrize("text", ["\x1b[2J", "a\nb", "a\rb", "\x9b31m", "\u202ecod.exe", "\ud800", "\u2028", "\x7f"])
def test_what_acts_is_shown_instead(text: str) -> None:
    assert not is_printable(text)
    assert "\\" in printable(text)


def test_line_ends_may_be_kept() -> None:
    assert printable("a\n\x1b", keep="\n") == "a\n\\x1b"
