"""The difference of two programs as a table that people read: rows folded, names whole."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.factories import make_launch, make_profile
from workbench.programs.capture.capture_store import Shelf
from workbench.programs.capture.records import ProgramCapture
from workbench.programs.compared.program import ProgramDifference, compare_programs
from workbench.programs.compared.words import beside_words, waiting_words
from workbench.programs.recalled import ProgramDiff, Recalled, open_capture
from workbench.programs.shown.sheets import difference_sheet, fold, headline, program_sheet
from workbench.programs.shown.steps import kernel_step_view
from workbench.programs.tests.test_program_difference import capture, trace
from workbench.views.terminal.console import Text, name_rows, render
from workbench.views.terminal.show import show_view
from workbench.views.terminal.tables import sheet_view
from workbench.views.text.safe_output import name_parts

DATA = Path(__file__).resolve().parents[3] / "tests" / "data"
LONG = "sm90_xmma_gemm_f32f32_tf32f32_f32_nt_n_tilesize128x128x32_warpgroupsize1x1x1"


def program(**nanoseconds: int) -> ProgramCapture:
    """A program that launches each kernel once, or several times where it is `name_x3`."""
    return capture(trace(*nanoseconds.items()))


def of_truth(name: str) -> ProgramDiff:
    """A pair of the programs that are kept, the lines broken nowhere."""
    shelf = Shelf(DATA / "programs")
    old, new = (open_capture(shelf, f"@{name}-{side}") for side in ("before", "after"))
    return ProgramDiff(old, new)


def between(old: dict[str, int], new: dict[str, int]) -> ProgramDifference:
    return compare_programs(program(**old), program(**new))


@pytest.mark.parametrize(
    ("old", "new", "folded"),
    [
        (2_000, 2_060, True),  # the clock's step of a microsecond
        (2_000, 4_000, False),  # twice as long is no step of a clock, however short
        (900_000_000, 930_000_000, False),
    ],
)
def test_a_short_kernel_may_differ_by_the_clocks_step(old: int, new: int, folded: bool) -> None:
    still = {"a": 900_000_000, "b": 800_000_000}
    found = between({"k": old, **still}, {"k": new, **still})
    kept, left = fold(found)
    names = [found.rows[n].name for n in kept]
    assert ("k" not in names) == folded
    assert {row.name for row in left["unchanged"]} == {*still, *("k" * folded)}


def test_the_pace_of_iterations_is_said_to_be_the_tracers() -> None:
    found = of_truth("train_optimizer").difference
    assert beside_words(found).startswith("under the tracer an iteration starts every 45.1 ms")
    by_ncu = replace(found, old=replace(found.old, survey=replace(found.old.survey, way="ncu")))
    assert beside_words(by_ncu).startswith("an iteration starts every 45.1 ms")


def test_names_break_between_words_alone() -> None:
    found = between({LONG: 9_000_000, "b": 1_000_000}, {LONG: 3_000_000, "b": 2_000_000})
    parts = {part.rstrip("_… ") for part in name_parts(LONG)}
    for width in (80, 60):
        text = render(sheet_view(difference_sheet(found)), width).partition(" kernel ")[2]
        rows = [line.strip().split("  ")[0] for line in text.splitlines() if "_" in line]
        words = [word for row in rows for word in row.rstrip("…").split("_") if word]
        assert len(rows) > 1
        assert [word for word in words[:-1] if word not in parts] == []


@pytest.mark.parametrize("folder", ["programs", "captures"])
def test_no_two_rows_look_equal(folder: str) -> None:
    """Names of libraries differ behind what there is room for."""
    shelf = Shelf(DATA / folder)
    for name in shelf.names():
        sheet = program_sheet(shelf.load(name), everything=True)
        shown = Counter(row[0] for row in sheet.shown)
        assert [each for each, often in shown.items() if often > 1] == [], name
        assert max(map(len, shown)) <= 60


def test_kernels_of_one_name_have_headings_of_their_own() -> None:
    signatures = [f"void agent<Reduce<{type_}, 256> >({type_}*)" for type_ in ("float", "double")]
    sides = []
    for each in (9_000_000, 3_000_000):
        found = program(a=each, b=each // 2)
        works = [
            replace(work, name="agent", signature=signature)
            for work, signature in zip(found.survey.works, signatures, strict=True)
        ]
        survey = replace(found.survey, works=tuple(works))
        sides.append(Recalled(capture=replace(found, survey=survey), detail=None))
    diff = ProgramDiff(*sides)
    views = [render(kernel_step_view(x, diff.difference, width=90), 90) for x in diff.steps()]
    heads = [view.strip().partition("  ")[0] for view in views]
    assert heads == ["agent<…Reduce<float, 256>…>", "agent<…Reduce<double, 256>…>"]


def test_each_screen_leads_to_kernels_that_were_looked_at() -> None:
    """A fill that belongs to a group is none."""
    for name in ("layernorm_split", "layernorm_fused", "attention"):
        diff = of_truth(name)
        for step in diff.steps():
            said = render(kernel_step_view(step, diff.difference, width=400), 400)
            (found,) = re.findall(r"all of it: workbench diff @\S+::(\S+) @\S+::(\S+)\n", said)
            sides = (diff.old.profile, diff.new.profile)
            for kernel, side in zip(found, sides, strict=True):
                assert kernel in {launch.kernel for launch in side.launches}


def test_what_is_longer_than_its_column_keeps_every_letter() -> None:
    rows = name_rows(Text("Kernel2<cutlass::gemm, A<float>> → other_kernel"), 12)
    assert "".join(row.plain.replace(" ", "") for row in rows) == (
        "Kernel2<cutlass::gemm,A<float>>→other_kernel"
    )
    assert [row.plain for row in rows][:2] == ["Kernel2<", "cutlass::"]


def test_identical_launches_of_a_report_are_one_row() -> None:
    many = tuple(
        make_launch(kernel=f"k{n % 2}", index=n, grid=(2048 - n % 3, 1, 1)) for n in range(100)
    )
    report = make_profile(study="", version="", problem="", launches=many)
    text = render(show_view(report, label="x.ncu-rep"), 100)
    table = text.partition("100 launches\n")[2].split("\n\n")[0].splitlines()
    assert len(table) == 3  # its head, and a row for each kernel
    assert "50 launches" in table[1] and "50 launches" in table[2]
    # A version's launches are all parts of it.
    version = render(show_view(make_profile(launches=many[:6]), label="v1"), 100)
    assert version.count("\n ") >= 6 and "50 launches" not in version


def test_times_of_ranks_are_not_added_up_to_that_of_a_program() -> None:
    """What ranks do and wait at one time is no time that the program takes."""
    found = of_truth("ddp_straggler").difference
    assert found.together is not None and "whole program" not in beside_words(found)
    assert not [row.name for row in found.rows if "Broadcast" in row.name]


def test_a_kernel_that_a_tuner_tried_is_neither_praised_nor_blamed() -> None:
    """Of records that do not have the order of launches: the calls cannot be told from tuning."""

    def without_order(side: str) -> Recalled:
        found = open_capture(Shelf(DATA / "programs"), f"@triton_matmul-{side}")
        survey = replace(found.capture.survey, steady=None, sequence=())
        return replace(found, capture=replace(found.capture, survey=survey))

    diff = ProgramDiff(without_order("before"), without_order("after"))
    lines = headline(diff.difference)
    assert not [line for line in lines if "faster" in line or "slower" in line or "added" in line]
    assert any("1 → 8 configurations" in line for line in lines)
    assert "×" not in " ".join(" ".join(row) for row in difference_sheet(diff.difference).shown)
    (step,) = diff.steps()
    said = render(kernel_step_view(step, diff.difference, width=120), 120)
    assert "222 µs" in said and "749 µs" in said and "63.7%" not in said


def test_calls_after_a_tuner_are_told_beside_the_whole_program() -> None:
    """The side without a tuner has no steady state of its own: each of its launches is a call."""
    tried = (32, 64, 128, 256)
    surveys = []
    for blocks in ([(64, 3000)] * 30, [*((n, 900) for n in tried), *[(64, 1000)] * 30]):
        surveys.append(trace(*(("scale", ns, n) for n, ns in blocks)))
    old, new = map(capture, surveys)
    for sides, factor in (((old, new), "3.00× faster"), ((new, old), "3.00× slower")):
        lines = headline(compare_programs(*sides))
        assert any(factor in line for line in lines)
        assert any("the whole program" in line and "30 iterations" in line for line in lines)


def test_both_names_of_what_was_replaced_are_there() -> None:
    found = of_truth("orthogonalize").difference
    shown = [row[1] for row in difference_sheet(found).shown if row[0] == "replaced"]
    assert len(shown) == 2 and all("→ sm90_xmma_gemm_f32f32_tf32f32" in name for name in shown)
    alike = f"{LONG}_a", f"{LONG}_b"
    found = between({alike[0]: 9_000_000}, {alike[1]: 3_000_000})
    (name,) = (row[1] for row in difference_sheet(found).shown if row[0] == "replaced")
    assert name.endswith("_b")


@pytest.mark.parametrize(
    ("copy", "order", "inside"),
    [
        ("[copy DtoD]", ("x", "[copy DtoD]", "y"), True),
        ("[copy DtoD]", ("[copy DtoD]", "x", "y"), False),
        ("[copy HtoD]", ("x", "[copy HtoD]", "y"), False),
    ],
)
def test_a_copy_between_what_was_fused_belongs_to_it(
    copy: str, order: tuple[str, ...], inside: bool
) -> None:
    """One on the GPU that stood between them; at their edge it may be of another's."""
    old = dict.fromkeys(("first", *order, "last"), 1000000)
    found = between(old, {"first": 1_000_000, "w": 1_000_000, "last": 1_000_000})
    (fused,) = (row for row in found.rows if row.fate == "fused")
    assert len(fused.old) == 2 + inside
    assert (copy in [row.name for row in found.rows if row.fate == "went"]) != inside


def test_where_more_ran_than_an_iteration_lasts_nothing_is_said_to_wait() -> None:
    """Works that overlap: their sum says nothing of when the GPU was idle."""
    found = of_truth("string_graph").difference
    assert found.whole is not None

    def shorter(side: ProgramCapture) -> ProgramCapture:
        steady = side.survey.steady
        assert steady is not None
        steady = replace(steady, spans_ns=tuple(ns // 4 for ns in steady.spans_ns))
        return replace(side, survey=replace(side.survey, steady=steady))

    sides = shorter(found.whole[0]), shorter(found.whole[1])
    assert not waiting_words(replace(found, whole=sides))
