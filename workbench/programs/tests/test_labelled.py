"""The labelled programs are told the way their clocks go."""

from __future__ import annotations

from pathlib import Path

from benchmarks.truth.programs import load_programs, tell, totals
from workbench.programs.capture.capture_store import Shelf

ROOT = Path(__file__).parents[3]
LABELS = ROOT / "tests" / "data" / "truth" / "programs.toml"
ALL = load_programs(LABELS)


def test_what_is_told_of_a_program_goes_the_way_of_its_clock() -> None:
    told = list(tell(ALL, Shelf(ROOT / "tests" / "data" / "programs")))
    assert {each.program.name for each in told} == {each.name for each in ALL if each.clock}
    against = {each.program.name for each in told if each.contradicts}
    assert not against, against
    words, _ = totals(told)
    assert f"{len(told)} programs" in words and f"clock: {len(against)} " in words
