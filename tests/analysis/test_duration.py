"""The duration's split: adds up, has honest intervals, and says what is missing."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.factories import make_instructions, make_launch, make_metrics, make_profile
from workbench.analysis.split.duration import TimeSplit, split_time, wilson
from workbench.model import Profile, SourceFile
from workbench.ncurep.read import read_report, select_kernels

MIO = "smsp__pcsamp_warps_issue_stalled_mio_throttle"
ISSUING = "smsp__pcsamp_warps_issue_stalled_selected"


def sampled(seconds: float, mio: dict[int, int], issuing: dict[int, int]) -> Profile:
    metrics = make_metrics(**{"gpu__time_duration.sum": seconds})
    table = make_instructions(**{MIO: dict(mio), ISSUING: dict(issuing)})
    return make_profile(launches=(make_launch(metrics=metrics, instructions=table),))


def split(old: Profile, new: Profile) -> TimeSplit:
    found = split_time(old, new)
    assert isinstance(found, TimeSplit)
    return found


def test_padding_saves_time_on_the_store() -> None:
    old = sampled(400e-6, {1: 750}, {0: 250})
    new = sampled(200e-6, {1: 500}, {0: 500})
    text = (old.sources[0].text or "").replace("tile[32][32]", "tile[32][33]")
    new = type(new)(
        **{f: getattr(new, f) for f in new.__struct_fields__ if f != "sources"},
        sources=(SourceFile(path=old.sources[0].path, text=text),),
    )
    found = split(old, new)
    (part,) = found.parts
    # Line 3 holds rows 0 and 1: all samples, so all of the 200 µs.
    assert (part.link, part.hunk, part.symbol) == ("symbol", 1, "tile")
    assert part.delta_s == pytest.approx(-200e-6)
    stalls = {stall.stall: stall.delta_s for stall in part.stalls}
    assert stalls == {"mio_throttle": pytest.approx(-200e-6), "selected": pytest.approx(0.0)}


cells = st.dictionaries(st.integers(0, 4), st.integers(1, 10**6), min_size=1)


@given(a=cells, b=cells, c=cells, d=cells, old=st.floats(1e-7, 10), new=st.floats(1e-7, 10))
def test_parts_add_up_to_the_change(
    a: dict[int, int],
    b: dict[int, int],
    c: dict[int, int],
    d: dict[int, int],
    old: float,
    new: float,
) -> None:
    found = split(sampled(old, a, b), sampled(new, c, d))
    assert sum(part.delta_s for part in found.parts) == pytest.approx(new - old, abs=1e-9)
    for part in found.parts:
        assert part.low_s <= part.delta_s <= part.high_s
        assert sum(s.delta_s for s in part.stalls) == pytest.approx(part.delta_s, abs=1e-9)


@given(total=st.integers(1, 10**7), share=st.floats(0, 1))
def test_wilson_holds_the_share(total: int, share: float) -> None:
    low, high = wilson(share * total, total)
    # The last bit of the bounds is the rounding's.
    assert 0 <= low <= share * (1 + 1e-12) and share * (1 - 1e-12) <= high <= 1
    assert high - low > 0  # no count is certain


def test_interval_covers_the_truth_as_often_as_it_says() -> None:
    rng = random.Random(7)
    truth, covered, rounds = 0.2, 0, 1000
    for _ in range(rounds):
        count = sum(rng.random() < truth for _ in range(200))
        low, high = wilson(count, 200)
        covered += low <= truth <= high
    assert 0.93 <= covered / rounds <= 0.975


def test_fewer_samples_give_a_wider_interval() -> None:
    def width(scale: int) -> float:
        found = split(sampled(1e-3, {1: 6 * scale}, {4: 4 * scale}), sampled(9e-4, {1: 1}, {4: 1}))
        part = next(p for p in found.parts if p.low_s < p.high_s)
        return part.high_s - part.low_s

    assert width(1) > width(100)


def test_no_samples_and_no_duration_are_said() -> None:
    good = sampled(1e-3, {1: 5}, {4: 5})
    blind = make_profile(
        launches=(make_launch(instructions=make_instructions(inst_executed={0: 1})),)
    )
    assert split_time(good, blind) == (
        "time cannot be split: the new side's scale has no warp samples by line"
    )
    timeless = make_profile(
        launches=(make_launch(metrics=make_metrics(**{"gpu__time_duration.sum": None})),)
    )
    found = split_time(timeless, good)
    assert isinstance(found, str) and "the old side's scale has no duration" in found


def test_real_step_by_stall_reason(report: Callable[[str], Path]) -> None:
    ladder = read_report(report("ladder_full"))
    found = split(select_kernels(ladder, "sgemm_v2"), select_kernels(ladder, "sgemm_v3"))
    assert found.samples_old == 53_402 and found.samples_new == 38_362
    assert found.delta_s == pytest.approx(-121.952e-6)
    assert sum(part.delta_s for part in found.parts) == pytest.approx(found.delta_s, abs=1e-12)
    mio = [s.delta_s for p in found.parts for s in p.stalls if s.stall == "mio_throttle"]
    assert sum(mio) == pytest.approx(-94.1e-6, abs=0.1e-6)
    linked = next(part for part in found.parts if part.symbol == "As")
    assert linked.certain and linked.stalls[0].stall == "mio_throttle"
