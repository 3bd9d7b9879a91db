"""What leaves through the door: nothing that steers, hides, forges or is computed."""

from __future__ import annotations

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.views.shapes import compact
from workbench.views.text.safe_output import block, inert, quoted, say, visible
from workbench.views.text.tables import to_csv

HIDDEN = [
    chr(number)
    for number in range(0x110000)
    if unicodedata.category(chr(number)) in ("Cc", "Cf", "Cs", "Zl", "Zp") and number != 9
]


def test_no_character_that_nobody_sees_passes() -> None:
    assert not [char for char in HIDDEN if char in visible(f"a{char}b")]
    assert not [char for char in HIDDEN if char != "\n" and char in block(f"a{char}b")]
    assert visible("a\x1b[2J\r\n\u061c\u202e\ud800") == "a·[2J··⟨U+061C⟩⟨U+202E⟩⟨U+D800⟩"
    assert visible("tab\t, é, 日本 and 👍") == "tab\t, é, 日本 and 👍"


def test_no_line_passes_for_one_of_ours(capsys: pytest.CaptureFixture[str]) -> None:
    say("no x\nerror: forged\n::error::forged", err=True, head="error: ")
    assert capsys.readouterr().err == ("error: no x\n  | error: forged\n  | ::error::forged\n")
    assert quoted("one\n\n") == "one"


@pytest.mark.parametrize("text", ["::error::x", " \t::x", "\x1b[1m::x", "\x1b[1m \x1b[0m::x"])
def test_no_line_is_a_command(text: str) -> None:
    assert inert(f"a::b\n{text}").split("\n")[1] == text.replace("::", "·::", 1)
    assert inert("a ##[error]b") == "a ##·[error]b"


@given(st.text(st.one_of(st.characters(), st.sampled_from(HIDDEN)), max_size=20))
def test_json_means_the_same(text: str) -> None:
    told = compact({"a": text})
    assert told.isprintable() or not set(told) & set(HIDDEN)
    halves = any("\ud800" <= char <= "\udfff" for char in text)
    assert json.loads(told) == {"a": block(text) if halves else text}


def test_a_text_in_csv_is_no_formula() -> None:
    texts = ("=1+1", "+a", "-a", "@a", "\t=1", "\r=1", "＝1", "a\n=1")
    cells = to_csv(("x",), [(text,) for text in texts]).splitlines()[1:]
    assert cells == ["'=1+1", "'+a", "'-a", "'@a", "'\t=1", "'·=1", "'＝1", "a·=1"]
    numbers = ("-1.5", -1.5, "+3", "-1e-9", None, True, "—")
    told = to_csv(("x", "y"), [(number, 0) for number in numbers]).splitlines()[1:]
    assert told == ["-1.5,0", "-1.5,0", "+3,0", "-1e-9,0", ",0", "True,0", "—,0"]
