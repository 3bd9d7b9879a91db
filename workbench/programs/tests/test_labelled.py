"""The labelled programs: that each is there, and is told the way its clock goes."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.truth.programs import Program, load_programs, tell, totals
from workbench.programs.capture.capture_store import Shelf

ROOT = Path(__file__).parents[3]
PROGRAMS = ROOT / "benchmarks" / "programs"
LABELS = ROOT / "tests" / "data" / "truth" / "programs.toml"


ALL = load_programs(LABELS)
SIDES = ("before", "after")


def files(program: Program, side: str) -> list[Path]:
    folder = PROGRAMS / (program.sources or program.name)
    return sorted((folder / side if (folder / side).is_dir() else folder).iterdir())


def made_by(program: Program, side: str) -> str:
    return (side == "after" and program.build_after) or program.build


def test_each_program_has_one_label_and_each_label_a_program() -> None:
    names = [each.name for each in ALL]
    assert len(set(names)) == len(names) >= 14
    folders = {path.name for path in PROGRAMS.iterdir() if path.is_dir()}
    assert folders == {each.sources or each.name for each in ALL}


@pytest.mark.parametrize("program", [pytest.param(each, id=each.name) for each in ALL])
def test_a_label_says_what_is_true_and_what_is_not(program: Program) -> None:
    for text in (program.cause, program.expected, program.headline, program.work):
        assert text.strip() == text != ""
    assert program.kernels and program.must and program.must_not
    sides = [
        (
            getattr(program, side),
            made_by(program, side),
            [path.read_bytes() for path in files(program, side)],
        )
        for side in SIDES
    ]
    assert sides[0] != sides[1], "nothing was edited"
    if program.clock is not None:
        old, new = (float(text.split()[0]) for text in (program.clock.before, program.clock.after))
        assert program.clock.factor == pytest.approx(old / new, rel=1e-3)
    assert (program.judged is None) == (program.clock is None) == (not program.why)


def test_what_is_told_of_a_program_goes_the_way_of_its_clock() -> None:
    told = list(tell(ALL, Shelf(ROOT / "tests" / "data" / "programs")))
    assert {each.program.name for each in told} == {each.name for each in ALL if each.clock}
    against = {each.program.name for each in told if each.contradicts}
    assert not against, against
    words, _ = totals(told)
    assert f"{len(told)} programs" in words and f"clock: {len(against)} " in words
