"""Which file of one side is which of the other: by path, wherever the root, and by content."""

from __future__ import annotations

import pytest
from msgspec import structs

from tests.analysis.attribution_pairs import DEVICE
from tests.factories import make_instructions, make_launch, make_profile
from workbench.analysis.source.files import compare_sources
from workbench.analysis.source.lines import scan
from workbench.analysis.source.links import kernel_files, pair_files, side_of
from workbench.model import Profile, SourceFile


def paired(old: dict[str, str], new: dict[str, str]) -> set[tuple[str | None, str | None]]:
    """Paths that are paired."""
    sides = [[scan(text, path) for path, text in side.items()] for side in (old, new)]
    return {
        (sides[0][a].path if a is not None else None, sides[1][b].path if b is not None else None)
        for a, b in pair_files(sides[0], sides[1], set(), set())
    }


@pytest.mark.parametrize("root", ["/root/workspace/cutlass", "C:\\lib\\cutlass"])
def test_files_of_one_name_pair_under_another_root(root: str) -> None:
    """Three `gemm.h` whose text says nothing: only the ends of their paths tell them apart."""
    ends = ["gemm/kernel/gemm.h", "gemm/device/gemm.h", "gemm/thread/gemm.h"]
    slash = "\\" if "\\" in root else "/"
    old = {f"/home/a/cutlass/{end}": "int x;" for end in ends}
    new = {slash.join([root, *end.split("/")]): "int x;" for end in reversed(ends)}
    assert paired(old, new) == {
        (f"/home/a/cutlass/{end}", slash.join([root, *end.split("/")])) for end in ends
    }


def test_files_that_end_alike_pair_by_content() -> None:
    one, other = "int a;\nint b;\nint c;\n", "float x;\nfloat y;\nfloat z;\n"
    found = paired({"p/k.cu": one, "q/k.cu": other}, {"r/k.cu": other, "s/k.cu": one})
    assert found == {("p/k.cu", "s/k.cu"), ("q/k.cu", "r/k.cu")}


def test_a_renamed_file_pairs_by_its_lines_and_a_stranger_not_at_all() -> None:
    text = "int a;\nint b;\nint c;\nint d;\n"
    old = {"v8.cu": text, "gone.h": "double q;\ndouble r;\n"}
    new = {"v9.cu": text.replace("int d", "int e"), "come.h": "char s;\nchar t;\n"}
    assert paired(old, new) == {("v8.cu", "v9.cu"), ("gone.h", None), (None, "come.h")}


def test_a_licence_is_no_part_of_a_new_file() -> None:
    licence = "/* Copyright\n * All rights reserved.\n */\n\n"
    sides = [
        Profile(
            engine="ncu",
            device=DEVICE,
            captured="",
            launches=(),
            sources=tuple(SourceFile(path=path, text=text) for path, text in files.items()),
        )
        for files in (
            {"k.cu": "int a;\n"},
            {"k.cu": "int a;\n", "h.h": f"{licence}char c;\n// .\n"},
        )
    ]
    (hunk,) = compare_sources(sides[0], sides[1], ()).hunks
    assert (hunk.new_file, hunk.new, hunk.old) == ("h.h", (5, 5), (1, 0))


def test_a_kernel_lies_where_it_is_named_however_much_a_header_does() -> None:
    """Copies and products in in-line functions: most instructions are a header's."""
    kernel, header = "__global__ void conv2d() { go(); }\n", "inline void go() {}\n"
    table = make_instructions()
    table = structs.replace(table, file=(1, 1, 1, 1, 0))
    launch = make_launch(kernel="conv2d(float *)", instructions=table)
    found = side_of(make_profile(launches=(launch,)))
    assert kernel_files(found, [scan(kernel, "k.cu"), scan(header, "h.cuh")]) == {0}
    assert kernel_files(found, [scan("", "k.cu"), scan(header, "h.cuh")]) == {1}
