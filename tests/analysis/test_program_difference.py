"""The program's difference: what became of each kernel, and rows that add up."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.factories import H200
from workbench.analysis.program import compare_programs, pair_works, student, total
from workbench.capture.records import ProgramCapture, Survey
from workbench.capture.trace import Trace, TracedLaunch, survey_of
from workbench.errors import InconclusiveError
from workbench.model import Device


def trace(*sequence: tuple[str, int]) -> Trace:
    """Launches one after the other on one stream: (symbol, nanoseconds)."""
    out, now = [], 1000
    for symbol, length in sequence:
        grid = (0, 0, 0) if symbol.startswith("[") else (8, 1, 1)
        out.append(TracedLaunch(symbol, 1, 0, 7, False, now, now + length, grid, (32, 1, 1)))
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
        assert sum(getattr(row, f"{of}_ns") for row in found.rows) == sum(side.survey.totals_ns)
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
    assert ("renamed", "bias", "wholly_new") in fates(
        survey(A, ("bias", 5), Z, times=3), survey(A, ("wholly_new", 4), Z, times=3)
    )


def test_a_kernel_that_is_launched_otherwise_did_not_take_the_place() -> None:
    old = survey(A, ("bias", 5), Z, times=4)
    new = survey(A, ("other", 5), ("other", 5), Z, times=4)
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
