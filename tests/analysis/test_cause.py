"""Which counter explains a change of time, and where it moved."""

from __future__ import annotations

import math
from collections.abc import Mapping

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.factories import make_launch, make_profile, make_timing
from workbench.analysis.attribution import Attribution, CounterSplit, Part
from workbench.analysis.cause.finding import _stalls, beside_of, held_nothing_up
from workbench.analysis.cause.hypotheses import Behaviour, Hypothesis, rank
from workbench.analysis.cause.places import Link, Origin, place_of
from workbench.analysis.compare import Comparison, compare
from workbench.analysis.duration import StallDelta, TimePart, TimeSplit
from workbench.analysis.limits.limit import RESOURCES, Load, Resource
from workbench.analysis.sentence import _unexplained
from workbench.analysis.source.hunks import Hunk
from workbench.analysis.story import Step
from workbench.counters import catalog
from workbench.model import InstructionTable, Metric, Profile

INSTRUCTIONS = "smsp__inst_executed.sum"
DURATION = "gpu__time_duration.sum"
LOADS, OCCUPIED = "long_scoreboard", "sm__warps_active.avg.pct_of_peak_sustained_active"


def report(metrics: Mapping[str, float]) -> Profile:
    """A report of one launch with these metrics."""
    given = {name: Metric(value=value) for name, value in metrics.items()}
    return make_profile(launches=(make_launch(metrics=given, instructions=InstructionTable()),))


def compared(
    old: Mapping[str, float], new: Mapping[str, float], outside: tuple[float, float] | None = None
) -> Comparison:
    times = [make_timing(seconds) if seconds else None for seconds in outside or (None, None)]
    return compare(report(old), report(new), old_time=times[0], new_time=times[1])


def side(
    seconds: float, shares: Mapping[str, float] = {}, waits: Mapping[str, float] = {}
) -> Behaviour:
    """A version: shares of peaks in %, and its time by warp state (parts of it)."""
    known: dict[str, Resource] = {resource.id: resource for resource in RESOURCES}
    return Behaviour(
        values={},
        waits={state.id: waits.get(state.id, 0.0) * seconds for state in catalog().group("stalls")},
        busy={
            r: Load(resource=known[r], elapsed=share, active=share) for r, share in shares.items()
        },
    )


def first(found: tuple[Hypothesis, ...]) -> tuple[str, float]:
    return (found[0].counter, round(found[0].score, 2)) if found else ("", 0.0)


@pytest.mark.parametrize(("roles", "named"), [(False, True), (True, False)])
@pytest.mark.parametrize("fit", [False, True])
def test_more_warps_of_another_kind_hide_nothing(fit: bool, roles: bool, named: bool) -> None:
    """A warpgroup that copies for two others makes half as many warps more, and no more work."""
    occupied = "sm__maximum_warps_per_active_cycle_pct" if fit else OCCUPIED
    comparison = compared({DURATION: 1e-3, occupied: 10.0}, {DURATION: 0.7e-3, occupied: 15.0})
    before, after = side(1e-3, {"issue": 20}), side(0.7e-3, {"issue": 30})
    found = rank(comparison, before, msgspec.structs.replace(after, roles=roles))
    counter = "theoretical_occupancy" if fit else "achieved_occupancy"  # where that is unknown
    assert (counter in {each.counter for each in found}) is named


@given(st.floats(0.1, 10), st.floats(0.1, 10), st.floats(0, 100), st.floats(0.01, 0.99))
@example(1.0625, 7.0, 75.0, 0.5)
def test_no_hypothesis_says_the_opposite_of_what_happened(
    time: float, work: float, issue: float, waited: float
) -> None:
    comparison = compared(
        {DURATION: 1e-3, INSTRUCTIONS: 1e6}, {DURATION: 1e-3 * time, INSTRUCTIONS: 1e6 * work}
    )
    waits = {"long_scoreboard": waited, "selected": 1 - waited}
    found = rank(
        comparison, side(1e-3, {"issue": issue}, waits), side(1e-3 * time, {"issue": issue}, waits)
    )
    assert all(h.effect * math.log(time) > 0 and 0 < h.score <= 1 for h in found)
    # Instructions that filled the issue slots come before a wait that happens to explain more.
    scores = [h.score for h in found if h.counter != "instructions"]
    assert scores == sorted(scores, reverse=True)


def test_a_named_wait_is_told_however_little_it_moved() -> None:
    old, new = (side(s, waits={LOADS: 0.5, "selected": 0.5}) for s in (1.0, 0.999))
    assert _stalls(old, new, ()) == ()
    assert [each.stall for each in _stalls(old, new, {LOADS})] == [LOADS]


def test_a_wait_of_arithmetic_for_itself_counts_only_where_nothing_else_does() -> None:
    waits = {"dispatch_stall": 0.3, "selected": 0.7}, {"dispatch_stall": 0.125, "selected": 0.875}
    sides = side(1e-3, {}, waits[0]), side(0.8e-3, {}, waits[1])
    seconds = {DURATION: 1e-3}, {DURATION: 0.8e-3}
    assert first(rank(compared(*seconds), *sides))[0] == "dispatch_stall"
    counted = compared({**seconds[0], INSTRUCTIONS: 1e6}, {**seconds[1], INSTRUCTIONS: 0.8e6})
    found = rank(counted, *sides)
    assert [each.counter for each in found] == ["instructions"]


@pytest.mark.parametrize(("local", "score"), [(0.0, 1.0), (5e5, 0.47)])
def test_sectors_of_local_memory_are_no_reads_that_warps_wait_for(
    local: float, score: float
) -> None:
    comparison = compared({DURATION: 1e-3, L2: 1e8}, {DURATION: 0.8e-3, L2: 0.5e8})
    values, waits = {"global_sectors": 5e5, "local_sectors": local}, {"long_scoreboard": 0.8}
    sides = (side(seconds, {}, {**waits, "selected": 0.2}) for seconds in (1e-3, 0.8e-3))
    found = rank(comparison, *(msgspec.structs.replace(one, values=values) for one in sides))
    assert first(found) == ("l2_read_sectors", score)


@pytest.mark.parametrize(("cycles", "same"), [(1e6, True), (2e6, False)])
def test_a_full_pipe_was_held_up_by_no_wait_where_it_did_the_same_work(
    cycles: float, same: bool
) -> None:
    pipe = "sm__pipe_fma_cycles_active.avg.pct_of_peak_sustained_active"
    active, sides = "sm__cycles_active.avg", (side(1e-3, {"fma": 90}), side(1e-3, {"fma": 90}))
    comparison = compared({pipe: 90.0, active: 1e6}, {pipe: 90.0, active: cycles})
    assert held_nothing_up(comparison, sides) is same


def test_what_is_measured_outside_of_the_profiler_is_explained() -> None:
    metrics = {DURATION: 1e-3, INSTRUCTIONS: 1e6}, {DURATION: 0.8e-3, INSTRUCTIONS: 0.8e6}
    full = {"issue": 90.0}
    sides = side(1e-3, full), side(0.8e-3, full)
    assert rank(compared(*metrics, outside=(1e-3, 0.8e-3)), *sides)
    assert not rank(compared(*metrics, outside=(1e-3, 1.1e-3)), *sides)
    # Where no interval was left outside of it, it is the profiler's own time that is explained.
    inside = compared(*metrics, outside=(1e-3, 0.995e-3))
    assert inside.profiler_alone and rank(inside, *sides)[0].counter == "instructions"


def test_a_time_that_only_the_profilers_clock_moved_is_no_counts() -> None:
    cycles = "smsp__cycles_elapsed.max"
    full = {"issue": 90.0}
    sides = side(1e-3, full), side(0.95e-3, full)

    def ranked(after: float) -> list[str]:
        comparison = compared(
            {DURATION: 1e-3, INSTRUCTIONS: 1e6, cycles: 1e6},
            {DURATION: 0.95e-3, INSTRUCTIONS: 0.95e6, cycles: after},
            outside=(1e-3, 1e-3),
        )
        assert comparison.profiler_alone
        return [found.counter for found in rank(comparison, *sides)]

    assert ranked(0.95e6) == ["instructions"]
    assert not ranked(0.998e6)


@pytest.mark.parametrize(("outside", "named"), [(None, True), ((1e-3, 0.9e-3), False)])
def test_the_profilers_clock_explains_no_time_outside(
    outside: tuple[float, float] | None, named: bool
) -> None:
    clock = "smsp__cycles_elapsed.avg.per_second"
    comparison = compared(
        {DURATION: 1e-3, clock: 1.6e9}, {DURATION: 0.9e-3, clock: 1.78e9}, outside
    )
    found = rank(comparison, side(1e-3), side(0.9e-3))
    assert ("sm_clock" in {one.counter for one in found}) is named


def hunk(number: int) -> Hunk:
    lines = (10 * number, 10 * number)
    return Hunk(
        id=number, old=lines, new=lines, kind="code", symbols=(), old_file="k", new_file="k"
    )


def split(amounts: Mapping[tuple[int, ...], int], elsewhere: int = 0) -> CounterSplit:
    parts = [
        Part(link="hunk", hunks=hunks, symbols=(), note="", delta=amount, lines=())
        for hunks, amount in amounts.items()
    ]
    if elsewhere:
        parts.append(
            Part(link="elsewhere", hunks=(), symbols=(), note="", delta=elsewhere, lines=())
        )
    return CounterSplit(
        counter="inst_executed",
        id="instructions",
        unit="inst",
        old=0,
        new=0,
        delta=sum(part.delta for part in parts),
        parts=tuple(parts),
        chip_old=None,
        chip_new=None,
    )


def place(*splits: CounterSplit, hunks: int = 3, time: TimeSplit | None = None) -> Origin:
    attribution = Attribution(
        hunks=tuple(hunk(n + 1) for n in range(hunks)),
        counters=splits,
        launches=(),
        missing={},
        words=(),
    )
    return place_of("instructions", "count", attribution, time, ())


def seconds(**amounts: float) -> TimeSplit:
    parts = [
        TimePart(
            link="hunk",
            hunks=(int(name[1:]),),
            symbols=(),
            note="",
            delta_s=amount,
            low_s=amount,
            high_s=amount,
            stalls=(StallDelta(stall="wait_stall", delta_s=amount, low_s=amount, high_s=amount),),
        )
        for name, amount in amounts.items()
    ]
    whole = sum(amounts.values())
    return TimeSplit(
        old_s=1.0, new_s=1.0 + whole, delta_s=whole, samples_old=9, samples_new=9,
        parts=tuple(parts),
    )  # fmt: skip


def test_the_hunk_with_most_of_the_change_is_named_with_its_share() -> None:
    assert place(split({(1,): -80, (2,): -20})) == Origin(link="hunk", hunks=(1,), share=0.8)
    assert place(split({(1,): -60, (2,): -40})).hunks == (1, 2)


def test_what_leaves_one_hunk_for_another_is_no_cause_in_either() -> None:
    # Hunk 1 gave to hunk 2 what it had; what is left of the change is hunk 3's.
    assert place(split({(1,): -1000, (2,): 998, (3,): -30})).hunks == (3,)


def test_a_hunk_that_gave_part_of_its_work_to_another_is_named_with_it() -> None:
    assert place(split({(1,): -100, (2,): 50})).hunks == (1, 2)


def test_what_is_shared_with_a_hunk_that_is_not_named_is_not_the_named_ones() -> None:
    found = place(split({(1,): -50, (2, 3): -50}))
    assert found.hunks == (1, 2, 3) and found.share == 1.0
    found = place(split({(1,): -90, (2, 3): -10}))
    assert found == Origin(link="hunk", hunks=(1,), share=0.9)


def test_a_hunk_all_of_whose_part_a_larger_one_shares_is_not_named() -> None:
    assert place(split({(1, 3): -50, (1, 2): -25, (1, 3, 4): -25}), hunks=4).hunks == (1,)


@pytest.mark.parametrize(("rest", "said"), [(0.5, True), (-0.5, False)])
def test_an_unlinked_rest_of_the_other_sign_is_left_out(rest: float, said: bool) -> None:
    time = seconds(h1=rest, h2=1.0)
    parts = (msgspec.structs.replace(time.parts[0], link="elsewhere", hunks=()), *time.parts[1:])
    assert bool(_unexplained(msgspec.structs.replace(time, parts=parts))) == said


@pytest.mark.parametrize(("blocks", "after"), [((128, 1024), 96.0), ((1024, 128), 12.0)])
def test_blocks_below_a_wave_are_why_warps_came_or_went(
    blocks: tuple[int, int], after: float
) -> None:
    def side(count: int, occupied: float, ms: float) -> Profile:
        return report({
            "launch__grid_size": count, "launch__waves_per_multiprocessor": count / 1056,
            "sm__maximum_warps_per_active_cycle_pct": 100.0, DURATION: ms * 1e-3, CYCLES: ms * 1e6,
            OCCUPIED: occupied, "sm__inst_issued" + SHARE: 5.0,
        })  # fmt: skip

    old, new = side(blocks[0], 108.0 - after, after / 10), side(blocks[1], after, 10.8 - after / 10)
    text = Step(old, new, ("old", "new")).story.sentence
    assert f": blocks {blocks[0]:,} → {blocks[1]:,} (" in text and " waves)" in text


def test_occupancy_that_only_the_blocks_size_moved_is_the_launchs() -> None:
    def side(threads: int, fit: float, ms: float) -> Profile:
        made = report({
            "launch__grid_size": 2**18 / threads, "launch__block_size": threads, OCCUPIED: fit - 2,
            "sm__maximum_warps_per_active_cycle_pct": fit, DURATION: ms * 1e-3, CYCLES: ms * 1e6,
            "launch__registers_per_thread": 32, "sm__inst_issued" + SHARE: 5.0,
        })  # fmt: skip
        return msgspec.structs.replace(made, sources=())

    story = Step(side(32, 50.0, 8.0), side(64, 100.0, 4.0), ("old", "new")).story
    assert [each.place.link for each in story.cause.proofs] == ["launch"]
    assert "98.0% (+50.0 points): threads per block 32 → 64" in story.sentence


def test_what_no_hunk_has_is_code_that_nobody_edited() -> None:
    assert place(split({(1,): -5}, elsewhere=-95)).link == "compiler"


def test_without_a_line_counter_nothing_ties_the_counter_to_a_hunk() -> None:
    assert place() == Origin(link="elsewhere")
    assert place(time=seconds(h1=-0.1, h2=-0.8)) == Origin(link="hunk", hunks=(2,), by="time")
    assert place(hunks=1) == Origin(link="hunk", hunks=(1,), by="one")


def test_an_unknown_source_is_no_edit() -> None:
    attribution = Attribution(
        hunks=(hunk(1),), counters=(split({(1,): -80}),), launches=(), missing={}, words=()
    )
    found = place_of("instructions", "count", attribution, None, (), known=False)
    assert found == Origin(link="source unknown")


@pytest.mark.parametrize(
    ("requests", "sectors", "tags", "named"),
    [
        # Coalescing: as many requests, each of a sector in eight.
        ((32_000, 32_000), (1_024_000, 128_000), (1_024_000, 32_000), "sectors_per_request"),
        # Tiles: a request in 32, each of more sectors than before.
        ((1_024_000, 32_000), (16_896_000, 1_024_000), (16_896_000, 1_024_000), "requests"),
    ],
)
def test_without_a_time_the_counter_is_the_one_that_a_person_names(
    requests: tuple[int, int], sectors: tuple[int, int], tags: tuple[int, int], named: str
) -> None:
    load = "l1tex__t_{}_pipe_lsu_mem_global_op_ld.sum"
    counts = {
        load.format("requests"): requests,
        load.format("sectors"): sectors,
        "memory_l1_tag_requests_global": tags,
    }
    old, new = (report({name: both[at] for name, both in counts.items()}) for at in (0, 1))
    cause = Step(old, new, ("old", "new")).story.cause
    assert cause is not None and cause.proofs[0].counter.id == f"global_load_{named}"


def test_without_a_time_what_was_gained_is_told_beside_what_it_cost() -> None:
    """A transpose by way of shared memory whose tile has conflicts."""
    counts = {
        "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum": (131_072, 131_072),
        "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum": (4_194_304, 524_288),
        "memory_l1_tag_requests_global": (4_325_376, 262_144),
        "memory_l1_wavefronts_shared": (0, 4_325_376),
    }

    def told(first: int) -> str:
        sides = [
            report({name: both[at] for name, both in counts.items()}) for at in (first, 1 - first)
        ]
        return Step(sides[0], sides[1], ("old", "new")).story.sentence

    gained, lost = told(0), told(1)
    assert gained.index("fell") < gained.index("Shared wavefronts rose 0 → 4.33 M")
    assert lost.index("Shared wavefronts fell 4.33 M → 0") < lost.index("rose")
    counts["memory_l1_wavefronts_shared"] = (0, 1_000_000)
    assert "Shared" not in told(0) + told(1)


SHARE, STATE = (
    ".avg.pct_of_peak_sustained_elapsed",
    "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio",
)
CYCLES, ISSUED = "sm__cycles_elapsed.max", "sm__inst_issued" + SHARE
L2, LOCAL = "lts__t_sectors_srcunit_tex_op_read.sum", "memory_l2_theoretical_sectors_local"
WAITS = {
    STATE.format(state): ratio
    for state, ratio in (("long_scoreboard", 3.0), ("wait", 1.5), ("selected", 1.0))
}


def named(
    before: Mapping[str, float], after: Mapping[str, float], slower: float
) -> tuple[str, str]:
    """The first proof's counter, and the sentence, of a step that took longer (or back)."""
    base = {DURATION: 1e-3, CYCLES: 1.5e6, INSTRUCTIONS: 1e8}
    late = {**base, DURATION: 1e-3 * slower, CYCLES: 1.5e6 * slower}
    old, new = report({**base, **before}), report({**late, **after})
    back = Step(new, old, ("new", "old")).story
    assert back.cause.proofs and "No counter" not in back.sentence
    story = Step(old, new, ("old", "new")).story
    assert "No counter" not in story.sentence
    return story.cause.proofs[0].counter.id, story.sentence


@pytest.mark.parametrize(
    ("unit", "counter"),
    [
        ("sm__pipe_fp64_cycles_active", "fp64_utilization"),
        ("sm__inst_executed_pipe_xu", "xu_utilization"),
        ("sm__inst_executed_pipe_lsu", "lsu_utilization"),
        ("sm__pipe_alu_cycles_active", "alu_utilization"),
        ("sm__pipe_tensor_cycles_active", "tensor_utilization"),
        ("l1tex__data_pipe_lsu_wavefronts", "l1_throughput"),
        ("lts__t_sectors", "l2_throughput"),
        ("gpu__dram_throughput", "dram_throughput"),
        ("idc__request_cycles_active", "sm_throughput"),
        ("l1tex__f_wavefronts", "sm_throughput"),
    ],
)
@pytest.mark.parametrize("share", [0.0, 0.4])
def test_a_unit_that_had_nothing_to_do_is_a_cause(unit: str, counter: str, share: float) -> None:
    idle = {ISSUED: 20.0}
    assert named({**idle, unit + SHARE: share}, {**idle, unit + SHARE: 85.0}, 4.0)[0] == counter


@pytest.mark.parametrize(
    ("before", "after", "slower", "counter", "words"),
    [
        # Nothing is known but the counts that moved.
        ({L2: 1e8}, {L2: 2e8}, 1.8, "l2_read_sectors", "×2.00"),
        ({"lts__t_sectors.sum": 1e8}, {"lts__t_sectors.sum": 2e8}, 1.8, "l2_sectors", "×2.00"),
        ({"dram__bytes.sum": 1e8}, {"dram__bytes.sum": 2e8}, 1.8, "dram_bytes", "×2.00"),
        # As many were read: what moved is no load.
        (
            {L2: 1e8, "lts__t_sectors.sum": 1e8, "lts__t_sectors" + SHARE: 90.0},
            {L2: 1e8, "lts__t_sectors.sum": 2e8, "lts__t_sectors" + SHARE: 95.0},
            *(1.8, "l2_sectors", "×2.00"),
        ),
        ({}, {INSTRUCTIONS: 1.1e8}, 1.1, "instructions", "+10.0%"),
        ({LOCAL: 0.0}, {LOCAL: 69e6}, 3.0, "local_sectors", "registers were spilled"),
        # What spilled comes before the stall that it makes.
        (
            {**WAITS, LOCAL: 0.0},
            {**WAITS, LOCAL: 69e6, STATE.format("lg_throttle"): 9.0},
            3.0,
            "local_sectors",
            "0 → 69.0 M (registers were spilled, or arrays are in local memory)",
        ),
        # Full issue slots are told before what happens to explain as much as was lost.
        (
            {**WAITS, LOCAL: 0.0, L2: 1.0e8, ISSUED: 45.0},
            {**WAITS, LOCAL: 0.0, L2: 1.17e8, ISSUED: 77.0, INSTRUCTIONS: 1.85e8},
            1.044,
            "instructions",
            "+85.0%",
        ),
        # Sectors that doubled are told beside the wait for them.
        (
            {**WAITS, L2: 1e8, "lts__t_sectors" + SHARE: 30.0},
            {**WAITS, L2: 2e8, "lts__t_sectors" + SHARE: 33.0},
            1.8,
            "long_scoreboard",
            "and L2 sectors read by SMs rose 100 M → 200 M",
        ),
    ],
)
def test_a_count_that_went_with_the_time_is_never_denied(
    before: Mapping[str, float], after: Mapping[str, float], slower: float, counter: str, words: str
) -> None:
    found, sentence = named(before, after, slower)
    assert found == counter and words in sentence


@pytest.mark.parametrize("count", ["dram__bytes.sum", INSTRUCTIONS])
def test_threads_with_as_much_each_explain_it_without_source_too(count: str) -> None:
    idle = {"gpu__dram_throughput" + SHARE: 10.0}
    old, new = (
        report({**idle, "launch__thread_count": n, count: n, DURATION: 1e-9 * n})
        for n in (1e6, 763e3)
    )
    told = Step(old, new, ("old", "new")).story.sentence
    assert "the launch has 0.763× as many threads, each with 1× the" in told


@pytest.mark.parametrize(("link", "named"), [("hunk", True), ("launch", False)])
def test_a_count_of_an_edit_stands_beside_a_wait_without_a_place(link: Link, named: bool) -> None:
    wait, sides = Hypothesis("long_scoreboard", "wait", 0.05, 0.7), (side(1e-3), side(1e-3))
    at = Origin(link=link, hunks=(1,))
    comparison = compared({"dram__bytes.sum": 1e6}, {"dram__bytes.sum": 8e6})
    found = beside_of(comparison, wait, Origin(link="elsewhere"), lambda *_: at, sides)
    assert (found is not None) is named
