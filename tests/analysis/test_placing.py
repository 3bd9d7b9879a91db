"""Which part an amount goes to: launches that are gone, links that compete, too many of them."""

from __future__ import annotations

import dataclasses

import pytest

from tests.factories import make_launch, make_metrics, make_profile
from workbench.analysis.aggregate import pair_launches
from workbench.analysis.source.files import compare_sources
from workbench.analysis.source.links import LineLink
from workbench.analysis.split.attribution import Part, attribute
from workbench.analysis.split.placing import MOST_SHARED, PartKey, Placing, launch_changes
from workbench.model import Column, InstructionTable, Launch, Profile, SourceFile


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


def keys(old_cost: int, new_cost: int) -> list[PartKey]:
    """Where a line goes that one symbol explains on the old side, another on the new one."""
    old = profile("a();\n", launch("k", 0, {1: 1}))
    launches = pair_launches(old.launches, old.launches)
    diff = dataclasses.replace(
        compare_sources(old, old, launches),
        links_old={(0, 1): LineLink(old_cost, frozenset({(1, "A")}), ())},
        links_new={(0, 1): LineLink(new_cost, frozenset({(2, "B")}), ())},
    )
    placing = Placing(old, old, diff, launches)
    return list(placing.placed[placing.place(0, 0, (0, 1))][1])


def test_the_closer_link_wins_and_equally_close_ones_share() -> None:
    a: PartKey = ("symbol", 1, "A", "")
    b: PartKey = ("symbol", 2, "B", "")
    assert (keys(1, 2), keys(2, 1), keys(1, 1)) == ([a], [b], [a, b])


@pytest.mark.parametrize("count", [MOST_SHARED, MOST_SHARED + 1])
def test_of_too_many_hunks_the_nearest_share_a_line(count: int) -> None:
    assert MOST_SHARED == 8

    def text(value: int) -> str:
        defines = "".join(f"#define D{n} {value + n}\nint between{n};\n" for n in range(count))
        return f"{defines}__global__ void k() {{ x({', '.join(f'D{n}' for n in range(count))}); }}"

    line = 2 * count + 1
    old, new = (profile(text(10 * v), launch("k", 0, {line: 8 * v})) for v in (1, 2))
    found = parts(old, new)
    nearest = [f"D{n}" for n in range(count - MOST_SHARED, count)]
    assert [(part.symbol, part.delta) for part in found] == [(name, 1) for name in nearest]


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
