"""Which part an amount goes to: launches that are gone, links that compete, too many of them."""

from __future__ import annotations

import dataclasses

from tests.factories import make_launch, make_metrics, make_profile
from workbench.analysis.attribution import Part, attribute
from workbench.analysis.placing import Placed, Placing, launch_changes
from workbench.analysis.source.links import LineLink
from workbench.model import IMAGE, Build, Column, InstructionTable, Launch, Profile, SourceFile


def launch(kernel: str, index: int, cells: dict[int, int]) -> Launch:
    """A launch that executed instructions on lines: {line: times}."""
    rows = tuple(range(len(cells)))
    return Launch(
        kernel=kernel,
        index=index,
        instructions=InstructionTable(
            address=rows,
            text=("NOP",) * len(rows),
            file=(0,) * len(rows),
            line=tuple(cells),
            columns={"inst_executed": Column(rows=rows, values=tuple(cells.values()))},
        ),
    )


def profile(text: str, *launches: Launch) -> Profile:
    return make_profile(launches=launches, sources=(SourceFile(path="k.cu", text=text),))


def parts(old: Profile, new: Profile) -> tuple[Part, ...]:
    return attribute(old, new)["inst_executed"].parts


def test_a_launch_that_is_gone_or_new_takes_its_lines_along() -> None:
    text = "__global__ void k() { a(); }\n__global__ void m() { b(); }\n"
    one, other = launch("k", 0, {1: 5}), launch("m", 1, {2: 7})
    both, alone = profile(text, one, other), profile(text, one)
    (gone,) = parts(both, alone)
    assert (gone.link, gone.symbol, gone.note, gone.delta) == ("launch", "m", "removed", -7)
    (come,) = parts(alone, both)
    assert (come.link, come.symbol, come.note, come.delta) == ("launch", "m", "added", 7)


def placed(old_cost: int, new_cost: int) -> Placed:
    """Where a line goes that one symbol explains on the old side, another on the new one."""
    old = profile("a();\n", launch("k", 0, {1: 1}))
    placing = Placing(old, old)
    placing.diff = dataclasses.replace(
        placing.diff,
        links_old={(0, 1): LineLink(old_cost, frozenset({(1, "A")}), ())},
        links_new={(0, 1): LineLink(new_cost, frozenset({(2, "B")}), ())},
    )
    return placing.placed[placing.place(0, 0, (0, 1))]


def test_the_closer_link_wins_and_equally_close_ones_are_one_part() -> None:
    found = placed(1, 2), placed(2, 1), placed(1, 1)
    assert [(each.key.hunks, each.key.symbol, each.symbols) for each in found] == [
        ((1,), "A", ("A",)),
        ((2,), "B", ("B",)),
        ((1, 2), "", ("A", "B")),
    ]


def test_what_several_hunks_explain_equally_is_one_part_of_all_of_them() -> None:
    """Whatever each line's names: three hunks, one line by each of them and one by a fourth."""

    def text(value: int) -> str:
        defines = "".join(f"#define D{n} {value + n}\nint between{n};\n" for n in range(3))
        return f"{defines}__global__ void k() {{\nx(D0, D1);\ny(D0 + D1);\nz(D2);\n}}"

    counts = {8: 10, 9: 20, 10: 40}
    old, new = (
        profile(text(10 * v), launch("k", 0, {line: n * v for line, n in counts.items()}))
        for v in (1, 2)
    )
    one, both = sorted(parts(old, new), key=lambda part: len(part.hunks))
    assert (one.hunks, one.symbol, one.delta, one.shared) == ((3,), "D2", 40, False)
    assert (both.hunks, both.symbols, both.delta, both.shared) == ((1, 2), ("D0", "D1"), 30, True)
    assert (both.hunk, both.symbol, both.key) == (None, None, ("symbol", (1, 2), "", ""))


def test_an_instance_is_named_before_its_parameters() -> None:
    sides = [
        make_launch(kernel="k", signature=f"void k<(int){n}>(Vec<(int)3>, Vec<(int)4>)")
        for n in (16, 32)
    ]
    changes = launch_changes(make_profile(), make_profile(), *sides)
    assert changes == ("template arguments <(int)16> → <(int)32>",)


def test_clusters_differ_only_where_both_are_known() -> None:
    def clustered(x: int | None) -> Launch:
        sizes = {"launch__cluster_dim_x": x, "launch__cluster_dim_y": 1, "launch__cluster_dim_z": 1}
        return make_launch(metrics=make_metrics(**({} if x is None else sizes)))

    for old, new, changes in ((None, 2, ()), (2, None, ()), (2, 2, ()), (2, 4, ("cluster",))):
        both = clustered(old), clustered(new)
        assert launch_changes(make_profile(), make_profile(), *both) == changes


def test_of_an_image_nobody_knows_the_flags() -> None:
    """A lifted kernel was compiled by its program; a version of its source is compiled here."""
    image, mine, other = (
        make_profile(build=Build(compiler=compiler, arch="sm_90", flags=flags))
        for compiler, flags in ((IMAGE, ()), ("nvcc 13.0", ("-O3",)), ("nvcc 13.0", ("-O2",)))
    )
    one = make_launch()
    assert launch_changes(image, mine, one, one) == launch_changes(mine, image, one, one) == ()
    assert launch_changes(mine, other, one, one) == ("flags without -O3, with -O2",)


def test_long_instances_are_cut_and_still_tell_what_differs() -> None:
    shape = "cutlass::gemm::GemmShape<(int){}, (int)128, (int)128>"
    long = "void Kernel<cutlass::gemm::kernel::{}<cutlass::Mma<" + shape + ", float>, (bool)1>>(P)"
    sides = [
        make_launch(kernel="Kernel", signature=long.format(name, n))
        for name, n in (("B2bGemm", 32), ("Gemm", 32), ("Gemm", 64))
    ]
    (words,) = launch_changes(make_profile(), make_profile(), sides[0], sides[1])
    assert "…::kernel::B2bGemm<" in words and "… → …::kernel::Gemm<" in words
    (words,) = launch_changes(make_profile(), make_profile(), sides[1], sides[2])
    assert "…::GemmShape<(int)32, " in words and "… → …::GemmShape<(int)64, " in words
