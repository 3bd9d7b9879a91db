"""Iterations of both sides hold the same calls before they are compared."""

from __future__ import annotations

from pathlib import Path
from statistics import median

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from workbench.programs.capture.capture_store import Shelf
from workbench.programs.capture.records import ProgramCapture, Steady
from workbench.programs.compared.iterations import alike, together, tuning, tuning_words
from workbench.programs.compared.program import compare_programs
from workbench.programs.compared.skew import rank_times, skew_words
from workbench.programs.recalled import ProgramDiff, open_capture

SHELF = Shelf(Path(__file__).resolve().parents[3] / "tests" / "data" / "programs")


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
        "no launch of it as an iteration launches it was profiled in @triton_matmul-after"
    )


@pytest.mark.parametrize(
    ("name", "configurations", "share", "words"),
    [
        ("triton_matmul", 8, 1.0, "100% is tuning: 8 launch shapes of matmul_kernel in 2,782"),
        ("compiled_block", 41, 0.946, "94.6% is tuning: 41 launch shapes of triton_mm, "),
    ],
)
def test_what_was_tried_before_the_iterations_is_said_to_be_tuning(
    name: str, configurations: int, share: float, words: str
) -> None:
    """With what clears the cache from one try to the next."""
    survey = capture(f"{name}-after").survey
    found = tuning(survey)
    assert found is not None and survey.steady is not None
    assert found.configurations == configurations
    assert found.share == pytest.approx(share, abs=0.001)
    assert found.tried_ns + found.between_ns <= sum(survey.steady.warm_ns)
    assert {survey.works[x].name for x in found.between} == {"vectorized_elementwise_kernel"}
    assert tuning_words(survey).startswith(words)
    assert tuning_words(capture(f"{name}-before").survey) == ""


def test_sizes_of_one_configuration_are_not_tried() -> None:
    """Parameters of a model that are filled before the first step: other grids, one block."""
    side = capture("triton_matmul-after")
    works = tuple(
        replace(
            work,
            shapes=tuple(
                replace(shape, block=(128, 1, 1), dynamic_shared=0, grid=(n + 1, 1, 1))
                for n, shape in enumerate(work.shapes)
            ),
        )
        for work in side.survey.works
    )
    assert tuning(replace(side.survey, works=works)) is None


@pytest.mark.parametrize("held_up", [0, 1, 3])
def test_iterations_that_the_host_holds_up_hide_no_change(held_up: int) -> None:
    """Ranks take 5.7 and 4.7 ms together; some iterations waited half a second for the host."""
    sides = [capture(f"ddp_straggler-{name}") for name in ("before", "after")]
    for place, side in enumerate(sides):
        assert side.survey.steady is not None
        spans = side.survey.steady.spans_ns
        late = (500_000_000,) * held_up + spans[held_up:]
        sides[place] = with_steady(side, spans_ns=late)
    found = compare_programs(sides[0], sides[1]).together
    assert found is not None and found.moved and found.change_s.high < 0
    assert found.old.value == pytest.approx(5.7e-3, rel=0.02) and 0 < found.old.low < found.old.high
    assert found.new.value == pytest.approx(4.7e-3, rel=0.02) and 0 < found.new.low < found.new.high


@settings(max_examples=25, deadline=None)
@given(st.lists(st.lists(st.integers(500_000, 80_000_000), min_size=34, max_size=34), min_size=2))
def test_ranks_of_iterations_of_any_times_have_intervals_of_times(times: list[list[int]]) -> None:
    """From half a millisecond to 80: no interval of a time is negative, and the slower is named."""
    sides = [capture(f"ddp_straggler-{name}") for name in ("before", "after")]
    for place, side in enumerate(sides):
        assert side.survey.steady is not None
        slow, fast = side.survey.steady.ranks
        ranks = (replace(slow, work_ns=tuple(times[0])), replace(fast, work_ns=tuple(times[1])))
        works = tuple(replace(x, total_ns=tuple(times[place])) for x in side.survey.steady.works)
        sides[place] = with_steady(side, spans_ns=tuple(times[place]), ranks=ranks, works=works)
    found = compare_programs(sides[0], sides[1])
    assert found.together is not None
    both = [*found.totals, *found.spans, found.together.old, found.together.new]  # type: ignore[misc]
    assert all(0 <= one.low <= one.value <= one.high for one in both)
    assert found.together.old.value == pytest.approx(1e-9 * median(times[0]))
    work = [one.work_s for one in rank_times(sides[0].survey)]
    assert work == pytest.approx([1e-9 * median(own) for own in times[:2]])
    said, slower = skew_words(sides[0].survey), f"rank {work.index(max(work))} works"
    assert "work alike" in said or said.startswith(slower)


def test_few_iterations_have_no_interval() -> None:
    old, new = (capture(f"ddp_straggler-{name}") for name in ("before", "after"))
    few = with_steady(old, spans_ns=(5_700_000, 5_800_000, 900_000_000))
    found = compare_programs(few, new).together
    assert found is not None and found.old.low == found.old.high == pytest.approx(5.8e-3)
