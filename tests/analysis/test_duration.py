"""The duration's split: adds up, has honest intervals, and says what is missing."""

from __future__ import annotations

import random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from tests.factories import make_instructions, make_launch, make_metrics, make_profile
from workbench.analysis.duration import TimeSplit, split_time, wilson
from workbench.model import Profile, SourceFile

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


def test_a_handful_of_samples_is_no_evidence() -> None:
    (few,) = split(sampled(400e-6, {1: 1}, {}), sampled(100e-6, {1: 10}, {})).parts
    assert not few.certain and few.delta_s == pytest.approx(-300e-6)
    (enough,) = split(sampled(400e-6, {1: 6}, {}), sampled(100e-6, {1: 6}, {})).parts
    assert enough.certain


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


@pytest.mark.parametrize(
    ("count", "total", "low", "high"),
    [
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_wilson_as_published(count: int, total: int, low: float, high: float) -> None:
    """Table I of R. G. Newcombe, Statistics in Medicine 17 (1998), 857-872, method 3."""
    assert wilson(count, total) == pytest.approx((low, high), abs=5e-5)


def stall(found: TimeSplit, name: str) -> tuple[float, float, float]:
    (seen,) = (s for part in found.parts for s in part.stalls if s.stall == name)
    return seen.delta_s, seen.low_s, seen.high_s


def test_a_difference_of_shares_has_the_published_interval() -> None:
    """Table II of R. G. Newcombe, Statistics in Medicine 17 (1998), 873-890, method 10, (a)."""
    old, new = sampled(1.0, {1: 48}, {4: 32}), sampled(1.0, {1: 56}, {4: 14})
    published = pytest.approx((0.2, 0.0524, 0.3339), abs=5e-5)
    assert stall(split(old, new), "mio_throttle") == published
    # Samples of one launch on several instructions are one count.
    apart = sampled(1.0, {1: 20, 3: 28}, {4: 32})
    assert stall(split(apart, new), "mio_throttle") == published
    back = pytest.approx((-0.2, -0.3339, -0.0524), abs=5e-5)
    assert stall(split(new, old), "mio_throttle") == back


def test_launches_add_up() -> None:
    one, other = sampled(3e-4, {1: 30}, {4: 10}), sampled(1e-4, {1: 5}, {4: 5})
    both = make_profile(launches=(*one.launches, *other.launches))
    found = split(both, one)
    assert [found.old_s, found.new_s] == pytest.approx([4e-4, 3e-4])
    assert (found.samples_old, found.samples_new) == (50, 40)
    assert found.delta_s == pytest.approx(-1e-4)
    assert sum(part.delta_s for part in found.parts) == pytest.approx(-1e-4)
    assert sum(s.delta_s for p in found.parts for s in p.stalls if s.stall == "selected") == (
        pytest.approx(-0.5e-4)
    )


def test_launches_of_one_duration_and_as_many_samples_are_two() -> None:
    """The errors of shares of two launches are independent, however alike these are."""
    one = sampled(1e-6, {3: 10}, {}), sampled(2e-6, {3: 20}, {})
    two = (structs.replace(side, launches=side.launches * 2) for side in one)
    single, double = split(*one), split(*two)
    assert double.delta_s == pytest.approx(2 * single.delta_s)
    for before, after in zip(single.parts, double.parts, strict=True):
        assert after.error_s == pytest.approx(2**0.5 * before.error_s)


def test_a_line_that_two_names_explain_equally_is_one_part_of_both() -> None:
    text = "#define A 1\n#define B 2\n__global__ void scale(float* o) { o[A] = B; }\n"
    new_text = text.replace("A 1", "A 3").replace("B 2", "B 4")
    sides = []
    for seconds, source in ((4e-4, text), (2e-4, new_text)):
        made = sampled(seconds, {0: 1}, {1: 3})
        sides.append(msgspec.structs.replace(made, sources=(SourceFile(path="k.cu", text=source),)))
    found = split(*sides)
    assert [(part.hunks, part.symbols) for part in found.parts] == [((1,), ("A", "B"))]
    assert found.parts[0].delta_s == pytest.approx(-2e-4)


def test_a_bound_of_zero_leaves_the_sign_in_doubt() -> None:
    found = split(sampled(1e-3, {1: 5}, {4: 5}), sampled(9e-4, {1: 5}, {4: 5}))
    part = found.parts[0]
    for low, high, certain in ((-2.0, -1.0, True), (-1.0, 0.0, False), (0.0, 1.0, False)):
        assert msgspec.structs.replace(part, low_s=low, high_s=high).certain == certain


def test_interval_covers_the_truth_as_often_as_it_says() -> None:
    rng = random.Random(7)
    truth, covered, rounds = 0.2, 0, 1000
    for _ in range(rounds):
        count = sum(rng.random() < truth for _ in range(200))
        low, high = wilson(count, 200)
        covered += low <= truth <= high
    assert 0.93 <= covered / rounds <= 0.975


def test_no_samples_and_no_duration_are_said() -> None:
    good = sampled(1e-3, {1: 5}, {4: 5})
    blind = make_profile(
        launches=(make_launch(instructions=make_instructions(inst_executed={0: 1})),)
    )
    assert split_time(good, blind) == (
        "time cannot be split: the new side's scale has no warp samples per line"
    )
    # Half of the time, or less of it, may be launches that are too short for a sample.
    brief = sampled(1e-6, {}, {})
    both = [
        structs.replace(side, launches=(*side.launches, *brief.launches))
        for side in (good, sampled(0.7e-3, {1: 5}, {4: 2}))
    ]
    whole = split(*both)
    assert sum(part.delta_s for part in whole.parts) == pytest.approx(whole.delta_s)
    assert [part.delta_s for part in whole.parts if part.note == "no-samples"] == [0.0]
    timeless = make_profile(
        launches=(make_launch(metrics=make_metrics(**{"gpu__time_duration.sum": None})),)
    )
    found = split_time(timeless, good)
    assert isinstance(found, str) and "the old side's scale has no duration" in found
