"""Two programs that were counted and not timed: which kernels correspond, and what matters."""

from __future__ import annotations

import pytest

from workbench.errors import InconclusiveError
from workbench.programs.capture.counted import counted_capture
from workbench.programs.capture.records import Counted, ProgramCapture, TracedLaunch
from workbench.programs.capture.trace import Trace, survey_of
from workbench.programs.compared.program import compare_programs
from workbench.programs.compared.steps import told, unchanged
from workbench.programs.compared.words import program_words, survey_words
from workbench.programs.tests.counted import plain_run

C = Counted(instructions=100, sectors=40, sectors_ideal=20)
FEWER = Counted(instructions=100, sectors=20, sectors_ideal=20)


def capture(*launches: tuple[str, int, Counted], name: str = "v0") -> ProgramCapture:
    return counted_capture(plain_run(*launches), name)[0]


def fates(old: ProgramCapture, new: ProgramCapture) -> set[tuple[str, str]]:
    return {(row.fate, row.name) for row in compare_programs(old, new).rows}


def test_kernels_correspond_by_name() -> None:
    old = capture(("_Z4gemmPf", 8, C), ("relu", 4, C))
    new = capture(("relu", 4, C), ("_Z4gemmPfi", 16, FEWER))
    assert fates(old, new) == {("same", "gemm"), ("same", "relu")}


def test_all_renamed_kernels_correspond_one_by_one() -> None:
    """By likeness of their names first, then by the order of their launches."""
    old = capture(("matmul_v0", 8, C), ("softmax_v0", 4, C), ("check", 1, C))
    new = capture(("matmul_v1", 8, C), ("softmax_v1", 4, C), ("check", 1, C))
    assert fates(old, new) == {
        ("replaced", "matmul_v0 → matmul_v1"),
        ("replaced", "softmax_v0 → softmax_v1"),
        ("same", "check"),
    }
    old = capture(("naive", 8, C), ("plain", 4, C))
    new = capture(("by_tiles", 8, FEWER), ("vectors_of_four", 4, FEWER))
    assert fates(old, new) == {
        ("replaced", "naive → by_tiles"),
        ("replaced", "plain → vectors_of_four"),
    }


def test_what_was_fused_is_told() -> None:
    old = capture(("load", 8, C), ("bias", 8, C), ("relu", 8, C), ("store", 8, C))
    new = capture(("load", 8, C), ("once", 8, C), ("store", 8, C))
    assert ("fused", "bias + relu → once") in fates(old, new)


def test_launches_correspond_by_their_shape() -> None:
    old = capture(("k", 8, C), ("k", 512, C))
    new = capture(("k", 512, FEWER), ("k", 8, C))
    (row,) = compare_programs(old, new).rows
    assert [one.words for one in row.classes] == ["block 32, grid 512", "block 32, grid 8"]
    assert row.classes[0].old_weight > row.classes[0].new_weight


def test_any_change_of_a_count_matters_and_none_does_not() -> None:
    old = capture(("a", 8, C), *[("b", 8, C)] * 900)
    new = capture(("a", 8, FEWER), *[("b", 8, C)] * 900)
    found = compare_programs(old, new)
    assert [row.name for row in told(found)] == ["a"] and found.moved
    assert [unchanged(found, row) for row in found.rows] == [False, True]
    assert not compare_programs(old, old).moved and not told(compare_programs(old, old))


def test_no_time_and_no_factor_is_said() -> None:
    found = compare_programs(capture(("a", 8, C)), capture(("a", 8, FEWER), name="v1"))
    (line,) = program_words(found)
    assert line == (
        "instructions 100, global sectors 40 → 20 (−50.0%), shared wavefronts 0; "
        "counted by the emulator, which measures no times"
    )
    assert found.share(1.0) is None and found.busy is None and found.of_copies is None
    (said,) = survey_words(found.old.survey)
    assert said == (
        "1 launch, counted by the emulator, which measures no times: 100 instructions, "
        "global sectors 40 (2.00× ideal), shared wavefronts 0"
    )


def test_a_timed_program_is_not_compared_with_a_counted_one() -> None:
    one = TracedLaunch("a", 1, 0, 7, False, 0, 50, (8, 1, 1), (32, 1, 1))
    survey = survey_of([Trace(launches=(one,), processes=1)], [0.1])
    timed = ProgramCapture(name="t", command=("./t",), captured="2026", survey=survey)
    for force in (False, True):
        with pytest.raises(InconclusiveError, match="@v0 has the emulator's counts and no times"):
            compare_programs(timed, capture(("a", 8, C)), force=force)
