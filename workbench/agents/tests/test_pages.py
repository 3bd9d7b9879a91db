"""Pages: never larger than they may be, and all of them together are the document."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workbench.agents.pages import Fitted, fitted, picked, wire_size
from workbench.errors import UsageError

DOCUMENT = {"a": {"b/c": [1, 2, {"~d": "x"}]}, "many": {f"k{n}": n for n in range(100)}}
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.text(max_size=300),
    lambda inner: (
        st.lists(inner, max_size=60) | st.dictionaries(st.text(max_size=9), inner, max_size=60)
    ),
    max_leaves=60,
)


def within(most: int, value: Any, select: str = "", offset: int = 0) -> Fitted:
    def fits(page: Fitted) -> bool:
        return wire_size([page.value, [vars_of(more) for more in page.more]]) <= most

    return fitted(value, select, offset, fits)


def vars_of(more: Any) -> list[Any]:
    return [more.select, more.shown, more.of, more.offset]


@pytest.mark.parametrize(
    ("select", "found"),
    [
        ("", DOCUMENT),
        ("/", DOCUMENT),
        ("/a/b~1c/2/~0d", "x"),
        ("a/b~1c/0", 1),
        ("/a/*/1", {"b/c": 2}),
        ("/a/b~1c/*/~0d", [None, None, "x"]),
        (["/a/b~1c/0", "/many/k7"], {"/a/b~1c/0": 1, "/many/k7": 7}),
    ],
)
def test_pointers(select: str | list[str], found: Any) -> None:
    assert picked(DOCUMENT, select) == found


@pytest.mark.parametrize(
    ("select", "hint"),
    [
        ("/aa", "Did you mean `a`"),
        ("/a/b~1c/3", "a list of 3"),
        ("/a/b~1c/-1", "a list of 3"),
        ("/a/b~1c/99999999999999999999", "a list of 3"),
        ("/a/b~1c/0/x", "single value"),
        ("/a/*/x", "a list of 3"),
        (["/a"] * 21, "At most 20"),
    ],
)
def test_a_pointer_to_nothing_says_what_there_is(select: str | list[str], hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        picked(DOCUMENT, select)
    assert hint in caught.value.hint


@given(ANYTHING, st.integers(500, 4000))
@settings(max_examples=25)
def test_a_page_is_never_too_large_and_says_what_it_lacks(value: Any, most: int) -> None:
    page = within(most, value)
    whole = wire_size([value, []]) <= most
    assert (page.value == value) or page.more
    assert not whole or (page.value == value and not page.more)
    if page.value is not None:
        assert wire_size([page.value, [vars_of(more) for more in page.more]]) <= most


@given(st.lists(st.text(max_size=80), min_size=1, max_size=120), st.integers(800, 3000))
@settings(max_examples=40)
def test_the_pages_of_a_list_are_the_list(value: list[str], most: int) -> None:
    got: list[str] = []
    while len(got) < len(value):
        page = within(most, value, "/list", len(got))
        assert page.value
        got += page.value
        if page.more:
            (more,) = page.more
            assert (more.select, more.offset, more.of) == ("/list", len(got), len(value))
    assert got == value


def test_the_pages_of_a_text_and_of_a_table_are_the_whole() -> None:
    text, got = 'é"\\x' * 900, ""
    while len(got) < len(text):
        got += within(900, text, "/text", len(got)).value
    assert got == text
    table: dict[str, int] = {}
    while len(table) < 100:
        table |= within(600, DOCUMENT["many"], "/many", len(table)).value
    assert table == DOCUMENT["many"]


def test_short_lists_stay_whole_beside_long_ones() -> None:
    value = {"short": ["a", "b", "c"], "long": [{"text": "x" * 40} for _ in range(200)]}
    page = within(3000, value)
    assert page.value["short"] == ["a", "b", "c"] and 3 < len(page.value["long"]) < 200
    (more,) = page.more
    assert more.select == "/long" and more.offset == more.shown == len(page.value["long"])


def test_what_is_cut_in_many_places_is_said_once() -> None:
    rows = [{"lines": list(range(1000, 1400))} for _ in range(5)]
    page = within(2500, {"rows": rows})
    names = [more.select for more in page.more]
    assert len(names) == len(set(names)) and "/rows/*/lines" in names


def test_one_entry_that_is_too_large_is_cut_itself() -> None:
    page = within(1500, [{"a": []}, {"a": list(range(900))}, {"a": []}], "/x", 1)
    assert len(page.value) == 1 and 0 < len(page.value[0]["a"]) < 900
    assert {more.select for more in page.more} == {"/x", "/x/1/a"}


def test_an_offset_behind_the_end_is_an_error() -> None:
    with pytest.raises(UsageError, match="has 2 entries"):
        within(500, [1, 2], "/x", 2)


def test_the_size_is_that_on_the_wire() -> None:
    value = {"text": 'a "quoted" \\ line\n'}
    text = json.dumps(value, separators=(",", ":"))
    assert wire_size(value) == len(json.dumps(text).encode())
