"""Iterations of both sides hold the same calls before they are compared."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from workbench.analysis.programs.iterations import alike, together
from workbench.analysis.programs.program import compare_programs
from workbench.capture.records import ProgramCapture, Steady
from workbench.capture.shelf import Shelf
from workbench.session.reports import ProgramDiff, open_capture

SHELF = Shelf(Path(__file__).resolve().parents[1] / "data" / "programs")


def capture(name: str) -> ProgramCapture:
    return open_capture(SHELF, f"@{name}").capture


def with_steady(side: ProgramCapture, **changes: object) -> ProgramCapture:
    assert side.survey.steady is not None
    steady: Steady = replace(side.survey.steady, **changes)
    return replace(side, survey=replace(side.survey, steady=steady))


def test_an_iteration_of_two_calls_is_compared_with_two() -> None:
    """The compiled program takes turns between two buffers; 0.5587 → 0.2562 ms a call."""
    old, new = capture("compiled_block-before"), capture("compiled_block-after")
    assert together(old.survey, new.survey) == (2, 1)
    assert together(new.survey, old.survey) == (1, 2)
    difference = compare_programs(old, new)
    before, after = (estimate.value for estimate in difference.totals)
    assert before / after == pytest.approx(0.5587 / 0.2562, rel=0.1)
    assert any("2 iterations of @compiled_block-before" in said for said in difference.warnings)
    (whole, _), _ = alike(old, new)
    assert whole.survey.steady is not None and old.survey.steady is not None
    assert sum(whole.survey.steady.spans_ns) == sum(old.survey.steady.spans_ns)
    assert whole.survey.steady.kept == old.survey.steady.kept // 2


def test_a_call_that_does_twice_the_work_stays_one() -> None:
    """Every kernel twice as often, in as many iterations: that is the change, not another count."""
    old, new = capture("compiled_block-before"), capture("compiled_block-after")
    assert old.survey.steady is not None
    as_many = with_steady(new, iterations=old.survey.steady.iterations)
    assert together(old.survey, as_many.survey) == (1, 1)
    difference = compare_programs(old, as_many)
    assert not any("hold the same calls" in said for said in difference.warnings)


@pytest.mark.parametrize("name", ["train_images", "train_optimizer", "string_graph", "heat"])
def test_iterations_of_one_call_each_stay_as_they_are(name: str) -> None:
    old, new = capture(f"{name}-before"), capture(f"{name}-after")
    (before, after), said = alike(old, new)
    assert (before, after, said) == (old, new, "")


def test_what_a_tuner_tried_is_not_told_of_its_calls() -> None:
    """The launches that were profiled are of configurations that no iteration has."""
    steps = ProgramDiff(
        open_capture(SHELF, "@triton_matmul-before"), open_capture(SHELF, "@triton_matmul-after")
    ).steps()
    (step,) = steps
    assert step.story is None and step.comparison is None
    assert step.silence == (
        "no launch of it as an iteration launches it was looked at closely in @triton_matmul-after"
    )
