"""The program's difference: what became of each kernel, and rows that add up."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.factories import H200, make_launch, make_metrics, make_profile
from workbench.analysis.times.noise import student
from workbench.errors import InconclusiveError
from workbench.model import Device, Profile
from workbench.programs.capture.records import ProgramCapture, Survey, TracedLaunch
from workbench.programs.capture.trace import Trace, survey_of
from workbench.programs.compared.counterparts import pair_works
from workbench.programs.compared.program import compare_programs, total
from workbench.programs.compared.steps import kernel_steps
from workbench.programs.compared.words import program_words, step_words
from workbench.units import faster


def trace(*sequence: tuple[Any, ...]) -> Trace:
    """Launches one after the other on one stream: symbol, nanoseconds; threads, blocks."""
    out, now = [], 1000
    for symbol, length, *shape in sequence:
        block, blocks = shape[0] if shape else 32, shape[1] if shape[1:] else 8
        grid = (0, 0, 0) if symbol.startswith("[") else (blocks, 1, 1)
        out.append(TracedLaunch(symbol, 1, 0, 7, False, now, now + length, grid, (block, 1, 1)))
        now += length + 5
    return Trace(launches=tuple(out), processes=1)


def survey(*sequence: tuple[str, int], times: int = 1) -> Survey:
    return survey_of([trace(*(sequence * times))], [0.1])


def capture(*surveys: Trace, name: str = "x", device: Device = H200) -> ProgramCapture:
    return ProgramCapture(
        name=name,
        command=("python", "bench.py"),
        captured="2026-11-22T06:00:00Z",
        survey=survey_of(surveys, [0.1] * len(surveys)),
        device=device,
    )


launches = st.lists(
    st.tuples(
        st.sampled_from(
            (
                *("_Z4gemmPf", "_Z4gemmPd", "_Z4gemmIfEvPT_", "softmax", "softmax_v2", "relu"),
                *("bias", "bias_relu", "[copy HtoD]", "[fill]", "add_kernel_0d1d2de3c"),
            )
        ),
        st.integers(0, 10**7),
    ),
    min_size=1,
    max_size=40,
)


@settings(max_examples=30)
@given(st.lists(launches, min_size=1, max_size=3), st.lists(launches, min_size=1, max_size=3))
def test_every_kernel_is_in_one_row_and_rows_add_up(
    before: list[list[tuple[str, int]]], after: list[list[tuple[str, int]]]
) -> None:
    old = capture(*(trace(*run) for run in before))
    new = capture(*(trace(*run) for run in after))
    found = compare_programs(old, new)
    for side, of in ((old, "old"), (new, "new")):
        places = [place for row in found.rows for place in getattr(row, of)]
        assert sorted(places) == list(range(len(side.survey.works)))
        assert sum(getattr(row, f"{of}_weight") for row in found.rows) == sum(side.survey.totals)
        launched = sum(sum(work.launches) for work in side.survey.works)
        assert sum(getattr(row, f"{of}_launches") for row in found.rows) == launched
    change = sum(b - a for a, b in map(found.seconds, found.rows))
    assert change == pytest.approx(found.change_s.value, rel=1e-9, abs=1e-15)


@settings(max_examples=20)
@given(launches)
def test_a_program_is_the_same_as_itself(sequence: list[tuple[str, int]]) -> None:
    one = capture(trace(*sequence))
    found = compare_programs(one, one)
    assert {row.fate for row in found.rows} == {"same"}
    assert all(row.old == row.new for row in found.rows) and not found.moved


def fates(old: Survey, new: Survey) -> set[tuple[str, str, str]]:
    return {
        (
            pair.fate,
            "+".join(sorted(old.works[place].name for place in pair.old)),
            "+".join(sorted(new.works[place].name for place in pair.new)),
        )
        for pair in pair_works(old, new)
    }


A, Z = ("load", 50), ("store", 60)


def test_what_stands_between_the_same_kernels_took_the_place() -> None:
    old = survey(A, ("bias", 5), ("relu", 6), Z, times=4)
    assert fates(old, survey(A, ("fast", 7), Z, times=4)) == {
        ("same", "load", "load"),
        ("same", "store", "store"),
        ("fused", "bias+relu", "fast"),
    }
    assert ("split", "fast", "bias+relu") in fates(survey(A, ("fast", 7), Z, times=4), old)
    assert ("replaced", "bias", "wholly_new") in fates(
        survey(A, ("bias", 5), Z, times=3), survey(A, ("wholly_new", 4), Z, times=3)
    )


def test_a_kernel_that_is_launched_otherwise_did_not_take_the_place() -> None:
    old = survey(A, ("bias", 5), Z, times=4)
    new = survey(A, ("other", 5), ("other", 5), Z, times=4)
    assert ("replaced", "bias", "other") in fates(old, new), "the order says where each stands"
    old, new = (replace(one, sequence=(), steady=None) for one in (old, new))
    assert {("went", "bias", ""), ("came", "", "other")} <= fates(old, new)


def test_a_function_whose_parameters_changed_is_the_same() -> None:
    old, new = survey(("_Z4gemmPf", 9), A), survey(("_Z4gemmPfi", 8), A)
    assert ("same", "gemm", "gemm") in fates(old, new)


def test_an_interval_needs_two_runs_and_decides_then() -> None:
    slow = [trace(("gemm", 1000 + x)) for x in (0, 4, 8)]
    fast = [trace(("gemm", 900 + x)) for x in (0, 4, 8)]
    found = compare_programs(capture(*slow), capture(*fast))
    assert found.moved and found.change_s.high < 0
    # By hand: s = 4 ns on both sides, t(2) = 4.303, sqrt(16/3 + 16/3) = 3.266 ns.
    assert found.change_s.low == pytest.approx(-1e-7 - 4.303 * 3.266e-9, rel=1e-3)
    assert total(found.old.survey).n == 3
    wide = [trace(("gemm", x)) for x in (500, 1000, 1500)]
    same = compare_programs(capture(*wide), capture(*fast))
    assert not same.moved and same.share(1.0) is None
    assert found.share(found.change_s.value) == 1.0
    one = compare_programs(capture(slow[0]), capture(fast[0]))
    assert not one.interval_known and one.change_s.low == one.change_s.high
    assert student(1) == 12.706 and student(1000) == 1.96


def test_other_devices_are_refused_unless_forced() -> None:
    other = capture(trace(("gemm", 1)), device=Device(name="NVIDIA L4", slug="l4"))
    with pytest.raises(InconclusiveError, match="NVIDIA L4"):
        compare_programs(capture(trace(("gemm", 1))), other)
    assert compare_programs(capture(trace(("gemm", 1))), other, force=True).reasons


# --- several configurations of one kernel ------------------------------------------------------


def sized(*sequence: tuple[int, int, int], symbol: str = "scale") -> Trace:
    """Launches of one kernel: (threads of a block, nanoseconds, blocks)."""
    return trace(*((symbol, length, block, blocks) for block, length, blocks in sequence))


def looked(one: ProgramCapture, *seconds: tuple[int, float]) -> tuple[ProgramCapture, Profile]:
    """A capture whose launches of these block sizes were profiled, so many seconds each."""
    launches = tuple(
        make_launch(
            index=place,
            grid=(64, 1, 1),
            block=(block, 1, 1),
            metrics=make_metrics(**{"gpu__time_duration.sum": value}),
        )
        for place, (block, value) in enumerate(seconds)
    )
    profile = make_profile(study="", version="", problem="", launches=launches)
    return replace(one, detail=(0,) * len(launches)), profile


def test_a_step_is_of_the_configuration_that_changed_most() -> None:
    """Six block sizes are six classes: their mean is of none, and one of them speaks for itself."""
    old, before = looked(
        capture(sized((32, 9000, 64), (256, 2000, 64), (1024, 2000, 64))),
        (32, 9e-6), (256, 2e-6), (1024, 2e-6),
    )  # fmt: skip
    new, after = looked(
        capture(sized((32, 3000, 64), (256, 2000, 64), (1024, 2600, 64))),
        (32, 3e-6), (1024, 2.6e-6),
    )  # fmt: skip
    found = compare_programs(old, new)
    (row,) = found.rows
    assert [one.words for one in row.classes][:2] == ["block 32, grid 64", "block 1,024, grid 64"]
    changes = [one.new_weight - one.old_weight for one in row.classes]
    assert sum(changes) == row.new_weight - row.old_weight
    (step,) = kernel_steps(found, (before, after), force=False)
    assert step.comparison is not None and step.comparison.speed is not None
    assert step.comparison.speed.speedup == pytest.approx(3.0)
    assert step.near.explains == pytest.approx(6000 / 5400)
    assert "block 32, grid 64 alone" in step.near.words and step.doubt is None


def test_launches_that_only_became_fewer_do_not_explain_a_faster_kernel() -> None:
    """`matmul_backward_bias` of llm.c, 1 → 2: a block of 768 was one of 512 before."""
    old, before = looked(
        capture(sized((512, 9000, 64), (512, 9000, 64), (64, 9000, 64))), (512, 9e-6), (64, 9e-6)
    )
    new, after = looked(capture(sized((512, 9200, 64), (64, 5000, 64))), (512, 9.2e-6), (64, 5e-6))
    (step,) = kernel_steps(compare_programs(old, new), (before, after), force=False)
    assert step.near.words.startswith("a launch of block 64,") and step.story is not None


def test_launches_that_have_no_configuration_in_common_are_not_compared() -> None:
    old, before = looked(capture(sized((32, 9000, 64), (256, 8000, 64))), (32, 9e-6))
    new, after = looked(capture(sized((32, 3000, 64), (256, 2000, 64))), (256, 2e-6))
    (step,) = kernel_steps(compare_programs(old, new), (before, after), force=False)
    assert step.story is None and "no configuration in common" in step.silence


@pytest.mark.parametrize(
    ("program", "under_ncu", "told"),
    [
        (3000, 3e-6, True), (3000, 6e-6, True), (3000, 12e-6, False), (3000, 9.01e-6, False),
        (8700, 9.4e-6, False),  # within a tenth, and the other way
        (9100, 6e-6, False), (4600, 9.17e-6, False),
    ],
)  # fmt: skip
def test_where_profiler_and_program_disagree_the_program_counts(
    program: int, under_ncu: float, told: bool
) -> None:
    """So it is said; where the profiler goes another way nothing of it explains the change."""
    old, before = looked(capture(sized((32, 9000, 64), (32, 9000, 64))), (32, 9e-6))
    new, after = looked(capture(sized((32, program, 64), (32, program, 64))), (32, under_ncu))
    difference = compare_programs(old, new)
    (step,) = kernel_steps(difference, (before, after), force=False)
    assert (step.doubt is None) is (under_ncu == 3e-6) and (step.story is not None) is told
    if step.doubt is not None:
        assert f"in the program a launch is {faster(9000 / program)}" in step.doubt.words
        assert step.doubt.words in step_words(step, difference).said
    if not told:
        assert step_words(step, difference).launches == ()


def test_grids_that_are_nearly_equal_are_one_class() -> None:
    old = capture(sized((32, 500, 2046), (32, 500, 2047), (32, 500, 2048), (32, 90, 64)))
    new = capture(sized((64, 400, 2046), (64, 400, 2047), (64, 400, 2048), (64, 80, 64)))
    (row,) = compare_programs(old, new).rows
    assert [(one.words, one.old_launches, one.new_launches) for one in row.classes] == [
        ("block 32 → 64, grid 2,046 to 2,048", 3, 3),
        ("block 32 → 64, grid 64", 1, 1),
    ]


@settings(max_examples=50)
@given(
    st.lists(st.tuples(st.integers(1, 8), st.integers(1, 999), st.integers(1, 6)), max_size=12),
    st.lists(st.tuples(st.integers(1, 8), st.integers(1, 999), st.integers(1, 6)), max_size=12),
)
def test_classes_add_up_to_their_row(
    before: list[tuple[int, int, int]], after: list[tuple[int, int, int]]
) -> None:
    old, new = (capture(sized((7, 5, 3), *side)) for side in (before, after))
    (row,) = compare_programs(old, new).rows
    for of in ("old_weight", "new_weight", "old_launches", "new_launches"):
        assert sum(getattr(one, of) for one in row.classes) == getattr(row, of)
    assert all(one.old or one.new for one in row.classes)


# --- iterations, and the order of launches ------------------------------------------------------

TRIED = [("candidate_0", 900)] * 236 + [("candidate_1", 800)] * 236


def test_programs_that_repeat_themselves_are_compared_by_iteration() -> None:
    """A compiler that tries candidates makes the program slower and each of its steps faster."""
    steps = [("load", 50), ("gemm", 900), ("bias", 300), ("store", 60)] * 20
    fused = [("load", 50), ("gemm_bias", 1000), ("store", 60)] * 20
    found = compare_programs(capture(trace(*steps)), capture(trace(*TRIED, *fused)))
    assert found.whole is not None and found.moved
    old, new = found.totals
    assert (old.value, new.value) == pytest.approx((1310e-9, 1110e-9))
    whole = [total(side.survey).value for side in found.whole]
    assert whole[1] > 2 * whole[0]
    assert {row.name: row.fate for row in found.rows} == {
        "gemm + bias → gemm_bias": "fused",
        "load": "same",
        "store": "same",
    }, "what was only tried is no row of an iteration"
    assert found.spans is not None
    assert found.spans[0].value == pytest.approx(1330e-9)


def test_iterations_of_one_run_do_not_tell_how_runs_differ() -> None:
    """Their interval is narrow, and a change within a duration's usual noise is none."""
    steps, slower = ([("load", 5000), ("gemm", 90_000 + more)] * 20 for more in (0, 300))
    found = compare_programs(capture(trace(*steps)), capture(trace(*slower)))
    assert found.steady and found.change_s.low > 0 and not found.moved


def test_one_kernel_that_gave_way_to_three_with_fills_between() -> None:
    """However much faster they are: they stand where it stood."""
    copies = ("[copy HtoD]", 500), ("[copy DtoH]", 900)
    old = survey(copies[0], *[("whole", 9000)] * 5, copies[1])
    parts = [("[fill]", 3), ("mean", 400), ("[fill]", 3), ("rstd", 300), ("normalize", 500)]
    new = survey(copies[0], *parts * 5, copies[1])
    assert fates(old, new) == {
        ("same", "[copy HtoD]", "[copy HtoD]"),
        ("same", "[copy DtoH]", "[copy DtoH]"),
        ("split", "whole", "[fill]+mean+normalize+rstd"),
    }
    assert ("fused", "[fill]+mean+normalize+rstd", "whole") in fates(new, old)


def test_copies_are_told_apart_from_kernels() -> None:
    old = capture(trace(("[copy HtoD]", 90_000), ("gemm", 9000), ("gemm", 9000)))
    new = capture(trace(("[copy HtoD]", 70_000), ("gemm", 9000), ("gemm", 9010)))
    found = compare_programs(old, new)
    assert found.moved and not found.of_kernels.moved
    assert found.of_copies is not None and found.of_copies.new.value == pytest.approx(70e-6)
    assert compare_programs(capture(trace(A)), capture(trace(A))).of_copies is None


def test_what_runs_beside_something_else_costs_no_time() -> None:
    """Copies of a second stream: all works take as long, and the program is faster."""

    def streams(overlap: bool) -> Trace:
        out, now = [], 1000
        for _ in range(5):
            beside = now if overlap else now + 900
            copy = TracedLaunch("[copy HtoD]", 1, 0, 8, False, beside, beside + 800)
            kernel = TracedLaunch("blur", 1, 0, 7, False, now, now + 900, (8, 1, 1), (32, 1, 1))
            out += [kernel, copy]
            now += 1000 if overlap else 1800
        return Trace(launches=tuple(out), processes=1)

    found = compare_programs(capture(streams(False)), capture(streams(True)))
    assert not found.of_kernels.moved and found.busy is not None and found.busy.moved
    assert found.busy.old.value / found.busy.new.value == pytest.approx(8500 / 4500)
    assert compare_programs(capture(streams(False)), capture(streams(False))).busy is None


def test_what_a_program_ends_in_is_its_iteration() -> None:
    """A compiler's benchmark repeats itself longer than the steps that follow it."""
    tried = [("flush", 300), ("candidate", 900), ("fill", 3)] * 99
    steps = [("norm", 50), ("gemm", 180), ("add", 20)] * 60
    found = capture(trace(*tried, *steps)).survey
    assert found.steady is not None
    assert {found.works[work.place].name for work in found.steady.works} == {"norm", "gemm", "add"}


def test_what_was_launched_before_the_second_iteration_alone_is_of_none() -> None:
    """A broadcast at the start falls into the first iteration: it is no part of any other."""
    steps = [("load", 50), ("gemm", 900), ("store", 60)] * 20
    old, new = ([*steps[:1], ("broadcast", ns), *steps[1:]] for ns in (90_000, 2000))
    found = compare_programs(capture(trace(*old)), capture(trace(*new)))
    assert found.steady and {row.name for row in found.rows} == {"load", "gemm", "store"}
    assert not found.moved and found.totals[0].value == pytest.approx(1010e-9)
    once_more = [("broadcast", 90_000), *steps]
    found = compare_programs(capture(trace(*old, *once_more)), capture(trace(*new, *once_more)))
    assert "broadcast" in {row.name for row in found.rows}, "it is launched again later"


def tuned(*, budget: int = 60_000, best: int = 40) -> Trace:
    """A tuner runs five configurations for as long each, flushing, and then calls the best."""
    blocks = (32, 3000), (64, 2000), (128, 1000), (256, 1500), (512, 4000)
    tried = [
        each
        for block, length in blocks
        for each in [("flush", 300, 96), ("scale", length, block)] * (budget // length)
    ]
    return trace(*tried, *[("scale", 1000, 128)] * best, ("check", 100))


def test_what_a_tuner_tries_makes_no_factor() -> None:
    """Its launches and those of a call cannot be told apart: then their sum says of neither."""
    old = capture(sized(*[(32, 3000, 8)] * 20))
    new = capture(tuned())
    new = replace(new, survey=replace(new.survey, steady=None))
    for found in (compare_programs(old, new), compare_programs(new, old)):
        assert not found.steady and "configurations" in found.tried and "scale" in found.tried
        assert not found.moved and found.share(1e-6) is None
    assert compare_programs(new, new).tried == ""


def test_a_sweep_over_sizes_is_one_on_both_sides() -> None:
    sweep = [(block, 9000, 64) for block in (32, 64, 128, 256, 512, 1024) for _ in range(20)]
    found = compare_programs(
        capture(sized(*sweep)), capture(sized(*((b, n // 3, g) for b, n, g in sweep)))
    )
    assert found.tried == "" and found.moved
    fewer = compare_programs(capture(sized(*sweep[:20] * 6)), capture(sized(*sweep)))
    assert fewer.tried == "", "as many launches of other shapes are other work, or the same"


def test_after_a_tuner_calls_are_compared() -> None:
    """With the order of launches it is known which are calls: 3× faster, however long it tried."""
    old, new = capture(sized(*[(32, 3000, 8)] * 20, (32, 3000, 8))), capture(tuned())
    for before, after, sides in ((old, new, (3e-6, 1e-6)), (new, old, (1e-6, 3e-6))):
        found = compare_programs(before, after)
        assert found.steady and found.tried == "" and found.moved
        assert tuple(side.value for side in found.totals) == pytest.approx(sides)
        (row,) = found.rows
        assert row.name == "scale" and found.launches(row) == (1, 1)
    assert compare_programs(new, new).steady and not compare_programs(new, new).moved


def test_a_call_of_one_kernel_is_compared_with_an_iteration_of_several() -> None:
    """A compiler tunes for long, and then three kernels do the work of one, and faster."""
    steps = [("load", 50), ("gemm", 900), ("store", 60)] * 40
    old, new = capture(trace(*[("attention", 2000)] * 45)), capture(trace(*TRIED, *steps))
    found = compare_programs(old, new)
    first, beside = program_words(found)[:2]
    assert found.steady and "2.00 µs → 1.01 µs" in first and "1.98× faster" in first
    assert "the whole program together 90.0 µs → 442 µs" in beside
    for old in (capture(trace(*[("attention", 2000)] * 90)), capture(trace(*TRIED[::9]))):
        found = compare_programs(old, new)
        alone, whole = program_words(found)[:2]
        assert not found.steady and found.moved and "slower" in whole
        assert alone.startswith("only @x has iterations: 39 iterations of 3 launches")


def test_calls_after_a_tuner_and_a_program_of_much_else_make_no_factor() -> None:
    old, new = capture(trace(("load", 3000), ("gemm", 3000), ("store", 900))), capture(tuned())
    for found in (compare_programs(old, new), compare_programs(new, old)):
        assert not found.steady and "trying" in found.tried and not found.moved
