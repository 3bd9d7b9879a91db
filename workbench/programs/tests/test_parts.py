"""The parts of a capture: traces, summaries, which launches are looked at, names."""

from __future__ import annotations

import shlex
import shutil
import struct
import subprocess
import time
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from workbench.errors import DataError, UsageError
from workbench.programs.capture.capture_store import Shelf
from workbench.programs.capture.launch_choice import LAUNCHES, Seen, Wish, invocations, pick
from workbench.programs.capture.ranks import union_ns
from workbench.programs.capture.records import ProgramCapture, Survey, TracedLaunch
from workbench.programs.capture.trace import (
    QUANTILES,
    Trace,
    name_of,
    quantiles,
    read_traces,
    survey_of,
)
from workbench.programs.capture.tracer import SOURCE, find_cupti, tracer
from workbench.revisions import State
from workbench.study.mangling import demangled


def launch(symbol: str, start: int, end: int, device: int = 0) -> TracedLaunch:
    return TracedLaunch(symbol, 1, device, 7, False, start, end, (8, 1, 1), (32, 1, 1))


def surveyed(launches: list[TracedLaunch]) -> tuple[Survey, Trace]:
    trace = Trace(launches=tuple(launches), processes=1)
    return survey_of([trace], [0.1]), trace


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=400))
def test_quantiles_are_values_in_order_with_both_ends(values: list[int]) -> None:
    found = quantiles(values)
    assert len(found) == min(QUANTILES, len(values)) and list(found) == sorted(found)
    assert found[0] == min(values) and found[-1] == max(values) and set(found) <= set(values)


def test_a_device_is_busy_once_however_many_streams_it_has() -> None:
    lone = [launch("a", 0, 10), launch("b", 5, 12), launch("c", 20, 30)]
    assert union_ns(lone) == 22
    assert union_ns([*lone, launch("d", 21, 31, device=1)]) == 32
    assert union_ns([launch("a", 0, 100), launch("b", 5, 12), launch("c", 90, 95)]) == 100


@given(st.binary(max_size=200))
def test_no_bytes_crash_the_reader(tail: bytes) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "1.trace").write_bytes(struct.pack("<8sII", b"WBTRACE2", 1, 0) + tail)
        try:
            found = read_traces(Path(folder))
        except DataError:
            return
        assert found.processes == 1


def test_a_foreign_file_is_no_trace(tmp_path: Path) -> None:
    (tmp_path / "1.trace").write_bytes(b"something else that is long enough")
    with pytest.raises(DataError, match="is not a trace"):
        read_traces(tmp_path)


def test_the_same_numbers_serve_every_kernel_and_stand_for_its_durations() -> None:
    two_sized, steady, first = [10_000, 90_000] * 50, [4000] * 100, [70] * 3
    chosen = invocations([numbered(x) for x in (two_sized, steady, first)], LAUNCHES)
    assert len(chosen) == LAUNCHES
    assert {two_sized[number - 1] for number in chosen} == {10_000, 90_000}
    assert min(chosen) <= 3  # the kernel with three launches has one of them
    assert invocations([], 3) == () and invocations([{1: 5}], 3) == (1,)


def numbered(durations: list[int]) -> dict[int, int]:
    return dict(enumerate(durations, 1))


@settings(max_examples=30)
@given(
    st.lists(
        st.dictionaries(st.integers(1, 10**4), st.integers(1, 10**6), min_size=1, max_size=60),
        min_size=1,
        max_size=9,
    ),
    st.integers(1, 5),
)
def test_every_class_has_a_launch_that_is_looked_at(
    classes: list[dict[int, int]], most: int
) -> None:
    chosen = invocations(classes, most)
    assert len(set(chosen)) == len(chosen) and min(chosen) >= 1
    for each in classes:
        assert not each.keys().isdisjoint(chosen)


def sized(block: int, length: int, start: int) -> TracedLaunch:
    return TracedLaunch("big", 1, 0, 7, False, start, start + length, (64, 1, 1), (block, 1, 1))


def test_every_configuration_that_takes_time_is_looked_at() -> None:
    """A program that tries block sizes one after the other, hundreds of launches of each."""
    blocks = [32] * 300 + [64] * 300 + [1024] * 300 + [96]
    every = [sized(block, 900 - block // 2, 1000 * n) for n, block in enumerate(blocks)]
    survey, trace = surveyed(every)
    chosen = pick(survey, trace, Wish()).invocations
    assert {blocks[number - 1] for number in chosen} == {32, 64, 1024}
    like = Seen("big", ((64, 1, 1), (96, 1, 1), 0))
    chosen = pick(survey, trace, Wish(like=(like,))).invocations
    assert {blocks[number - 1] for number in chosen} == {32, 64, 96, 1024}
    assert survey.works[0].shape_count == 4


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 30), st.integers(1, 4000)), min_size=1, max_size=80))
def test_most_of_a_kernels_time_is_looked_at_or_it_is_said(work: list[tuple[int, int]]) -> None:
    """In however many configurations it is launched; as many as the limit where that is too few."""
    every = [sized(32 * block, length, 9000 * n) for n, (block, length) in enumerate(work)]
    survey, trace = surveyed(every)
    found = pick(survey, trace, Wish())
    seen = {work[number - 1][0] for number in found.invocations}
    share = sum(x[1] for x in work if x[0] in seen) / sum(x[1] for x in work)
    assert share >= 0.9 or (survey.steady is None and len(seen) >= 12 and found.notices)
    for notice in found.notices:
        there = len({block for block, _ in work})
        assert notice.code == "few-configurations"
        assert notice.message.startswith(f"big: 12 of {there} configurations are picked for ncu")


def test_grids_that_are_nearly_equal_are_looked_at_once() -> None:
    """Twenty grids of nearly one size leave room for the other sizes."""
    grids = [*range(2040, 2060), *(64 * n for n in range(1, 6))]
    every = [sized(32, 900, 1000 * n)._replace(grid=(x, 1, 1)) for n, x in enumerate(grids)]
    found = pick(*surveyed(every), Wish())
    assert {min(grids[n - 1], 2040) for n in found.invocations} >= {2040, 320, 256, 192}
    assert not found.notices and len(found.invocations) < 7
    like = Seen("big", ((63, 1, 1), (32, 1, 1), 0))
    found = pick(*surveyed(every), Wish(like=(like,)))
    assert 64 in {grids[n - 1] for n in found.invocations}


def test_what_iterations_launch_is_looked_at_before_what_a_tuner_tried() -> None:
    """A tuner tries four configurations, clears the cache between them, and calls one of them."""
    every: list[TracedLaunch] = []
    tried = [(32, n) for n in range(40)] + [(64, n) for n in range(40)]
    tried += [(128, n) for n in range(40)] + [(256, n) for n in range(40)]
    for block, _ in tried:
        every.append(sized(block, 900, 2000 * len(every)))
        every.append(launch("clear", 2000 * len(every), 2000 * len(every) + 1500))
    every += [sized(64, 300, 2000 * (len(every) + n)) for n in range(50)]
    survey, trace = surveyed(every)
    assert survey.steady is not None and survey.works[0].name == "clear"
    found = pick(survey, trace, Wish())
    assert [survey.works[place].name for place in found.works] == ["big"]
    blocks = [each.block[0] for each in every if each.symbol == "big"]
    assert {blocks[number - 1] for number in found.invocations} == {64}
    both = pick(survey, trace, Wish(top=2))
    assert [survey.works[place].name for place in both.works] == ["big", "clear"]
    named = pick(survey, trace, Wish(kernel="clear"))
    assert [survey.works[place].name for place in named.works] == ["clear"]


def test_what_another_capture_looked_at_is_looked_at() -> None:
    like = Seen("low", ((1, 1, 1), (1, 1, 1), 0))
    assert names(Wish(like=(like,))) == ["big", "low"]


def names(wish: Wish) -> list[str]:
    """The kernels that are looked at of a program with three."""
    launches = [launch("big", 0, 900), launch("mid", 900, 980), launch("low", 980, 1000)]
    survey, trace = surveyed(launches)
    return [survey.works[place].name for place in pick(survey, trace, wish).works]


def test_kernels_are_picked_by_their_time_or_by_name() -> None:
    assert names(Wish()) == ["big"]  # 90% of the time
    assert names(Wish(top=2)) == ["big", "mid"]
    (few,) = pick(
        *surveyed([launch(x, 9 * n, 9 * n + 5) for n, x in enumerate("abcdefg")]), Wish()
    ).notices
    assert few.message == "5 of 7 kernels are picked for ncu: 71.4% of the time (--top N)"
    assert names(Wish(kernel="^lo")) == ["low"]
    with pytest.raises(UsageError, match="no kernel of the program matches"):
        names(Wish(kernel="nothing"))
    with pytest.raises(UsageError, match="not a regular expression"):
        names(Wish(kernel="("))


@pytest.mark.parametrize(
    ("symbol", "name"),
    [
        ("_Z4gemmPf", "gemm"),
        ("_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11FillFunctorIfEEEEviT0_",
         "vectorized_elementwise_kernel"),
        ("_ZN12_GLOBAL__N_17softmaxEPf", "softmax"),
        ("add_kernel_0d1d2de3c", "add_kernel"),
        ("sgemm_v3", "sgemm_v3"),
    ],
)  # fmt: skip
def test_kernels_have_the_names_of_their_author(symbol: str, name: str) -> None:
    assert name_of(symbol, demangled(symbol)) == name
    assert name_of(symbol, symbol) == name  # also where nothing demangles


def test_a_large_program_is_kept_in_little_and_read_quickly(tmp_path: Path) -> None:
    random = Random(7)
    kernels = [f"_ZN5model5layerILi{n}EEE{'vPfPKfiiii' * 20}" for n in range(300)]
    now, launches = 0, []
    for _ in range(20_000):
        length = random.randrange(1000, 200_000)
        grid = (random.randrange(1, 64), 1, 1)
        symbol = random.choice(kernels)
        launches.append(TracedLaunch(symbol, 1, 0, 7, False, now, now + length, grid, (256, 1, 1)))
        now += length
    begin = time.monotonic()
    survey, _ = surveyed(launches)
    capture = ProgramCapture(
        name="big", command=("x",), captured="2026-11-22T06:00:00Z", survey=survey, state=State()
    )
    path, _ = Shelf(tmp_path).save(capture, None)
    assert Shelf(tmp_path).load("big") == capture
    assert time.monotonic() - begin < 100
    assert sum(file.stat().st_size for file in path.iterdir()) < 500_000


@pytest.mark.nvcc
def test_the_tracer_builds_with_the_toolkit_that_is_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if find_cupti() is None or shutil.which("cc") is None:
        pytest.skip("no CUPTI or no C compiler here")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    library = tracer()
    symbols = subprocess.run(
        ["nm", "-D", str(library)], capture_output=True, text=True, check=True
    ).stdout
    assert " T InitializeInjection" in symbols and "cuptiActivityEnable" in symbols
    assert tracer() == library and SOURCE.is_file()


def test_a_damaged_capture_is_an_error_with_a_way_out(tmp_path: Path) -> None:
    survey, _ = surveyed([launch("a", 0, 5)])
    capture = ProgramCapture(
        name="one", command=("x",), captured="2026-11-22T06:00:00Z", survey=survey
    )
    shelf = Shelf(tmp_path)
    path, _ = shelf.save(capture, None)
    file = path / "capture.json.zst"
    whole = file.read_bytes()
    for cut in (0, 5, len(whole) // 2, len(whole) - 1):
        file.write_bytes(whole[:cut])
        with pytest.raises(DataError, match="damaged"):
            shelf.load("one")
    with pytest.raises(UsageError, match="no capture"):
        shelf.load("two")
    with pytest.raises(UsageError, match="cannot be named"):
        shelf.load("../one")


#: Kernels of one template, as a demangler has them.
TEMPLATES = ("void gemm<float, (int)4>(float *)", "void gemm<double, (int)4>(double *)")


def templates() -> tuple[Survey, Trace]:
    every = [launch(f"_Z4gemm{n}", 1000 * n, 1000 * n + 900 - n) for n in range(2)]
    survey, trace = surveyed(every)
    works = tuple(
        replace(work, name="gemm", signature=text)
        for work, text in zip(survey.works, TEMPLATES, strict=True)
    )
    return replace(survey, works=works), trace


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("gemm", (0, 1)),
        ("gemm<double, (int)4>", (1,)),  # as ncu prints it
        ("gemm<double, 4>", (1,)),  # as a source has it
        ("void gemm<float, (int)4>(float *)", (0,)),
        ("gemm<float", (0,)),
        ("gemm<.*4>", (0, 1)),
    ],
)
def test_template_arguments_name_a_kernel(asked: str, found: tuple[int, ...]) -> None:
    """They are text, of which a regular expression would take the brackets for its own."""
    assert pick(*templates(), Wish(kernel=asked, top=5)).works == found


def test_a_hint_names_each_kernel_of_a_template_by_a_pattern_that_finds_it_alone() -> None:
    survey, trace = templates()
    with pytest.raises(UsageError, match="no kernel of the program matches") as caught:
        pick(survey, trace, Wish(kernel="nothing"))
    hinted = shlex.split(caught.value.hint.partition(": ")[2].rstrip("."))
    for place, word in enumerate(hinted):
        assert pick(survey, trace, Wish(kernel=word.rstrip(","), top=5)).works == (place,)
    assert len(hinted) == 2
    with pytest.raises(UsageError, match="is not a regular expression"):
        pick(survey, trace, Wish(kernel="gemm<(float"))
