"""Two sources beside each other: which line faces which, and what differs in it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from workbench.analysis.source.hunks import Characters, differences, face


def test_unchanged_lines_face_their_twins_and_changed_ones_what_is_alike() -> None:
    old = ["int a = f(1);", "same", "gone"]
    new = ["new", "int a = f(2);", "same"]
    rows = [(r.kind, r.old, r.new) for r in face(old, new, {2: 3}, {1, 3})]
    assert rows == [("new", None, 1), ("change", 1, 2), ("same", 2, 3), ("old", 3, None)]


def test_lines_of_one_hunk_face_no_lines_of_another() -> None:
    old, new = ["words", "code(1);"], ["words two", "words three", "code(2);"]
    rows = face(old, new, {}, {1, 2}, ({1: 1, 2: 2}, {1: 1, 2: 1, 3: 2}))
    assert [(r.old, r.new) for r in rows if r.new == 3] == [(2, 3)]


texts = st.lists(st.sampled_from(["a = 1;", "a = 2;", "}", "", "b(c, d);", "x"]), max_size=12)


@given(texts, texts)
def test_every_line_is_shown_once_and_in_order(old: list[str], new: list[str]) -> None:
    rows = face(old, new, {}, set())
    assert [row.old for row in rows if row.old] == list(range(1, len(old) + 1))
    assert [row.new for row in rows if row.new] == list(range(1, len(new) + 1))


@given(st.text(max_size=30), st.text(max_size=30))
def test_what_is_not_marked_as_different_is_equal(old: str, new: str) -> None:
    def rest(text: str, spans: tuple[Characters, ...]) -> str:
        kept = [c for n, c in enumerate(text) if not any(a <= n < b for a, b in spans)]
        return "".join("".join(kept).split())

    a, b = differences(old, new)
    assert rest(old, a) == rest(new, b)
