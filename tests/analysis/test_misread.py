"""Counters that mislead: labels by hand of recorded launches, and each reason by itself."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.factories import make_instructions, make_launch, make_profile, with_metrics
from workbench.analysis.compare import compare
from workbench.analysis.misread import Opinion, conflicts_told, opinions
from workbench.model import Launch, Profile
from workbench.store.codec import decode
from workbench.views.text.documents import show_document

PROFILES = Path(__file__).resolve().parents[2] / "profiles" / "h200"
LOADS, STORES = "shared_load_bank_conflicts", "shared_store_bank_conflicts"
ALL, FULL = "shared_bank_conflicts", "theoretical_occupancy"
_L1 = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared"
_ONE = {"inst_executed": {1: 1000, 3: 1000}}


def recorded(version: str, problem: str) -> Profile:
    return decode(PROFILES / version / f"{problem}.ncu.json.zst", Profile)


# Labelled by hand from the machine code, before anything was printed: of each counter whether the
# addresses give another number, which, and the word that tells why.
BY_HAND = [
    # 4-byte accesses, a pass each: no two lanes can have met.
    ("sgemm/v3", "n1024", {LOADS: (0, "arbitration"), STORES: (0, "arbitration")}),
    # Columns of a tile, 16 passes a store: the counter is right of them; its loads are waits.
    ("sgemm/v2", "n1024", {LOADS: (0, "arbitration")}),
    # Padded loads of 16 bytes without a conflict, neither counted nor there.
    ("sgemm/v5", "n1024", {STORES: (0, "arbitration")}),
    # No LDS, no STS has one: all are 4-byte cp.async.
    ("sgemm/v7", "n1024", {ALL: (786_432, "asynchronous copies")}),
    # 16-byte cp.async.cg that no counter of conflicts knows.
    ("sgemm/v10", "n1024", {ALL: (561_664, "bypass the L1"), FULL: (None, "")}),
    # Four rows of a tile, eight lanes each at one address, in four passes where two would do.
    ("conv2d/v3", "c32_h64_k128", {LOADS: (None, "share words"), STORES: (0, "arbitration")}),
    # Stores of one byte, four lanes a word: a pass each, and the unit is 97% busy.
    ("conv2d_int8/v7", "n32_c128", {LOADS: (0, "arbitration"), STORES: (0, "arbitration")}),
    # ldmatrix in eight passes for four: the counter is right. Stores of 8 bytes: twice too many.
    ("conv2d_half/v1", "n32_c128", {STORES: (1_280_000, "other")}),
    # Stores to columns, sixteen passes for one: both the same.
    ("sgemm/v21", "n1024", {}),
    # A loop over 4-byte words and wide ones of one address for all lanes.
    ("sgemm/v1", "n1024", {LOADS: (0, "arbitration"), STORES: (0, "arbitration")}),
]


@pytest.mark.parametrize(("version", "problem", "labels"), BY_HAND, ids=[v for v, _, _ in BY_HAND])
def test_labels_of_recorded_kernels(
    version: str, problem: str, labels: dict[str, tuple[int | None, str]]
) -> None:
    told = {one.counter: one for one in opinions(recorded(version, problem).launches[-1])}
    assert set(told) - {FULL} == set(labels) - {FULL}
    for counter, (exact, word) in labels.items():
        if word:
            assert (told[counter].exact, word in told[counter].why) == (exact, True), told[counter]


def conflicted(loads: int, stores: int, whole: int | None = None) -> dict[str, int]:
    by = {f"{_L1}_op_ld.sum": loads, f"{_L1}_op_st.sum": stores}
    return {**by, f"{_L1}.sum": loads + stores if whole is None else whole}


def launch_of(taken: int, ideal: int, **counted: int) -> Launch:
    """A store and a load, 1,000 times each; `taken` passes of the load, and its `ideal`."""
    table = make_instructions(
        **_ONE,
        memory_l1_wavefronts_shared={1: 1000, 3: taken},
        memory_l1_wavefronts_shared_ideal={1: 1000, 3: ideal},
    )
    launch = make_launch(instructions=table)
    counted["memory_l1_wavefronts_shared"] = 1000 + taken
    return with_metrics(make_profile(launches=(launch,)), **counted).launches[0]


def of(launch: Launch, counter: str) -> list[Opinion]:
    return [one for one in opinions(launch) if one.counter == counter]


def test_counts_that_agree_have_no_second_opinion() -> None:
    assert not of(launch_of(32_000, 1000, **conflicted(31_500, 0)), LOADS)


def test_waits_are_not_conflicts() -> None:
    (one,) = of(launch_of(1000, 1000, **conflicted(400, 0)), LOADS)
    assert (one.reported, one.exact) == (400, 0)
    (some,) = of(launch_of(1500, 1000, **conflicted(900, 0)), LOADS)
    assert some.exact == 500 and "400" in some.why


def test_of_wide_loads_that_share_words_nothing_is_claimed() -> None:
    (one,) = of(launch_of(4000, 4000, **conflicted(1000, 0)), LOADS)
    assert one.exact is None
    # One in a hundred of them is not how a conflict of addresses looks.
    (rare,) = of(launch_of(4000, 4000, **conflicted(10, 0)), LOADS)
    assert rare.exact == 0


def test_what_was_not_collected_has_no_opinion() -> None:
    bare = make_launch(instructions=make_instructions(**_ONE))
    assert not of(bare, LOADS) and not of(launch_of(1000, 1000), LOADS)
    part = with_metrics(
        make_profile(launches=(launch_of(1000, 1000, **conflicted(400, 0)),)),
        memory_l1_wavefronts_shared=9000,
    )
    assert not of(part.launches[0], LOADS)
    assert not opinions(replace(launch_of(1000, 1000, **conflicted(400, 0)), profiled=False))


def test_a_kernel_without_shared_accesses_has_no_conflicts() -> None:
    table = make_instructions(
        inst_executed={0: 1000},
        memory_l1_wavefronts_shared={},
        memory_l1_wavefronts_shared_ideal={},
    )
    launch = make_launch(instructions=table)
    profile = with_metrics(
        make_profile(launches=(launch,)), **conflicted(0, 0, 1865), memory_l1_wavefronts_shared=0
    )
    (one,) = of(profile.launches[0], ALL)
    assert one.exact == 0 and "no instruction" in one.why


@pytest.mark.parametrize(("blocks", "exact"), [(32, 12.5), (132, 12.5), (133, 25.0), (4096, None)])
def test_a_grid_of_few_blocks_bounds_its_occupancy(blocks: int, exact: float | None) -> None:
    names = {
        f"launch__occupancy_limit_{by}": 8 for by in ("registers", "shared_mem", "warps", "blocks")
    }
    launch = make_launch(grid=(blocks, 1, 1))
    theory = {"sm__maximum_warps_per_active_cycle_pct": 100.0, "launch__sm_count": 132}
    profile = with_metrics(make_profile(launches=(launch,)), **names, **theory)
    assert [one.exact for one in of(profile.launches[0], FULL)] == (
        [] if exact is None else [exact]
    )


def test_a_comparison_says_both_where_only_the_counter_moved() -> None:
    old, new = (
        make_profile(launches=(launch_of(1000, 1000, **conflicted(loads, 0)),))
        for loads in (50, 900)
    )
    (text,) = conflicts_told(old, new)
    assert "50 → 900" in text and "as before" in text
    assert text in compare(old, new).warnings
    real = make_profile(launches=(launch_of(1900, 1000, **conflicted(900, 0)),))
    assert not conflicts_told(old, real)


def test_json_has_them() -> None:
    document = show_document(recorded("sgemm/v3", "n1024"))
    (launch,) = document["launches"]
    assert {(one["counter"], one["exact"]) for one in launch["opinions"]} == {
        (LOADS, 0),
        (STORES, 0),
    }
