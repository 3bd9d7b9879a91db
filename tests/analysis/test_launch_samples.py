"""Launches of reports: samples of one kernel become one, kernels find their partners."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from tests.factories import make_instructions, make_launch, make_metrics, make_profile
from workbench.analysis.aggregate import How, LaunchPair, likeness, pair_launches
from workbench.analysis.attribution import attribute
from workbench.analysis.compare import Comparison, compare
from workbench.analysis.kernels import NO_PAIR, kernel_words, speaking
from workbench.analysis.launches import merged_by_work, side_by_side
from workbench.analysis.naming import template_arguments, titles
from workbench.analysis.sameness import doubts
from workbench.analysis.story import explain
from workbench.model import Column, InstructionTable, Launch, Metric, Number, Profile
from workbench.views.html.pages.diff import _spent
from workbench.views.terminal.console import render
from workbench.views.terminal.diff import diff_view

DURATION = "gpu__time_duration.sum"
REGISTERS = "launch__registers_per_thread"
RAN, READ = "smsp__inst_executed.sum", "dram__bytes_read.sum"


def ran(kernel: str, seconds: float | None, *, signature: Any = "", **metrics: Number) -> Launch:
    """One launch of a kernel; `metrics` by ncu's names."""
    return make_launch(
        kernel=kernel, signature=signature, metrics=make_metrics(**{DURATION: seconds}, **metrics)
    )


def read_once(kernel: str, seconds: float, read: float, **metrics: Number) -> Launch:
    """One launch that reads so many bytes, without a listing."""
    values = {RAN: 19e6, READ: read, **metrics}
    return structs.replace(ran(kernel, seconds, **values), instructions=InstructionTable())


def report(*launches: Launch) -> Profile:
    """What a program launched while ncu looked on."""
    numbered = tuple(structs.replace(x, index=n) for n, x in enumerate(launches))
    return make_profile(study="", version="", problem="", source_hash="", launches=numbered)


def merged(profile: Profile) -> list[Launch]:
    return [x for __, x in merged_by_work(profile, [0] * len(profile.launches))]


def speed(comparison: Comparison) -> float:
    assert comparison.speed is not None
    return comparison.speed.speedup


def test_three_launches_against_four_are_compared_launch_by_launch() -> None:
    old = report(*(ran("norm", 527e-6 + n * 1e-7) for n in (-1, 0, 1)))
    new = report(*(ran("norm_float4", 407e-6 + n * 1e-7) for n in (-2, -1, 1, 2)))
    comparison = compare(old, new)
    assert speed(comparison) == pytest.approx(527 / 407)
    assert comparison["duration"].verdict == "better"
    assert comparison["global_sectors"].delta == 0
    words = "3 launches before, 4 after: compared per launch; in total 1.58 ms → 1.63 ms."
    assert comparison.launch_words == (words,)
    (kernel,) = comparison.kernels
    assert (kernel.how, kernel.samples) == ("renamed", (3, 4))
    assert kernel.name == "norm → norm_float4"
    spread = kernel.spreads[1]
    assert spread is not None and spread.n == 4
    assert [spread.low, spread.median, spread.high] == pytest.approx([406.8e-6, 407e-6, 407.2e-6])


@pytest.mark.parametrize(("read", "factor"), [(67e6, 167.0), (33.6e6, 83.5)])
def test_launches_of_another_name_that_read_as_much_are_compared_one_by_one(
    read: float, factor: float
) -> None:
    old = report(read_once("global_atomic", 16.7e-3, 67e6))
    new = report(*(read_once("in_shared", 100e-6, read, **{RAN: 15e6}),) * 2)
    comparison = compare(old, new)
    assert speed(comparison) == pytest.approx(factor)
    said = "1 launch before, 2 after: compared per launch; in total 16.7 ms → 200 µs."
    assert comparison.launch_words == ((said,) if factor == 167 else ())


def test_a_job_that_one_side_repeats_is_compared_per_run() -> None:
    old = report(*(read_once("own", 44e-6, 128e6),) * 2)
    stages = read_once("reduce", 32e-6, 128e6), read_once("finish", 4e-6, 1e4)
    comparison = compare(old, report(*stages), labels=("a", "b"))
    assert speed(comparison) == pytest.approx(44 / 36)
    assert comparison.launch_words == (
        "2 runs before, 1 after; each read the same amount, so they are compared per run.",
        "Launched by a only: own (44.0 µs).",
        "Launched by b only: reduce (32.0 µs) and finish (4.00 µs).",
    )


def test_in_a_study_the_same_launches_add_up() -> None:
    old = make_profile(launches=(ran("relax", 1e-3),) * 2)
    new = make_profile(launches=(ran("relax", 1e-3),) * 3)
    assert side_by_side(new, new).old is new
    comparison = compare(old, new)
    assert comparison["duration"].old == pytest.approx(2e-3)
    assert comparison["duration"].new == pytest.approx(3e-3)
    assert comparison.launch_words == ("Launched by v2 only: relax (1.00 ms).",)


def test_another_configuration_or_code_is_no_sample() -> None:
    first = ran("k", 1e-3)
    table = first.instructions
    others = [
        structs.replace(first, grid=(7, 1, 1)),
        structs.replace(first, block=(64, 1, 1)),
        structs.replace(first, dynamic_shared=64),
        structs.replace(first, signature="void k<1>()"),
        ran("k", 1e-3, **{REGISTERS: 99}),
        structs.replace(first, instructions=structs.replace(table, text=("NOP", *table.text[1:]))),
        structs.replace(first, profiled=False),
    ]
    assert [x.samples for x in merged(report(first, *others))] == [1] * 7
    assert [x.samples for x in merged(report(*others, first, first, *others))] == [2] * 7


def test_grids_that_are_nearly_equal_are_one_class_as_in_a_capture() -> None:
    def sorts(seconds: float, *grids: int) -> Profile:
        return report(
            *(
                structs.replace(ran("sort", seconds + n * 1e-6), grid=(grid, 1, 1))
                for n, grid in enumerate(grids)
            )
        )

    comparison = compare(sorts(1.51, 2046, 2047, 2048), sorts(1.3167, 2048, 2046, 2047))
    (kernel,) = comparison.kernels
    assert kernel.samples == (3, 3)
    assert comparison["duration"].old == pytest.approx(1.510001)
    words = "3 launches on both sides: compared per launch, by their means."
    assert comparison.launch_words == (words,)
    # Which of them took how long is chance, and no change of the launch.
    both = side_by_side(sorts(1.0, 2046, 2048), sorts(1.0, 2048, 2046))
    assert [x.grid for x in (*both.old.launches, *both.new.launches)] == [(2048, 1, 1)] * 2
    assert [x.samples for x in merged(sorts(1.0, 2048, 1024, 2100))] == [1, 1, 1]


def test_one_kernel_in_another_number_of_near_grids_does_the_same_work() -> None:
    def copies(*grids: int) -> Profile:
        one = ran("copy", 1e-3)
        return report(*(structs.replace(one, grid=(grid, 1, 1)) for grid in grids))

    assert doubts(copies(1000, 1001, 1002), copies(1000)) == ()


AGENT = "_kernel_agent"


def agents(number: str, *seconds: float, tile: int = 256) -> Profile:
    """Two kernels of one name, as thrust makes them of functors and iterators."""
    functors = [
        f"void thrust::core::{AGENT}<thrust::ForAgent<thrust::tabulate<{number}*, "
        f"thrust::{functor}<{number}>>, long>, {tile}>(long)"
        for functor in ("square", "minus")
    ]
    return report(
        *(
            structs.replace(ran(AGENT, one, signature=functor), grid=(100 * (n + 1), 1, 1))
            for n, (one, functor) in enumerate(zip(seconds, functors, strict=True))
        )
    )


def test_functors_of_another_type_are_one_kernel_with_the_difference_shown() -> None:
    comparison = compare(agents("float", 1e-3, 2e-3), agents("double", 8.6e-3, 17.2e-3, tile=128))
    assert {kernel.how for kernel in comparison.kernels} == {"name"}
    assert speed(comparison) == pytest.approx(1 / 8.6)
    assert [kernel.name for kernel in comparison.kernels] == [
        f"{AGENT}<…float, {functor}…> → {AGENT}<…double, {functor}…>"
        for functor in ("square", "minus")
    ]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["f", "Kernel"]),
            st.lists(st.sampled_from(["float", "double", "plus", "16", "A<B, C>"]), max_size=4),
        ),
        max_size=6,
        unique_by=str,
    )
)
def test_titles_tell_signatures_apart(drawn: list[tuple[str, list[str]]]) -> None:
    launches = [
        ran(name, 1e-3, signature=f"void {name}<{', '.join(args)}>()") for name, args in drawn
    ]
    told = titles(launches)
    assert len(told) == len(launches)
    for (name, args), title in zip(drawn, told, strict=True):
        alike = [other for other, each in zip(drawn, told, strict=True) if each == title]
        # Two that hold the same words differ in their order alone, and by nothing that is short.
        assert all(other[0] == name and sorted(other[1]) == sorted(args) for other in alike)


def test_the_mean_of_samples_is_whole_where_integers_divide() -> None:
    low, high = (
        structs.replace(
            ran("k", seconds, **{RAN: count}),
            instructions=make_instructions(
                inst_executed={0: count, 1: 4}, smsp__pcsamp_sample_count={0: 3, 2: odd}
            ),
        )
        for seconds, count, odd in ((1e-3, 10, 1), (3e-3, 20, 2))
    )
    (mean,) = merged(report(low, high))
    assert mean.samples == 2
    assert mean.metrics[DURATION].value == pytest.approx(2e-3)
    assert mean.metrics[RAN].value == 15 and isinstance(mean.metrics[RAN].value, int)
    columns = mean.instructions.columns
    assert columns["inst_executed"] == Column(rows=(0, 1), values=(15, 4))
    # 3 and 1.5: counts stay counts, and the total is the rounded mean of the totals.
    assert columns["smsp__pcsamp_sample_count"] == Column(rows=(0, 2), values=(3, 2))
    assert mean.rules == high.rules


def test_tables_without_what_never_ran_are_laid_over_each_other() -> None:
    whole = make_instructions()
    rows = (0, 2, 3)
    part = InstructionTable(
        address=tuple(whole.address[n] for n in rows),
        text=tuple(whole.text[n] for n in rows),
        file=tuple(whole.file[n] for n in rows),
        line=tuple(whole.line[n] for n in rows),
        columns={"inst_executed": Column(rows=(1,), values=(512,))},
    )
    launches = [structs.replace(ran("k", 1e-3), instructions=table) for table in (part, whole)]
    (mean,) = merged(report(*launches))
    assert mean.instructions.address == whole.address
    assert mean.instructions.text == whole.text
    executed = mean.instructions.columns["inst_executed"]
    assert executed.rows == (0, 1, 2, 3, 4)
    assert executed.values == (512, 512, 768, 512, 512)


@given(
    st.lists(
        st.dictionaries(st.integers(0, 4), st.integers(0, 1000), max_size=5), min_size=1, max_size=6
    )
)
def test_no_count_of_a_mean_is_off_by_one(tables: list[dict[int, int]]) -> None:
    launches = [
        structs.replace(ran("k", 1e-3), instructions=make_instructions(inst_executed=table))
        for table in tables
    ]
    (mean,) = merged(report(*launches))
    column = mean.instructions.columns["inst_executed"]
    found = dict(zip(column.rows, column.values, strict=True))
    n = len(tables)
    for row in range(5):
        exact = Fraction(sum(table.get(row, 0) for table in tables), n)
        assert -1 < Fraction(found.get(row, 0)) - exact < 1
        if exact.denominator == 1:
            assert found.get(row, 0) == exact
    whole = Fraction(sum(sum(table.values()) for table in tables), n)
    assert -Fraction(1, 2) <= Fraction(sum(column.values)) - whole <= Fraction(1, 2)


counts = st.dictionaries(st.integers(0, 4), st.integers(0, 10**9), max_size=5)


@given(st.lists(counts, min_size=1, max_size=5), st.lists(counts, min_size=1, max_size=5))
def test_the_parts_of_merged_samples_add_up(
    before: list[dict[int, int]], after: list[dict[int, int]]
) -> None:
    sides = [
        report(
            *(
                structs.replace(
                    ran("k", 1e-3),
                    instructions=make_instructions(
                        inst_executed=table, memory_l1_wavefronts_shared=table
                    ),
                )
                for table in tables
            )
        )
        for tables in (before, after)
    ]
    both = side_by_side(*sides)
    result = attribute(both.old, both.new)
    for split in result.counters:
        sums = [
            sum(profile.launches[0].instructions.columns[split.counter].values)
            for profile in (both.old, both.new)
        ]
        assert [split.old, split.new] == sums
        assert sum(part.delta for part in split.parts) == split.delta == sums[1] - sums[0]
        assert all(isinstance(part.delta, int) for part in split.parts)
    assert {"inst_executed", "memory_l1_wavefronts_shared"} == {s.counter for s in result.counters}


def test_merging_again_changes_nothing() -> None:
    profile = report(ran("k", 1e-3), ran("k", 2e-3), ran("j", 1e-3))
    once = side_by_side(profile, profile).each[0]
    both = side_by_side(once, once)
    assert side_by_side(both.old, both.new).old is both.old


def plain(kernel: str, signature: str = "", **fields: object) -> Launch:
    return structs.replace(ran(kernel, 1e-3, signature=signature), **fields)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param(
            [plain("K", "K<B2b>"), plain("K", "K<Gemm>")],
            [plain("K", "K<Gemm>")],
            [(0, None, "removed"), (1, 0, "signature")],
            id="template arguments tell kernels apart",
        ),
        pytest.param(
            [plain("k", grid=(9, 1, 1)), plain("k", grid=(3, 1, 1))],
            [plain("k", grid=(3, 1, 1)), plain("k", grid=(8, 1, 1))],
            [(0, 1, "signature"), (1, 0, "signature")],
            id="one configuration before another",
        ),
        pytest.param(
            [plain("gemm", "gemm<8, false>")],
            [plain("gemm", "gemm<8>")],
            [(0, 0, "name")],
            id="other template arguments",
        ),
        pytest.param(
            [plain("gemm_v1"), plain("init_v1")],
            [plain("init_v2"), plain("gemm_v2"), plain("clear")],
            [(0, 1, "renamed"), (1, 0, "renamed"), (None, 2, "added")],
            id="renamed, in another order and with a third",
        ),
        pytest.param(
            [plain("gemv_1", grid=(n, 1, 1)) for n in (265, 410, 8)],
            [plain("gemv_3", grid=(n, 1, 1)) for n in (265, 8)],
            [(0, 0, "renamed"), (1, None, "removed"), (2, 1, "renamed")],
            id="of two kernels what has one shape",
        ),
        pytest.param(
            [plain("im2col"), plain("direct")],
            [plain("im2col"), plain("winograd")],
            [(0, 0, "signature"), (1, 1, "order")],
            id="nothing but the order is left",
        ),
        pytest.param(
            [plain("a", workload="graph")],
            [plain("a")],
            [(0, 0, "order")],
            id="a graph is no kernel of that name",
        ),
    ],
)
def test_launches_find_their_partners(
    old: list[Launch], new: list[Launch], expected: list[tuple[int | None, int | None, How]]
) -> None:
    assert [(p.old, p.new, p.how) for p in pair_launches(old, new)] == expected


def test_names_alone_make_no_renamed_kernel() -> None:
    """Two steps of one program share half of their names; their code tells them apart."""
    table = make_instructions()
    other = structs.replace(table, text=("HMMA.16816.F32 R0, R1",) * len(table.text), columns={})
    a = plain("layer_forward")
    b = plain("layer_backward", grid=(1, 1, 1), block=(1, 1, 1), instructions=other)
    assert likeness(a, plain("layer_forward2")) > 0.9
    assert likeness(a, b) < 0.6
    assert likeness(a, structs.replace(a, profiled=False)) == 0
    assert pair_launches([a, plain("x")], [b]) == (
        LaunchPair(kernel="layer_forward", old=0, new=None, how="removed"),
        LaunchPair(kernel="x", old=1, new=None, how="removed"),
        LaunchPair(kernel="layer_backward", old=None, new=0, how="added"),
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (("deriv_x", "deriv_y", "deriv_z"), ("deriv_x_long", "deriv_y_long", "deriv_z_long")),
        (("kernel1_block", "kernel2_block"), ("kernel1_warp", "kernel2_warp")),
        (("reduce1", "scan1"), ("reduce2", "scan2")),
        (("norm_rows", "softmax_rows"), ("norm_columns", "softmax_columns")),
        (("fp16_gemm_a", "fp16_gemm_b"), ("fp16_gemm_a_tiled", "fp16_gemm_b_tiled")),
        (("loadInput", "storeOutput"), ("loadInputVector", "storeOutputVector")),
    ],
)
def test_renamed_kernels_of_other_shapes_pair_by_their_names(
    before: tuple[str, ...], after: tuple[str, ...]
) -> None:
    """Whatever their order and times, and however unlike their code is."""
    table = make_instructions()
    other = structs.replace(table, text=("HMMA.16816.F32 R0, R1",) * len(table.text), columns={})
    shape: dict[str, Any] = {"block": (1, 1, 1), "instructions": other}
    old = [ran(name, 1e-6 * (n + 3)) for n, name in enumerate(before)]
    new = [structs.replace(ran(name, 1e-6 * n), **shape) for n, name in enumerate(after[::-1], 2)]
    last = len(new) - 1
    assert [(p.old, p.new) for p in pair_launches(old, new)] == [
        (n, last - n) for n in range(last + 1)
    ]


def test_what_only_one_report_launches_is_named_and_left_out() -> None:
    gemm = ran("K", 8.1e-6, signature="void K<Gemm<int>>()", **{REGISTERS: 130})
    fused = ran("K", 15.2e-6, signature="void K<B2bGemm<int>>()", **{REGISTERS: 128})
    comparison = compare(report(fused, gemm, gemm), report(gemm, gemm), labels=("a", "b"))
    assert comparison.speed is None
    assert comparison.partial.startswith("Only 51.6% of the time of a is in kernels that both")
    assert not any(delta.moved for delta in comparison.counters)
    assert comparison.launch_words == (
        "2 launches on both sides of K<Gemm<…>>: compared per launch, by their means.",
        "Launched by a only: K<B2bGemm<…>> (15.2 µs), which is not part of the comparison.",
    )
    # In a version, they are parts of one run.
    parts = make_profile(launches=(fused, gemm)), make_profile(launches=(gemm,))
    assert speed(compare(*parts)) == pytest.approx(23.3 / 8.1)


def test_a_launch_that_was_never_measured_is_no_kernel_of_the_comparison() -> None:
    ghost = structs.replace(ran("ghost", 1e-3), metrics={}, profiled=False)
    comparison = compare(report(ran("k", 1e-3), ghost), report(ran("k", 1e-3)))
    assert [kernel.name for kernel in comparison.kernels] == ["k"]
    assert comparison.launch_words == ()
    assert "1 launch listed but never profiled, and left out" in comparison.warnings


def test_kernels_of_reports_that_have_nothing_in_common_are_all_compared() -> None:
    old, new = report(ran("im2col", 1e-3), ran("gemm", 2e-3)), report(ran("direct", 1e-3))
    comparison = compare(old, new, labels=("a", "b"))
    assert speed(comparison) == pytest.approx(3.0)
    assert comparison.launch_words == (
        "Launched by a only: gemm (2.00 ms) and im2col (1.00 ms).",
        "Launched by b only: direct (1.00 ms).",
    )
    # No kernel has registers before and after: the longest of either side are two kernels.
    registers = comparison["registers"]
    assert (registers.old, registers.new, registers.reason) == (None, None, NO_PAIR)
    assert "egisters" not in render(diff_view(comparison))


def test_registers_are_of_a_pair_of_kernels_and_never_of_the_longest_launches() -> None:
    """The longest kernel before is not the longest one after: no kernel went from 64 to 37."""
    waves = "launch__waves_per_multiprocessor"
    old = report(
        ran("step", 5.62e-3, **{REGISTERS: 37, waves: 68.3}),
        ran("tend", 6.19e-3, **{REGISTERS: 64, waves: 102.4}),
    )
    new = report(
        ran("step", 5.59e-3, **{REGISTERS: 37, waves: 68.3}),
        ran("tend", 3.48e-3, **{REGISTERS: 62, waves: 102.4}),
    )
    comparison = compare(old, new)
    registers = comparison["registers"]
    assert (registers.old, registers.new, registers.rule) == (64, 62, "of tend")
    assert not comparison["waves"].moved
    values = {k.name: [(v.id, v.old, v.new) for v in k.values] for k in comparison.kernels}
    assert values == {"step": [], "tend": [("registers", 64, 62)]}
    said = [kernel_words(kernel) for kernel in comparison.kernels]
    assert said == [
        "step 5.62 ms → 5.59 ms, equally fast within the noise",
        "tend 6.19 ms → 3.48 ms, 1.78× faster",
    ]


def test_the_pair_that_changed_speaks_before_the_pair_that_is_largest() -> None:
    large, small = ran("large", 9e-3, **{REGISTERS: 40}), ran("small", 2e-3, **{REGISTERS: 30})
    better = ran("small", 1e-3, **{REGISTERS: 20})
    changed = compare(report(large, small), report(large, better))
    assert (changed["registers"].old, changed["registers"].new) == (30, 20)
    same = compare(report(large, small), report(large, ran("small", 2e-3, **{REGISTERS: 31})))
    assert (same["registers"].old, same["registers"].new) == (40, 40)
    assert [v.id for k in same.kernels for v in k.values] == ["registers"]
    assert speaking(()) is None


def test_the_pair_that_speaks_goes_the_way_of_the_whole() -> None:
    old = report(ran("add", 20e-6), ran("scan", 90e-6), ran("fix", 80e-6))
    new = report(ran("add", 9e-6), ran("scan", 100e-6), ran("fix", 89e-6))
    assert (spoke := speaking(compare(old, new).kernels)) and spoke.name == "scan"


def test_without_durations_the_kernel_with_the_instructions_speaks() -> None:
    clear = ran("clear", None, **{REGISTERS: 8, RAN: 10})
    old = report(clear, ran("gemm", None, **{REGISTERS: 60, RAN: 1000}))
    new = report(clear, ran("gemm", None, **{REGISTERS: 64, RAN: 1000}))
    registers = compare(old, new)["registers"]
    assert (registers.old, registers.new) == (60, 64)


def test_the_story_is_of_what_is_compared() -> None:
    old, new = report(*(ran("k", 2e-3),) * 2, ran("other", 5e-3)), report(ran("k", 1e-3))
    story = explain(old, new, compare(old, new))
    assert story.time is not None
    assert (story.time.old_s, story.time.new_s) == (2e-3, 1e-3)
    assert [m.old for m in story.attribution.launches] == ["k"]


@pytest.mark.parametrize(
    ("kernel", "signature", "short"),
    [
        (
            "Kernel",
            "void cutlass::Kernel<cutlass::gemm::kernel::B2bGemm<cutlass::A<(int)3>>>(T1::Params)",
            "B2bGemm<…>",
        ),
        ("gemm", "void gemm<(int)128, (bool)0, float>(float *)", "128, 0, float"),
        ("f", "void f<(anonymous namespace)::Op, std::pair<int, int>>()", "Op, pair<…>"),
        ("plain", "plain(float *)", ""),
        ("none", "", ""),
    ],
)
def test_short_template_arguments(kernel: str, signature: str, short: str) -> None:
    assert template_arguments(plain(kernel, signature)) == short


def test_titles_say_no_more_than_is_needed() -> None:
    assert titles([plain("a", "a<1>"), plain("b")]) == ["a", "b"]
    assert titles([plain("a", "a<1>"), plain("a", "a<2>"), plain("a", "a<1>")]) == [
        "a<1>",
        "a<2>",
        "a<1>",
    ]
    assert titles([plain("Kernel", "void cutlass::Kernel<cutlass_80_sgemm>(T1::Params)")]) == [
        "Kernel<cutlass_80_sgemm>"
    ]
    grids = [plain("a", grid=(4, 2, 1)), plain("a", grid=(8, 2, 1))]
    assert titles(grids) == ["a grid 4×2×1", "a grid 8×2×1"]
    tiles = [
        plain("K", f"K<Gemm<{'Some::' * 9}Long<A>, Shape<(int){n}, (int)8>, B>>") for n in (4, 6)
    ]
    assert titles(tiles) == ["K<…Shape<4, 8>…>", "K<…Shape<6, 8>…>"]
    assert len(template_arguments(plain("a", f"a<{'x' * 99}>"))) == 60


def test_a_metric_that_is_no_number_is_of_one_launch() -> None:
    words = [
        structs.replace(ran("k", 1e-3), metrics={"device": Metric(value=name)}, absent={"x": "NaN"})
        for name in ("a", "b")
    ]
    with_x = structs.replace(words[0], metrics={"x": Metric(value=1)}, absent={})
    (mean,) = merged(report(*words, with_x))
    assert mean.metrics["device"].value in ("a", "b")
    assert mean.absent == {} and mean.metrics["x"].value == 1


def test_kernels_of_which_no_time_is_known_have_no_table_of_dashes() -> None:
    """As the emulator leaves them: the counters below say what moved."""
    old = report(ran("norm", None), ran("gemm", None))
    assert "Kernels" not in render(diff_view(compare(old, report(*old.launches))))
    timed = report(ran("norm", 1e-6), ran("gemm", None))
    assert "Kernels" in render(diff_view(compare(old, timed)))


def test_a_kernel_of_unknown_time_did_not_take_none() -> None:
    old, new = (report(ran("norm", 1e-3 * n), ran("gemm", s)) for n, s in ((1, 5e-3), (2, None)))
    comparison = compare(old, new)
    assert [one.spent for one in comparison.kernels] == [(1e-3, 2e-3), None]
    assert len(_spent(compare(old, old))) == 2 and _spent(comparison) == []  # no bar of one part
