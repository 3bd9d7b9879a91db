"""A link of a line is a name that stands on it, or is reached by names of which one does."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.analysis.attribution_pairs import DEVICE
from workbench.analysis.source.files import SourceDiff, compare_sources, read
from workbench.analysis.source.lines import Source, scan
from workbench.analysis.source.links import Line, LineLink
from workbench.model import Profile, SourceFile

KERNELS = Path(__file__).parents[2] / "kernels"


def compared(old: str, new: str, path: str) -> SourceDiff:
    old_side, new_side = (
        Profile(
            engine="ncu",
            device=DEVICE,
            captured="",
            launches=(),
            sources=(SourceFile(path=path, text=text),),
        )
        for text in (old, new)
    )
    return compare_sources(old_side, new_side, ())


def directive(source: Source, line: int) -> list[str]:
    """The tokens of a line; of a directive that goes on behind backslashes, those of all of it."""
    first = last = line
    while first > 1 and source.lines[first - 2].endswith("\\"):
        first -= 1
    while last < len(source.lines) and source.lines[last - 1].endswith("\\"):
        last += 1
    return [token for tokens in source.tokens[first - 1 : last] for token in tokens]


def assert_named(text: str, path: str, links: dict[Line, LineLink], diff: SourceDiff) -> None:
    """Every link of a line is shown by a name on it, or by what governs or holds the line."""
    source = scan(text, path)
    found = read([source])
    whole = set(diff.first_old.values()) | set(diff.first_new.values())
    for (file, line), link in links.items():
        if (file, line) in whole:
            continue  # the links of all lines of a statement that was broken otherwise
        shown = {link.via[-1]} if link.via else {symbol for _, symbol in link.labels}
        words = set(directive(source, line))
        words |= {diff.names[word] for word in words if word in diff.names}
        around = {g.label for g in found.governed if g.body[1] <= line <= g.body[2]}
        around |= {g.label for g in found.governed if g.bare and g.header[1] <= line <= g.header[2]}
        around |= {r.name for r in found.routines if r.place[1] <= line <= r.place[2]}
        around |= {diff.names[name] for name in around if name in diff.names}
        assert shown & (words | around), (path, line, source.lines[line - 1], link)


def assert_all_named(old: str, new: str, path: str = "k.cu") -> None:
    diff = compared(old, new, path)
    assert_named(old, path, diff.links_old, diff)
    assert_named(new, path, diff.links_new, diff)


STEPS = [
    (one, other)
    for study in sorted(KERNELS.iterdir())
    for one, other in pairwise(
        sorted(study.glob("v*.cu"), key=lambda path: int(path.name[1:].partition("_")[0]))
    )
]


@pytest.mark.parametrize(("old", "new"), STEPS, ids=[f"{a.parent.name}-{b.stem}" for a, b in STEPS])
def test_links_of_the_ladders_are_names_of_their_lines(old: Path, new: Path) -> None:
    assert_all_named(old.read_text(encoding="utf-8"), new.read_text(encoding="utf-8"))


def test_a_line_in_a_removed_loop_is_not_linked_by_a_variable_it_lacks() -> None:
    """The line under the loop's head mentions no `t`: it was governed by the loop over it."""
    body = "  f(n);\n"
    old = "__global__ void k(int n) {\n  for (int t = 0; t < 3; ++t) {\n  " + body + "  }\n}\n"
    diff = compared(old, "__global__ void k(int n) {\n" + body + "}\n", "k.cu")
    assert diff.links_old[0, 3].labels == {(1, "for t")}


def test_the_way_to_a_line_ends_with_a_name_that_stands_on_it() -> None:
    text = (
        "#define ROW (A + 1)\n#define A 1\n__global__ void k(float* o) {\n"
        "  int x = ROW;\n  int y = x;\n  o[y] = 1;\n}\n"
    )
    links = compared(text, text.replace("A 1", "A 2"), "k.cu").links_new
    assert {line: links[0, line].via for line in (1, 4, 5, 6)} == {
        1: (),
        4: ("ROW",),
        5: ("x",),
        6: ("x", "y"),
    }
    governed = text.replace("o[y] = 1;", "if (y) { o[0] = 1;\n o[2] = 2; }")
    links = compared(governed, governed.replace("A 1", "A 2"), "k.cu").links_new
    assert links[0, 7].via == ("x", "y", "if")


PIECES = [
    "#define A {}",
    "#define B (A + {})",
    "int v{} = n;",
    "for (int i = 0; i < v1; ++i) {{",
    "if (v{} > A) {{",
    "o[v1] = B;",
    "v1 = f(v{});",
    "}}",
    "f(i, B);",
]
texts = st.lists(
    st.builds(str.format, st.sampled_from(PIECES), st.sampled_from("12")), max_size=12
).map(
    lambda lines: "\n".join(
        [
            "__device__ int f(int q) {",
            "return q;",
            "}",
            "__global__ void k(int* o, int n) {",
            *lines,
        ]
    )
)


@given(old=texts, new=texts)
def test_links_of_anything_are_names_of_their_lines(old: str, new: str) -> None:
    assert_all_named(old, new)


def test_a_loop_without_braces_is_one_statement_with_its_head() -> None:
    """The compiler puts the code of a body that it unrolls on the head of the loop."""
    text = """__global__ void k(float* out, int n) {{
    __shared__ float tile[{width}];
    for (int c = threadIdx.x; c < n; c += 32)
        tile[c] = 1.0f;
    for (int c = 0; c < n; ++c) {{
        out[c] = tile[c];
    }}
}}
"""
    old, new = (text.format(width=width) for width in (32, 33))
    links = compared(old, new, "k.cu").links_new
    assert links[0, 3].via == ("for c",)
    # A block's statements stand on their own: this head does not use the array.
    assert (0, 5) not in links
