"""What took each other's place inside of an NVTX range is one thing, and has its name."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.factories import H200
from workbench.programs.capture.records import ProgramCapture, Range, TracedLaunch
from workbench.programs.capture.trace import Trace, survey_of
from workbench.programs.compared.program import ProgramDifference, WorkChange, compare_programs
from workbench.programs.compared.words import fate_words, program_words, range_words
from workbench.programs.shown.sheets import difference_sheet

#: Kernels of a step, in their order: ranges (outermost first), a name, nanoseconds.
Step = list[tuple[str, str, int]]
NORM = ("block/norm", "norm", 50_000)
PLAIN: Step = [
    NORM,
    *(("block/attention", name, 90_000) for name in ("scores", "softmax", "values")),
    *(("block/mlp", name, 60_000) for name in ("up", "gelu")),
    ("", "loss", 10_000),
]
FUSED: Step = [
    NORM,
    ("block/attention", "flash", 30_000),
    ("block/mlp", "up_gelu", 80_000),
    PLAIN[-1],
]


def captured(name: str, *steps: Step, iterations: int = 12, step_range: str = "") -> ProgramCapture:
    out, now = [], 0
    for at in range(iterations):
        for path, symbol, length in steps[at % len(steps)]:
            outer = [step_range.format(at)] if step_range else []
            ranges = tuple(Range(word) for word in (*outer, *filter(None, path.split("/"))))
            places = (False, now, now + length, (64, 1, 1), (128, 1, 1))
            out.append(TracedLaunch(symbol, 1, 0, 7, *places)._replace(ranges=ranges))
            now += length + 1000
    survey = survey_of([Trace(launches=tuple(out), processes=1)], [0.1])
    return ProgramCapture(
        name=name, command=("./x",), captured="2026-11-22T06:00:00Z", survey=survey, device=H200
    )


def grouped(found: ProgramDifference) -> list[WorkChange]:
    return [row for row in found.rows if row.fate != "same"]


@pytest.mark.parametrize("step_range", ["", "train", "step {}"])
def test_a_group_is_told_by_its_range(step_range: str) -> None:
    """Also where a range around it is counted up, or holds the whole program."""
    sides = (
        captured(name, step, step_range=step_range)
        for name, step in (("plain", PLAIN), ("fused", FUSED))
    )
    found = compare_programs(*sides)
    assert found.steady
    rows = grouped(found)
    assert [row.inside.rpartition("/")[2] for row in rows] == ["attention", "mlp"]
    assert [(len(row.old), len(row.new)) for row in rows] == [(3, 1), (2, 1)]
    said = (
        "in attention 3 kernels (270 µs) gave way to 1 (30.0 µs); "
        "in mlp 2 kernels (120 µs) gave way to 1 (80.0 µs)"
    )
    assert range_words(found) == said and said in program_words(found)
    shown = [row[1] for row in difference_sheet(found).shown]
    assert shown[0].startswith("attention: ") and shown[0].endswith(" → flash")


def test_rows_of_ranges_add_up() -> None:
    found = compare_programs(captured("plain", PLAIN), captured("fused", FUSED))
    change = sum(new - old for old, new in map(found.seconds, found.rows))
    assert change == pytest.approx(found.change_s.value, rel=1e-9)


def test_a_range_around_everything_names_nothing() -> None:
    sides = (
        captured(name, [("forward", symbol, ns) for _, symbol, ns in step])
        for name, step in (("plain", PLAIN), ("fused", FUSED))
    )
    found = compare_programs(*sides)
    assert [row.inside for row in grouped(found)] == [""]
    assert range_words(found) == "" and "5 kernels replaced by 2" in fate_words(found)


def test_a_kernel_of_several_ranges_is_of_none_of_them() -> None:
    """What is launched in two ranges as often belongs to what both are inside of."""
    twice: Step = [("block/attention", "copy", 90_000), *PLAIN[4:], ("block/mlp", "copy", 90_000)]
    found = compare_programs(
        captured("plain", [NORM, ("", "head", 9_000), *twice]),
        captured("fused", [NORM, ("", "head", 9_000), *FUSED[1:]]),
    )
    assert "attention" not in {row.inside.rpartition("/")[2] for row in grouped(found)}


@pytest.mark.parametrize(("often", "together"), [(1, True), (9, False)])
def test_ranges_tell_where_the_order_of_launches_does_not(often: int, together: bool) -> None:
    """A record without the order; a tuner launches there far more often, and replaces nothing."""
    old = captured("plain", PLAIN)
    new = captured("fused", [*FUSED[:1], *FUSED[1:2] * often, *FUSED[2:]])
    sides = (
        replace(
            side,
            survey=replace(
                side.survey,
                steady=None,
                sequence=(),
                works=tuple(replace(work, before=-1, after=-1) for work in side.survey.works),
            ),
        )
        for side in (old, new)
    )
    rows = grouped(compare_programs(*sides))
    assert ("block/attention" in {row.inside for row in rows}) == together
