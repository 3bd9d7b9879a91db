"""Statements are the unit of a difference: whole, and the same whatever their line breaks."""

from __future__ import annotations

from itertools import chain

from hypothesis import given
from hypothesis import strategies as st

from tests.analysis.attribution_pairs import DEVICE
from workbench.analysis.source.cuda import Reader
from workbench.analysis.source.files import SourceDiff, compare_sources, read
from workbench.analysis.source.lines import scan
from workbench.analysis.source.symbols import SourceMap
from workbench.model import Profile, SourceFile


def profile(text: str, path: str = "k.cu") -> Profile:
    source = SourceFile(path=path, text=text)
    return Profile(engine="ncu", device=DEVICE, captured="", launches=(), sources=(source,))


def compared(old: str, new: str, path: str = "k.cu") -> SourceDiff:
    return compare_sources(profile(old, path), profile(new, path), ())


def blocks(diff: SourceDiff) -> list[tuple[str, tuple[int, int], tuple[int, int]]]:
    return [(hunk.kind, hunk.old, hunk.new) for hunk in diff.hunks]


CUDA = """\
template <int N>
__global__ void k(float* a,
                  int b) {
#pragma unroll
    for (int i = 0;
         i < 3; ++i)
        if (a &&
            b)
            a[i] =
                3;
        else f(a,
               b);
    auto s = [&](int c) {
        int z =
            2;
    };
    do { f(a, b); } while (b &&
                           a);
    asm volatile("x"
                 : "r"(a));
    int q = 1; float r =
        2;
    g();
}
struct S {
    int m,
        n;
};
#define M(x) \\
    x
"""


def test_statements_of_cuda_are_their_own_lines_without_those_of_nested_ones() -> None:
    found = SourceMap()
    Reader(found, 0, scan(CUDA))
    assert found.statements[0] == [
        (1, 3),  # a function's head, with its template's
        (4, 6),  # a pragma and the head of its loop
        (7, 8),
        (9, 10),
        (11, 12),
        (14, 15),  # in a lambda, and not the lambda's
        (17, 18),
        (19, 20),
        (21, 22),  # two that share a line
        (26, 27),
    ]


def test_statements_of_python_are_their_own_lines() -> None:
    text = "@jit\ndef k(a,\n      b):\n    x = f(a,\n          b)\n    if (a and\n"
    text += "            b):\n        x = 1\n    return x\n"
    assert read([scan(text, "k.py")]).statements[0] == [(1, 3), (4, 5), (6, 7)]


def test_a_line_that_continues_an_edited_statement_is_of_its_hunk() -> None:
    old = "__global__ void k(float* x) {\n  x[a] =\n    in ? 1 : 0;\n  g();\n}\n"
    diff = compared(old, old.replace("x[a]", "x[b]"))
    assert blocks(diff) == [("code", (2, 3), (2, 3))]
    assert diff.hunk_old == {(0, 2): 1, (0, 3): 1}
    assert (0, 3) not in diff.twin


def test_a_statement_with_other_line_breaks_explains_nothing() -> None:
    old = "__global__ void k(float* x) {\n  f(x, 1, 2,\n    3);\n  x[0] = 1;\n}\n"
    new = "__global__ void k(float* x) {\n  f(x, 1,\n    2,\n    3);\n  x[0] = 2;\n}\n"
    diff = compared(old, new)
    assert blocks(diff) == [("whitespace", (2, 3), (2, 4)), ("code", (4, 4), (5, 5))]
    assert diff.twin[0, 2] == (0, 2)
    assert diff.first_old == {(0, 2): (0, 2), (0, 3): (0, 2)}
    assert diff.first_new == {(0, 2): (0, 2), (0, 3): (0, 2), (0, 4): (0, 2)}


def test_a_python_call_with_other_line_breaks_explains_nothing() -> None:
    old = "def k(x):\n    f(x, 1)\n    x = 1\n"
    new = "def k(x):\n    f(\n        x, 1)\n    x = 2\n"
    assert blocks(compared(old, new, "k.py")) == [
        ("whitespace", (2, 2), (2, 3)),
        ("code", (3, 3), (4, 4)),
    ]


def test_a_long_table_is_not_edited_as_a_whole() -> None:
    rows = "".join(f"  {n},\n" for n in range(60))
    old = f"__constant__ int t[] = {{\n{rows}}};\n"
    assert blocks(compared(old, old.replace("  30,", "  31,"))) == [("code", (32, 32), (32, 32))]


PIECES = [
    "  x[a] = {}",
    "    {} + c;",
    "  f(x,",
    "    {});",
    "#pragma unroll",
    "  for (int i = 0; i < {}; ++i)",
    "  g();",
    "  }}",
    "  auto s = [&] {{",
]
bodies = st.lists(
    st.builds(str.format, st.sampled_from(PIECES), st.sampled_from("123")), max_size=14
).map(lambda lines: "\n".join(["__global__ void k(float* x) {", *lines, "}"]))


@given(old=bodies, new=bodies)
def test_every_line_has_one_fate_and_a_statement_only_one(old: str, new: str) -> None:
    diff = compared(old, new)
    back = {b: a for a, b in diff.twin.items()}
    for text, hunks, twins, first in (
        (old, diff.hunk_old, diff.twin, diff.first_old),
        (new, diff.hunk_new, back, diff.first_new),
    ):
        source = scan(text, "k.cu")
        for n, tokens in enumerate(source.tokens, 1):
            if tokens:
                assert ((0, n) in hunks) != (first.get((0, n), (0, n)) in twins)
        moved = {h.id for h in diff.hunks if h.kind == "moved"}
        for a, b in read([source]).statements[0]:
            lines = [(0, n) for n in range(a, b + 1) if source.tokens[n - 1]]
            if moved.isdisjoint(chain(hunks[line] for line in lines if line in hunks)):
                assert len({line in hunks for line in lines}) == 1
