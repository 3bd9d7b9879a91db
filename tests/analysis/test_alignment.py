"""Alignment and hunks: right on code, whatever a shortest edit script would say."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.analysis.source.hunks import (
    Characters,
    FileDiff,
    diff_file,
    differences,
    face,
    front_matter,
    split_moves,
)
from workbench.analysis.source.lines import align, information, scan, slide, tokens_of


def diff(old: str, new: str, path: str = "k.cu") -> FileDiff:
    out = diff_file(scan(old, path), scan(new, path), {})
    split_moves([out], {})
    return out


def kinds(out: FileDiff) -> list[tuple[tuple[int, int], tuple[int, int], str]]:
    return [(d.old, d.new, d.kind) for d in out.drafts]


@given(
    old=st.lists(st.integers(0, 6), max_size=30),
    new=st.lists(st.integers(0, 6), max_size=30),
    weights=st.dictionaries(st.integers(0, 6), st.integers(0, 5)),
)
def test_matches_are_equal_and_in_order(
    old: list[int], new: list[int], weights: dict[int, int]
) -> None:
    pairs = align(old, new, weights)
    pairs = slide(pairs, old, new, [key % 3 for key in new])
    assert all(old[i] == new[j] for i, j in pairs)
    assert all(a < c and b < d for (a, b), (c, d) in pairwise(pairs))


@given(st.lists(st.integers(0, 6), max_size=40))
def test_equal_texts_match_wholly(lines: list[int]) -> None:
    assert align(lines, lines, {}) == [(n, n) for n in range(len(lines))]


def weight(pairs: list[tuple[int, int]], old: list[int], weights: dict[int, int]) -> int:
    """What matches weigh together: every line a little, and more where it says something."""
    return sum(1 + 8 * weights[old[i]] for i, _ in pairs)


def heaviest(old: list[int], new: list[int], weights: dict[int, int]) -> int:
    """The weight of the heaviest common subsequence, by the textbook."""
    best = [[0] * (len(new) + 1) for _ in range(len(old) + 1)]
    for i, a in enumerate(old):
        for j, b in enumerate(new):
            here = best[i][j] + 1 + 8 * weights[a] if a == b else 0
            best[i + 1][j + 1] = max(here, best[i][j + 1], best[i + 1][j])
    return best[-1][-1]


#: At least 1, so that no match says nothing and none is dropped as a coincidence.
seven_weights = st.fixed_dictionaries({key: st.integers(1, 5) for key in range(7)})


@given(new=st.permutations(range(7)), weights=seven_weights)
def test_of_lines_that_occur_once_the_heaviest_chain_wins(
    new: list[int], weights: dict[int, int]
) -> None:
    old = list(range(7))
    assert weight(align(old, new, weights), old, weights) == heaviest(old, new, weights)


two_or_three = st.lists(st.integers(0, 2), max_size=7)


@given(old=two_or_three, new=two_or_three, weights=seven_weights)
def test_between_lines_that_repeat_the_heaviest_subsequence_wins(
    old: list[int], new: list[int], weights: dict[int, int]
) -> None:
    # All keys at both ends, twice and in opposite orders: none is unique, no end is shared.
    old, new = [0, 1, 2, *old, 0, 1, 2], [2, 1, 0, *new, 2, 1, 0]
    assert weight(align(old, new, weights), old, weights) == heaviest(old, new, weights)


@pytest.mark.parametrize(("blanks", "matched"), [(3, 0), (4, 4)])
def test_up_to_three_lines_in_a_row_that_say_nothing_are_a_coincidence_in_a_rewrite(
    blanks: int, matched: int
) -> None:
    old, new = ([*[side] * 4, *[0] * blanks, *[side] * 4] for side in (1, 2))
    assert align(old, new, {0: 0}) == [(4 + n, 4 + n) for n in range(matched)]


def test_lines_of_a_small_box_are_matched_where_the_box_begins() -> None:
    old, new = [9, 1, 1, 2], [9, 3, 1, 1, 3]
    assert align(old, new, {}) == [(0, 0), (1, 2), (2, 3)]


def test_in_a_large_text_without_unique_lines_the_rarest_leads_to_the_heaviest_block() -> None:
    old = [*[1, 2] * 120, 7, *[1, 2] * 20, 7, 5, 5, 5, *[1, 2] * 20]
    new = [*[2, 2, 1, 1] * 60, 7, 5, 5, 5, *[2, 2, 1, 1] * 20]
    pairs = align(old, new, {1: 0, 2: 0})
    at, place = old.index(5) - 1, new.index(7)
    assert {(at + k, place + k) for k in range(4)} <= set(pairs)


@given(st.text(max_size=300))
def test_scanning_loses_no_line(text: str) -> None:
    source = scan(text, "k.cu")
    assert len(source.lines) == len(source.tokens) == len(source.comments)
    plain = text.replace("\r\n", "\n")
    assert "\n".join(source.lines) in (plain, plain.removesuffix("\n"))


def test_tokens_leave_comments_out() -> None:
    source = scan('a /* x\n y */ b // c \\\n d\n"/*" R"(//\n)" 1.5e-3f\n')
    assert source.tokens == (("a",), ("b",), (), ('"/*"', 'R"(//'), (')"', "1.5e-3f"))
    assert source.comments[0] == "/* x"
    assert tokens_of("x  /* y */ += 1'000;") == ("x", "+=", "1'000", ";")


def test_lines_that_say_nothing() -> None:
    for text in ("}", "__syncthreads();", "#pragma unroll", "} else {", "return;", ""):
        assert information(tokens_of(text)) == 0, text
    assert information(tokens_of("x = 1;")) == 2


def test_moved_block_is_not_removed_and_added() -> None:
    block = "p = f(1);\nq = f(2);\nr = f(3);\n"
    rest = "".join(f"s{n} = g({n});\n" for n in range(6))
    assert kinds(diff(block + rest, rest + block)) == [((1, 3), (7, 9), "moved")]


def test_two_moved_lines_are_no_moved_block() -> None:
    rest = "".join(f"s{n} = g({n});\n" for n in range(6))
    out = diff("p = f(1);\nq = f(2);\n" + rest, rest + "p = f(1);\nq = f(2);\n")
    assert {kind for _, _, kind in kinds(out)} == {"code"}


def test_white_space_and_comments_are_marked() -> None:
    old = "int a=1; // one\nint b;\n\nint c;\n"
    assert kinds(diff(old, "int a = 1; // one\nint b;\n\nint c;\n"))[0][2] == "whitespace"
    assert kinds(diff(old, "int a=1; // two\nint b;\n\nint c;\n"))[0][2] == "comment"
    assert kinds(diff(old, "int a=1; // one\nint b;\nint c;\n")) == [((3, 3), (3, 2), "whitespace")]


def test_front_matter_is_kept_apart() -> None:
    old = '/* ---\ntitle = "a"\n--- */\nint x;\n'
    new = '/* ---\ntitle = "b"\nchange = "c"\n--- */\nint x;\n'
    assert front_matter(scan(old)) == 3
    assert kinds(diff(old, new)) == [((2, 2), (2, 3), "front-matter")]


@pytest.mark.parametrize("prefix", ["", "r", "R"])
def test_front_matter_of_a_python_version(prefix: str) -> None:
    old = prefix + '"""\n---\ntitle = "a"\n---\n"""\nimport torch\n'
    new = old.replace('"a"', '"b"').replace("import torch", "import numpy")
    assert kinds(diff(old, new, "cudnn.py")) == [
        ((6, 6), (6, 6), "code"),
        ((3, 3), (3, 3), "front-matter"),
    ]


def test_indentation_is_code_in_python_only() -> None:
    assert kinds(diff("if a:\n  b()\n", "if a:\n  b()\n", "v.py")) == []
    assert kinds(diff("if a:\n  b()\n", "if a:\nb()\n", "v.py"))[0][2] == "code"
    assert kinds(diff("if (a)\n  b();\n", "if (a)\nb();\n"))[0][2] == "whitespace"


def test_no_text_on_one_side() -> None:
    assert kinds(diff("", "int a;\nint b;\n")) == [((1, 0), (1, 2), "code")]
    assert kinds(diff("", "")) == []


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
