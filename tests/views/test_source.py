"""Coloured source: the same lines and the same text, whatever the text."""

from __future__ import annotations

from html import unescape
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.views.html.code.lines import coloured, lines


class _Text(HTMLParser):
    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.text = ""
        self.tags: set[str] = set()
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


def test_tokens_get_classes() -> None:
    first, second = coloured('#define T 32\n__shared__ float s[T]; // "x" < 1\n', "a.cu")
    assert first == '<span class="pre">#define T 32</span>'
    assert '<span class="type">float</span>' in second
    assert '<span class="com">// "x" &lt; 1</span>' in second


def test_a_comment_over_several_lines_is_closed_on_each() -> None:
    out = coloured("/* a\n   b */ int c;", "a.cu")
    assert out[0] == '<span class="com">/* a</span>'
    assert out[1].startswith('<span class="com">   b */</span>')


@pytest.mark.parametrize(
    ("path", "text", "part"),
    [
        ("a.py", "def f(): pass", '<span class="key">def</span>'),
        ("a.cuh", "__global__ void f();", '<span class="type">void</span>'),
        ("a.F90", "do k = 1", '<span class="key">do'),
        ("unknown.xyz", "int a;", '<span class="type">int</span>'),
        ("no-suffix", "int a;", '<span class="type">int</span>'),
    ],
)
def test_the_language_follows_from_the_name(path: str, text: str, part: str) -> None:
    assert part in coloured(text, path)[0]


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=300))
def test_no_line_is_lost_and_no_character_interpreted(text: str) -> None:
    plain = lines(text)
    out = coloured(text, "x.cu")
    assert len(out) == len(plain)
    for html, line in zip(out, plain, strict=True):
        assert _Text(str(html)).tags <= {"span"}
        shown = unescape(str(html).replace("</span>", ""))
        for name in ("pre", "com", "type", "key", "str", "nr"):
            shown = shown.replace(f'<span class="{name}">', "")
        # Pygments drops a byte order mark and turns lone carriage returns into line ends.
        if not set(line) & {"\ufeff", "\r"} and "<span" not in line and "&" not in line:
            assert shown == line


def test_only_line_feeds_end_a_line() -> None:
    assert lines("a\r\nb\x0cc\u2028d\ne\n") == ["a", "b\x0cc\u2028d", "e"]
    assert lines("") == []


def test_a_very_long_line_is_cut_and_says_so() -> None:
    (line,) = coloured("x" * 100_000, "a.cu")
    assert len(line) < 2_200
    assert "(100,000 characters)" in line


def test_a_huge_file_is_plain_but_whole() -> None:
    text = "int a; // <b>\n" * 40_000
    out = coloured(text, "a.cu")
    assert len(out) == 40_000
    assert out[-1] == "int a; // &lt;b&gt;"
