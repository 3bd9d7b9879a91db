"""The part of a program that repeats itself is found, and what is a sweep is not taken for it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workbench.programs.capture.periodicity import KEPT, rhythm
from workbench.programs.capture.records import Steady
from workbench.programs.capture.trace import survey_of
from workbench.programs.tests.test_program_difference import trace

STEP = ["embed", "gemm", "softmax", "gemm", "norm", "gemm", "softmax", "gemm", "norm", "loss"]


def steady(sequence: Sequence[tuple[str, int] | tuple[str, int, int]]) -> Steady | None:
    """Of launches one after the other: (symbol, nanoseconds, threads of a block)."""
    return survey_of([trace(*sequence)], [0.1]).steady


def test_what_a_compiler_tries_is_no_iteration() -> None:
    """Candidates run hundreds of times each before the first step: the step is what repeats."""
    tried = [(f"candidate_{n}", 900) for n in range(8) for _ in range(236)]
    fills = [("fill", 300)] * 2060
    found = steady([*fills, *tried, *[(name, 100) for name in STEP] * 20])
    assert found is not None and found.period == len(STEP)
    assert found.iterations[0] in (19, 20)
    assert found.warm_ns[0] >= 2060 * 300 + 8 * 236 * 900
    for each in zip(*(work.total_ns for work in found.works), strict=True):
        assert sum(each) == 100 * len(STEP)


def test_a_step_that_writes_a_log_is_one_iteration() -> None:
    steps = [[*STEP[:-1], "log", "loss"] if n % 10 == 9 else STEP for n in range(40)]
    found = steady([(name, 100) for step in steps for name in step])
    assert found is not None and found.iterations[0] in (39, 40)


def test_a_sweep_is_no_rhythm() -> None:
    """Six block sizes, a flush and a kernel a hundred times each: no size stands for all."""
    sizes = [32, 64, 128, 256, 512, 1024]
    flushed = [pair for b in sizes for pair in [("flush", 50, 256), ("scale", 500, b)] * 100]
    assert steady(flushed) is None
    assert steady([("scale", 500, b) for b in sizes for _ in range(100)]) is None


def test_a_kernel_launched_again_and_again_has_no_iterations() -> None:
    assert steady([("scale", 500)] * 1000) is None
    assert steady([("scale", 500), ("add", 3)]) is None


def test_only_the_last_iterations_are_kept() -> None:
    found = steady([(name, 100) for name in STEP] * 500)
    assert found is not None and found.kept == KEPT and found.iterations[0] >= 499


@settings(max_examples=60)
@given(
    st.lists(st.sampled_from("abcdef"), min_size=2, max_size=30),
    st.integers(4, 12),
    st.lists(st.sampled_from("uvwxyz"), max_size=60),
)
def test_a_planted_period_is_found(step: list[str], times: int, before: list[str]) -> None:
    """With something that occurs once in it, whatever else recurs."""
    planted = ["start", *step]
    found = rhythm([*before, *planted * times])
    assert found is not None
    assert found.period == len(planted)
    assert len(found.starts) >= times - 1
    assert all(b - a == len(planted) for a, b in zip(found.starts, found.starts[1:], strict=False))


SIZES = (32, 64, 128, 256, 512)


def tuner(flush: bool) -> list[tuple[str, int, int]]:
    """Five configurations for as long each."""
    flushed = [("flush", 300, 96)] * flush
    return [
        each
        for n, block in enumerate(SIZES)
        for _ in range(60 - 10 * n)
        for each in (*flushed, ("scale", 1000 + block, block))
    ]


@pytest.mark.parametrize("flush", [True, False])
def test_after_a_tuner_a_call_is_an_iteration(flush: bool) -> None:
    tried = tuner(flush)
    found = steady([("init", 80), *tried, *[("scale", 1128, 128)] * 40, ("check", 70)])
    assert found is not None and found.period == 1 and found.iterations == (40,)
    assert found.warm_ns == (80 + sum(ns for _, ns, _ in tried),)
    (work,) = found.works
    assert set(work.total_ns) == {1128} and {x.block[0] for x in work.shapes} == {128}


def test_the_last_that_a_tuner_tries_may_be_the_best() -> None:
    """A tuner flushes the cache before a launch, and a program does not before a call."""
    found = steady([*tuner(flush=True), *[("scale", 1512, 512)] * 40])
    assert found is not None and found.iterations[0] in (40, 41)


def test_a_sweep_that_checks_all_sizes_first_settles_on_none() -> None:
    """Six sizes are checked, and measured then: the last of them was launched before as well."""
    checks = [("scale", 900, block) for block in SIZES]
    measured = [("scale", 900, block) for block in SIZES for _ in range(30)]
    assert steady([*checks, *measured]) is None
    assert steady([*measured, *measured]) is None


def test_a_benchmark_that_tunes_every_size_settles_on_none() -> None:
    """What it calls last is one of its sizes."""
    sizes = [("scale", 900, block) for block in SIZES]
    calls = [[*sizes, *[("scale", 900, best)] * 40] for best in (64, 256, 128)]
    assert steady([launch for size in calls for launch in size]) is None
